//! The samplers for `bench/samplers`: a study over pipes, and suggestion times.
//!
//! `samplers` reads a study as one line of JSON and answers with parameters; every further line is the result of
//! the last answer, until the next study begins. `samplers time` prints milliseconds of CPU per suggestion.

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
    match std::env::args().nth(1).as_deref() {
        Some("time") => time(),
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
            let history = History { goal: Goal::Minimize, trials: &trials };
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

fn time() -> Result<(), Box<dyn Error>> {
    let space = Space::new(&space(), &[])?;
    let mut out = std::io::stdout().lock();
    let kinds = [("random", SamplerKind::Random, 10_000), ("tpe", SamplerKind::Tpe, 10_000)];
    let more =
        [("sobol", SamplerKind::Sobol, 10_000), ("cmaes", SamplerKind::Cmaes, 10_000), ("gp", SamplerKind::Gp, 300)];
    for (name, kind, most) in kinds.into_iter().chain(more) {
        for length in [100u32, 300, 1_000, 10_000].into_iter().filter(|length| *length <= most) {
            let trials: Vec<Trial> = (0..length).map(|number| trial(&space, number)).collect();
            let history = History { goal: Goal::Minimize, trials: &trials };
            let sampler = search::sampler(kind, &space, Some(length));
            let repeats = if kind == SamplerKind::Gp { 10 } else { 300 };
            let start = cpu_milliseconds();
            for repeat in 0..repeats {
                std::hint::black_box(sampler.ask(&space, &history, &mut rng(repeat, length)));
            }
            let spent = (cpu_milliseconds() - start) / repeats as f64;
            writeln!(out, "{name:8} {length:6} trials {spent:9.3} ms")?;
        }
    }
    Ok(())
}

/// Of this thread; other work on the machine does not count.
fn cpu_milliseconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds: f64 = text.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or(0.0);
    nanoseconds / 1e6
}

fn trial(space: &Space, number: u32) -> Trial {
    let params = space.draw(&mut rng(1, number));
    let value = space.point(&params).iter().map(|at| (at - 0.3).powi(2)).sum();
    Trial { number, params, fate: Fate::Done { value }, reports: Vec::new() }
}
