//! What is known about the trials of a sweep so far.

use serde::{Deserialize, Serialize};

use crate::spec::Goal;
use crate::value::Params;

/// A number a trial has reported, at a step of its training.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub step: i64,
    pub value: f64,
}

/// One configuration that was tried, or is being tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Counts from 0 in the order the trials were asked for.
    pub number: u32,
    /// Sampled values only; fixed and derived ones follow from them.
    pub params: Params,
    pub fate: Fate,
    /// In the order of their steps; NaN and infinities are left out by whoever collects them.
    pub reports: Vec<Report>,
}

/// What has become of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Fate {
    /// Asked for and not ended: its result is not known, but it must not be asked for again.
    Pending,
    /// Ended with this result.
    Done { value: f64 },
    /// Stopped early by the scheduler; the last value counts for what it is worth.
    Stopped { value: f64 },
    /// It failed by itself, or ended without a number: the configuration is bad.
    Failed,
}

/// All trials of a sweep, in the order they were asked for.
#[derive(Debug, Clone, Copy)]
pub struct History<'a> {
    pub goal: Goal,
    pub trials: &'a [Trial],
}

impl History<'_> {
    /// The value such that less is better, whatever the goal.
    pub fn loss(&self, value: f64) -> f64 {
        match self.goal {
            Goal::Minimize => value,
            Goal::Maximize => -value,
        }
    }
}
