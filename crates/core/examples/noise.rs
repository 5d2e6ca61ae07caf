//! The protocols of `bench/run noise`: one seed per configuration, fixed repeats, and adaptive ones, on a response like
//! that of PPO, with seeds that differ and seeds that collapse.
//!
//! `noise SEEDS RUNS` prints one JSON object a line: true regret of the configuration that each study recommends, and by
//! how much the score it reports is better than that configuration's true mean.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;

use trainyard_core::search::Sampler as _;
use trainyard_core::search::{Fate, History, Race, Results, Rng, Space, Tpe, Trial, aggregate, rng, split};
use trainyard_core::spec::{Aggregate, Dimension, Domain, Goal};
use trainyard_core::value::{Params, Value};

/// Deviation of a seed: `base + slope * score`; and the chance that it collapses to a tenth of the score.
struct Landscape {
    name: &'static str,
    base: f64,
    slope: f64,
    collapse: f64,
}

const LANDSCAPES: [Landscape; 4] = [
    Landscape { name: "ppo", base: 0.05, slope: 0.1, collapse: 0.1 },
    Landscape { name: "quiet", base: 0.02, slope: 0.02, collapse: 0.0 },
    Landscape { name: "loud", base: 0.1, slope: 0.3, collapse: 0.0 },
    Landscape { name: "brittle", base: 0.05, slope: 0.1, collapse: 0.3 },
];

/// What a study recommends, and what it says of it.
struct Advice {
    score: f64,
    reported: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let seeds: u64 = words.next().ok_or("usage: noise SEEDS RUNS")?.parse()?;
    let runs: u32 = words.next().ok_or("usage: noise SEEDS RUNS")?.parse()?;
    let space = Space::new(&dimensions(), &[])?;
    let mut out = std::io::stdout().lock();
    for landscape in &LANDSCAPES {
        for protocol in ["one", "three", "five", "adaptive"] {
            let advice = |seed| {
                let study = Study { space: &space, landscape, seed };
                match protocol {
                    "one" => study.repeated(runs, 1),
                    "three" => study.repeated(runs / 3, 3),
                    "five" => study.repeated(runs / 5, 5),
                    _ => study.adaptive(runs),
                }
            };
            let advices: Vec<Advice> = (0..seeds).map(advice).collect();
            let regret: Vec<f64> = advices.iter().map(|advice| best() - advice.score).collect();
            let optimism: Vec<f64> =
                advices.iter().map(|advice| advice.reported - landscape.mean(advice.score)).collect();
            let line = serde_json::json!({
                "landscape": landscape.name, "protocol": protocol, "regret": regret, "optimism": optimism,
            });
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

struct Study<'a> {
    space: &'a Space,
    landscape: &'a Landscape,
    seed: u64,
}

impl Study<'_> {
    /// Trials of `repeats` seeds each, judged by their mean.
    fn search(&self, count: u32, repeats: u32) -> Vec<Trial> {
        let mut trials: Vec<Trial> = Vec::new();
        for number in 0..count {
            let history = History::new(Goal::Maximize, &trials);
            let params = Tpe::default().ask(self.space, &history, &mut rng(self.seed, number));
            let scores: Vec<f64> = (0..repeats).map(|repeat| self.run(number, &params, repeat)).collect();
            let value = aggregate(&scores, Aggregate::Mean).unwrap_or(0.0);
            trials.push(Trial { number, params, fate: Fate::Done { value }, reports: Vec::new() });
        }
        trials
    }

    fn repeated(&self, count: u32, repeats: u32) -> Advice {
        let trials = self.search(count, repeats);
        let best = trials.iter().max_by(|a, b| value(a).total_cmp(&value(b)));
        best.map_or(Advice { score: 0.0, reported: 0.0 }, |best| Advice {
            score: score(&best.params),
            reported: value(best),
        })
    }

    fn adaptive(&self, runs: u32) -> Advice {
        let (searched, raced) = split(runs);
        let trials = self.search(searched, 1);
        let losses: Vec<(u32, f64)> = trials.iter().map(|trial| (trial.number, -value(trial))).collect();
        let race = Race::new(raced, &losses);
        let mut results = Results::new();
        loop {
            let due = race.next(&results);
            if due.is_empty() {
                break;
            }
            for (number, repeat) in due {
                let params = trials.get(number as usize).map(|trial| trial.params.clone()).unwrap_or_default();
                // Seeds of the search are below 1,000.
                results.insert((number, repeat), -self.run(number, &params, 1_000 + repeat));
            }
        }
        let winner = race.standing(&results).into_iter().next().map(|winner| winner.by_goal(Goal::Maximize));
        winner.map_or(Advice { score: 0.0, reported: 0.0 }, |winner| Advice {
            score: trials.get(winner.trial as usize).map_or(0.0, |trial| score(&trial.params)),
            reported: winner.mean,
        })
    }

    fn run(&self, trial: u32, params: &Params, repeat: u32) -> f64 {
        let mut chance = rng(self.seed.wrapping_mul(1_000_003) + u64::from(repeat) + 1, trial);
        self.landscape.observe(score(params), &mut chance)
    }
}

impl Landscape {
    fn observe(&self, score: f64, chance: &mut Rng) -> f64 {
        if chance.unit() < self.collapse {
            return 0.1 * score;
        }
        score + (self.base + self.slope * score) * chance.normal()
    }

