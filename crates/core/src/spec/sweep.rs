//! A sweep as the rest of the house sees it: checked, with defaults filled in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::value::Value;

/// Many runs of one job, from one search space.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepSpec {
    pub name: String,
    pub job: String,
    pub metric: String,
    pub goal: Goal,
    pub sampler: SamplerKind,
    /// `None` only for a grid over a finite space: all of it.
    pub trials: Option<u32>,
    pub parallel: u32,
    pub repeats: Repeats,
    pub stop: Option<StopSpec>,
    /// Of the search itself.
    pub seed: u64,
    /// Never empty.
    pub space: BTreeMap<String, Dimension>,
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

/// When poor trials are ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopSpec {
    pub scheduler: SchedulerKind,
    /// Reports before a trial is judged for the first time; at least 1.
    pub first: u64,
    /// At least 2.
    pub factor: u32,
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

/// One parameter of a search space.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dimension {
    pub domain: Domain,
    /// The condition on other parameters under which it is searched, as written.
    pub when: Option<String>,
}

/// The values a parameter may take. Bounds are included, finite, and `low < high`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Domain {
    Uniform {
        low: f64,
        high: f64,
    },
    /// `low > 0`.
    LogUniform {
        low: f64,
        high: f64,
    },
    /// `0 < step <= high - low`.
    Quantized {
        low: f64,
        high: f64,
        step: f64,
    },
    Int {
        low: i64,
        high: i64,
    },
    /// `low > 0`.
    LogInt {
        low: i64,
        high: i64,
    },
    /// Both are powers of two.
    PowerOfTwo {
        low: u64,
        high: u64,
    },
    /// Not empty, in no order.
    Choice(Vec<Value>),
    /// Not empty, neighbours are alike.
    Ordinal(Vec<Value>),
    Boolean,
    Fixed(Value),
    /// An expression over the other parameters, as written.
    Derived(String),
}

impl Domain {
    /// Whether all its values can be listed.
    pub fn is_finite(&self) -> bool {
        !matches!(self, Self::Uniform { .. } | Self::LogUniform { .. })
    }
}
