//! `[sweeps.NAME]`.

use std::collections::BTreeMap;

use crate::space::{Dimension, Domain};
use crate::spec::problem::Problem;
use crate::spec::read::{Choice, FromNode, Reader};
use crate::spec::sweep::{Budget, Mutate, Repeats, StopMode, StopSpec, SweepSpec};
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
        budget: budget(sweep)?,
        parallel: sweep.need("parallel")?,
        repeats: sweep.need("repeats")?,
        aggregate: sweep.get::<Choice<_>>("aggregate")?.map(|choice| choice.0).unwrap_or_default(),
        value: sweep.need::<Choice<_>>("value")?.0,
        stop: stop(sweep)?,
        seed: sweep.need("seed")?,
        space: space?,
        constraints: sweep.need("constraints")?,
        confirm: None,
        known: Vec::new(),
        points: sweep.need("points")?,
        from: sweep.need("from")?,
        retries: sweep.need("retries")?,
        give_up: sweep.need("give-up")?,
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

fn budget(sweep: &Reader<'_>) -> Result<Budget, Problem> {
    let Some(budget) = sweep.table("budget") else { return Ok(Budget::default()) };
    Ok(Budget { gpu_hours: budget.get("gpu-hours")?, time: budget.get("time")? })
}

fn stop(sweep: &Reader<'_>) -> Result<Option<StopSpec>, Problem> {
    let Some(stop) = sweep.table("stop") else { return Ok(None) };
    let first = stop.need("first")?;
    Ok(Some(StopSpec {
        scheduler: stop.need::<Choice<_>>("scheduler")?.0,
        first,
        factor: stop.need("factor")?,
        mode: stop.get::<Choice<StopMode>>("mode")?.map(|choice| choice.0).unwrap_or_default(),
        last: stop.get("last")?,
        every: stop.get("every")?.unwrap_or(first),
        quantile: stop.get("quantile")?.unwrap_or(StopSpec::QUANTILE),
        threshold: stop.get("threshold")?.unwrap_or(StopSpec::THRESHOLD),
        mutate: mutate(&stop)?,
    }))
}

fn mutate(stop: &Reader<'_>) -> Result<Mutate, Problem> {
    let Some(mutate) = stop.table("mutate") else { return Ok(Mutate::default()) };
    let range = tuple(&mutate, "range")?.unwrap_or(Mutate::default().range);
    Ok(Mutate { rate: mutate.need("rate")?, range })
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
