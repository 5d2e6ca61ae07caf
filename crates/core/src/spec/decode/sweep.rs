//! `[sweeps.NAME]`.

use std::collections::BTreeMap;

use crate::spec::problem::Problem;
use crate::spec::read::{Choice, FromNode, Reader};
use crate::spec::sweep::{Dimension, Domain, Repeats, StopSpec, SweepSpec};
use crate::spec::tree::{Node, Raw};

pub(super) fn sweep(name: &str, sweep: &Reader<'_>) -> Result<SweepSpec, Problem> {
    let space = sweep.tables("space").into_iter();
    let space: Result<BTreeMap<_, _>, Problem> =
        space.map(|(name, reader)| Ok((name.to_owned(), dimension(&reader)?))).collect();
    Ok(SweepSpec {
        name: name.to_owned(),
        job: sweep.need("job")?,
        metric: sweep.need("metric")?,
        goal: sweep.need::<Choice<_>>("goal")?.0,
        sampler: sweep.need::<Choice<_>>("sampler")?.0,
        trials: sweep.get("trials")?,
        parallel: sweep.need("parallel")?,
        repeats: sweep.need("repeats")?,
        stop: stop(sweep)?,
        seed: sweep.need("seed")?,
        space: space?,
    })
}

impl FromNode for Repeats {
    fn from_node(node: &Node) -> Option<Self> {
        match &node.raw {
            Raw::Text(text) if text == "adaptive" => Some(Self::Adaptive),
            _ => u32::from_node(node).map(Self::Each),
        }
    }
}

fn stop(sweep: &Reader<'_>) -> Result<Option<StopSpec>, Problem> {
    let Some(stop) = sweep.table("stop") else { return Ok(None) };
    Ok(Some(StopSpec {
        scheduler: stop.need::<Choice<_>>("scheduler")?.0,
        first: stop.need("first")?,
        factor: stop.need("factor")?,
    }))
}

pub(in crate::spec) fn dimension(reader: &Reader<'_>) -> Result<Dimension, Problem> {
    Ok(Dimension { domain: domain(reader)?, when: reader.get("when")? })
}

fn domain(reader: &Reader<'_>) -> Result<Domain, Problem> {
    if let Some([low, high]) = tuple(reader, "uniform")? {
        return Ok(Domain::Uniform { low, high });
    }
    if let Some([low, high]) = tuple(reader, "log-uniform")? {
        return Ok(Domain::LogUniform { low, high });
    }
    if let Some([low, high, step]) = tuple(reader, "quantized")? {
        return Ok(Domain::Quantized { low, high, step });
    }
    if let Some([low, high]) = tuple(reader, "int")? {
        return Ok(Domain::Int { low, high });
    }
    if let Some([low, high]) = tuple(reader, "log-int")? {
        return Ok(Domain::LogInt { low, high });
    }
    if let Some([low, high]) = tuple(reader, "power-of-two")? {
        return Ok(Domain::PowerOfTwo { low, high });
    }
    if let Some(values) = reader.get("choice")? {
        return Ok(Domain::Choice(values));
    }
    if let Some(values) = reader.get("ordinal")? {
        return Ok(Domain::Ordinal(values));
    }
    if let Some(value) = reader.get("fixed")? {
        return Ok(Domain::Fixed(value));
    }
    if let Some(expression) = reader.get("derived")? {
        return Ok(Domain::Derived(expression));
    }
    reader.need::<bool>("boolean").map(|_| Domain::Boolean)
}

fn tuple<T: FromNode, const N: usize>(reader: &Reader<'_>, key: &str) -> Result<Option<[T; N]>, Problem> {
    let Some(items) = reader.get::<Vec<T>>(key)? else { return Ok(None) };
    items.try_into().map(Some).map_err(|_| reader.problem(key, format!("expected {N} items")))
}