    fn mean(&self, score: f64) -> f64 {
        score * (1.0 - 0.9 * self.collapse)
    }
}

fn value(trial: &Trial) -> f64 {
    match trial.fate {
        Fate::Done { value } => value,
        _ => f64::NEG_INFINITY,
    }
}

/// As `ppo_noisy8` of `bench/samplers/tasks.py`.
fn dimensions() -> BTreeMap<String, Dimension> {
    let text = |text: &str| Value::Text(text.to_owned());
    let domains = [
        ("lr", Domain::LogUniform { low: 1e-5, high: 1e-2 }),
        ("epochs", Domain::Int { low: 1, high: 20 }),
        ("clip", Domain::Uniform { low: 0.05, high: 0.5 }),
        ("gamma", Domain::Uniform { low: 0.9, high: 0.999 }),
        ("lam", Domain::Uniform { low: 0.8, high: 1.0 }),
        ("entropy", Domain::LogUniform { low: 1e-6, high: 1e-1 }),
        ("envs", Domain::PowerOfTwo { low: 256, high: 8192 }),
        ("activation", Domain::Choice(vec![text("relu"), text("elu"), text("tanh")])),
    ];
    domains.into_iter().map(|(name, domain)| (name.to_owned(), Dimension { domain, when: None })).collect()
}

/// 1 is best: the learning rate that works falls with the number of epochs.
fn score(params: &Params) -> f64 {
    let number = |name: &str| match params.get(name) {
        Some(Value::Float(number)) => *number,
        Some(Value::Int(number)) => *number as f64,
        _ => f64::NAN,
    };
    let epochs = number("epochs");
    let terms = [
        (number("lr").log10() + 3.2 + 0.6 * (epochs / 5.0).log10()) / 0.6,
        (number("clip") - 0.2) / 0.2,
        (number("gamma") - 0.985) / 0.03,
        (number("lam") - 0.95) / 0.08,
        (number("entropy").log10() + 3.0) / 2.0,
        (number("envs").log2() - 11.5) / 3.0,
        (epochs.ln() - 1.8) / 1.5,
    ];
    let factor = match params.get("activation") {
        Some(Value::Text(name)) if name == "elu" => 1.0,
        Some(Value::Text(name)) if name == "relu" => 0.9,
        _ => 0.8,
    };
    (-0.5 * terms.iter().map(|term| term * term).sum::<f64>()).exp() * factor
}

fn best() -> f64 {
    let text = |text: &str| Value::Text(text.to_owned());
    let at = [
        ("lr", Value::Float(10f64.powf(-3.2 - 0.6 * 1.2f64.log10()))),
        ("epochs", Value::Int(6)),
        ("clip", Value::Float(0.2)),
        ("gamma", Value::Float(0.985)),
        ("lam", Value::Float(0.95)),
        ("entropy", Value::Float(1e-3)),
        ("envs", Value::Int(4096)),
        ("activation", text("elu")),
    ];
    score(&at.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
