//! The samplers for `bench/samplers`: a study over pipes, and suggestion times.
//!
//! `samplers` reads a study as one line of JSON and answers with parameters; every further line is the result of
//! the last answer, until the next study begins. `samplers time SAMPLER LENGTH REPEATS` asks so often with a history of
//! that many trials.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, Write};

use serde::Deserialize;
use trainyard_core::search::{self, Fate, History, Space, Trial, rng};
use trainyard_core::spec::{Dimension, Domain, Goal, SamplerKind};
use trainyard_core::value::Value;

#[derive(Deserialize)]
struct Study {
    space: BTreeMap<String, Dimension>,
    sampler: SamplerKind,
    trials: u32,
    seed: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["time", sampler, length, repeats] => time(sampler, length.parse()?, repeats.parse()?),
        _ => serve(),
    }
}

fn serve() -> Result<(), Box<dyn Error>> {
    let mut lines = std::io::stdin().lock().lines();
    let mut next = lines.next().transpose()?;
    while let Some(line) = next.take() {
        let study: Study = serde_json::from_str(&line)?;
        let space = Space::new(&study.space, &[])?;
        let sampler = search::sampler(study.sampler, &space, Some(study.trials));
        let mut trials: Vec<Trial> = Vec::new();
        loop {
            let number = trials.len() as u32;
            let history = History::new(Goal::Minimize, &trials);
            let params = sampler.ask(&space, &history, &mut rng(study.seed, number));
            let mut out = std::io::stdout().lock();
            writeln!(out, "{}", serde_json::to_string(&params)?)?;
            out.flush()?;
            let Some(line) = lines.next().transpose()? else { return Ok(()) };
            if line.starts_with('{') {
                next = Some(line);
                break;
            }
            let fate = line.parse().map_or(Fate::Failed, |value| Fate::Done { value });
            trials.push(Trial { number, params, fate, reports: Vec::new() });
        }
    }
    Ok(())
}

/// Ten parameters like those of PPO.
fn space() -> BTreeMap<String, Dimension> {
    let text = |text: &str| Value::Text(text.to_owned());
    let domains = [
        ("clip", Domain::Uniform { low: 0.1, high: 0.4 }),
        ("gamma", Domain::Uniform { low: 0.9, high: 0.999 }),
        ("lambda", Domain::Uniform { low: 0.8, high: 1.0 }),
        ("value", Domain::Uniform { low: 0.1, high: 4.0 }),
        ("rate", Domain::LogUniform { low: 1e-5, high: 1e-2 }),
        ("entropy", Domain::LogUniform { low: 1e-6, high: 1e-1 }),
        ("epochs", Domain::Int { low: 1, high: 20 }),
        ("horizon", Domain::LogInt { low: 8, high: 512 }),
        ("activation", Domain::Choice(vec![text("relu"), text("elu"), text("tanh")])),
        ("schedule", Domain::Choice(vec![text("fixed"), text("linear"), text("adaptive")])),
    ];
    domains.into_iter().map(|(name, domain)| (name.to_owned(), Dimension { domain, when: None })).collect()
}

/// Whoever calls it knows the CPU time of its children better than they do, and takes off that of no repeats.
fn time(sampler: &str, length: u32, repeats: u64) -> Result<(), Box<dyn Error>> {
    let kind: SamplerKind = serde_json::from_value(sampler.into())?;
    let mut dimensions = space();
    if kind == SamplerKind::Cmaes {
        dimensions.retain(|_, dimension| !matches!(dimension.domain, Domain::Choice(_)));
    }
    let space = Space::new(&dimensions, &[])?;
    let trials: Vec<Trial> = (0..length).map(|number| trial(&space, number)).collect();
    let history = History::new(Goal::Minimize, &trials);
    // As a sweep does, trial by trial.
    let losses: Vec<f64> = trials.iter().map(|trial| history.done(trial.fate)).collect();
    let history = history.with_losses(&losses);
    let sampler = search::sampler(kind, &space, Some(length));
    for repeat in 0..repeats {
        std::hint::black_box(sampler.ask(&space, &history, &mut rng(repeat, length)));
    }
    Ok(())
}

fn trial(space: &Space, number: u32) -> Trial {
    let params = space.draw(&mut rng(1, number));
    let value = space.point(&params).iter().map(|at| (at - 0.3).powi(2)).sum();
    Trial { number, params, fate: Fate::Done { value }, reports: Vec::new() }
}
