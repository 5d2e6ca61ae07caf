//! A sweep as the rest of the house sees it: checked, with defaults filled in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::space::Dimension;
use crate::time::Span;
use crate::value::Params;

/// Many runs of one job, from one search space.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepSpec {
    pub name: String,
    pub job: String,
    pub metric: String,
    pub goal: Goal,
    pub sampler: SamplerKind,
    /// `None` for a grid over a finite space, which is all of it, and where the budget alone ends the sweep.
    pub trials: Option<u32>,
    #[serde(default)]
    pub budget: Budget,
    pub parallel: u32,
    pub repeats: Repeats,
    /// Of fixed repeats.
    #[serde(default)]
    pub aggregate: Aggregate,
    /// What counts of a run's course.
    #[serde(default)]
    pub value: CurveValue,
    pub stop: Option<StopSpec>,
    /// Of the search itself.
    pub seed: u64,
    /// Never empty; the space was made once, so it can be made again.
    pub space: BTreeMap<String, Dimension>,
    #[serde(default)]
    pub constraints: Vec<String>,
    /// Tried first. Their values lie in their domains; what a point leaves open is drawn.
    #[serde(default)]
    pub points: Vec<Params>,
    /// How many runs confirm; settled when the search is over.
    #[serde(default)]
    pub confirm: Option<u32>,
    /// Names of earlier sweeps, and files of trials, as written.
    #[serde(default)]
    pub from: Vec<String>,
    /// What those hold: filled in when the sweep begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<Known>,
    /// How often a run that was lost to the machine is made again.
    #[serde(default = "retries")]
    pub retries: u32,
    /// So many trials that fail one after another end the sweep; at least 1.
    #[serde(default = "give_up")]
    pub give_up: u32,
}

/// A configuration that was tried before, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Known {
    pub params: Params,
    pub value: f64,
}

const fn retries() -> u32 {
    2
}

const fn give_up() -> u32 {
    10
}

/// What a sweep may spend; nothing in it is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// GPUs times hours, of all runs together.
    pub gpu_hours: Option<f64>,
    /// From its start.
    pub time: Option<Span>,
}

/// More of what a sweep counts its budget in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct More {
    #[serde(default)]
    pub trials: Option<u32>,
    #[serde(default)]
    pub time: Option<Span>,
    #[serde(default)]
    pub gpu_hours: Option<f64>,
}

/// A sweep does not count in this, so more of it would be less.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` has no limit in {unknown}; it is limited by {counted}")]
pub struct NotCounted {
    pub name: String,
    unknown: &'static str,
    counted: String,
}

impl SweepSpec {
    /// The same with a larger budget.
    pub fn extended(&self, more: &More) -> Result<Self, NotCounted> {
        let Budget { time, gpu_hours } = self.budget;
        let wrong = |unknown: &'static str| {
            let known = [("`--trials`", self.trials.is_some()), ("`--time`", time.is_some())];
            let known = known.into_iter().chain([("`--gpu-hours`", gpu_hours.is_some())]);
            let known: Vec<&str> = known.filter(|known| known.1).map(|known| known.0).collect();
            let counted = if known.is_empty() { "its grid".to_owned() } else { known.join(" and ") };
            NotCounted { name: self.name.clone(), unknown, counted }
        };
        let mut spec = Self { confirm: None, ..self.clone() };
        if let Some(more) = more.trials {
            spec.trials = Some(self.trials.ok_or_else(|| wrong("trials"))?.saturating_add(more));
        }
        if let Some(more) = more.time {
            spec.budget.time = Some(Span(time.ok_or_else(|| wrong("time"))?.0.saturating_add(more.0)));
        }
        if let Some(more) = more.gpu_hours {
            spec.budget.gpu_hours = Some(gpu_hours.ok_or_else(|| wrong("GPU hours"))? + more);
        }
        Ok(spec)
    }
}

impl Budget {
    pub fn is_unlimited(&self) -> bool {
        self.gpu_hours.is_none() && self.time.is_none()
    }
}

/// One number from the repeats of a configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregate {
    #[default]
    Mean,
    Median,
    /// Mean of the middle half.
    Iqm,
}

/// One number from the course of a metric.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CurveValue {
    Last,
    Best,
    /// Mean of the last tenth of its steps.
    #[default]
    Tail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    Maximize,
    Minimize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SamplerKind {
    Auto,
    Grid,
    Random,
    Sobol,
    Tpe,
    Cmaes,
    Gp,
}

/// Seeds per configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repeats {
    /// More for the promising ones.
    Adaptive,
    /// At least 1.
    Each(u32),
}

/// When poor trials are ended early. Numbers are steps of the training, as its metric reports them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StopSpec {
    pub scheduler: SchedulerKind,
    /// The step at which a trial is judged for the first time; at least 1.
    pub first: u64,
    /// At least 2.
    pub factor: u32,
    #[serde(default)]
    pub mode: StopMode,
    /// The step at which a training is complete; above `first`. Hyperband has one.
    #[serde(default)]
    pub last: Option<u64>,
    /// Steps from one judgement to the next, where the levels do not say it; at least 1.
    pub every: u64,
    /// The share at the bottom of a population that copies from the same share at its top; above 0, at most 0.5.
    pub quantile: f64,
    /// Standard deviations of the population by which a leader must be better; at least 0.
    pub threshold: f64,
    pub mutate: Mutate,
}

impl StopSpec {
    pub const QUANTILE: f64 = 0.25;
    pub const THRESHOLD: f64 = 0.1;

    /// A scheduler of this kind with the numbers that a file without them gives.
    pub fn of(scheduler: SchedulerKind) -> Self {
        Self {
            scheduler,
            first: 1,
            factor: 3,
            mode: StopMode::Stop,
            last: None,
            every: 1,
            quantile: Self::QUANTILE,
            threshold: Self::THRESHOLD,
            mutate: Mutate::default(),
        }
    }
}

/// What becomes of a trial that is not among the best of its level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopMode {
    #[default]
    Stop,
    /// It waits with its checkpoint, and goes on if the others turn out worse.
    Pause,
}

/// How a copy differs from its leader.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Mutate {
    /// The chance of each parameter to change; above 0, at most 1.
    pub rate: f64,
    /// Numbers are multiplied or divided by a factor from this range; both above 1.
    pub range: [f64; 2],
}

impl Default for Mutate {
    /// The numbers of Isaac Lab's own population based training.
    fn default() -> Self {
        Self { rate: 0.25, range: [1.1, 2.0] }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerKind {
    None,
    Median,
    Asha,
    Hyperband,
    Pbt,
}
