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
    /// Nothing was learnt: its machine was lost, or somebody cancelled it.
    Lost,
}

/// All trials of a sweep, in the order they were asked for.
#[derive(Debug, Clone, Copy)]
pub struct History<'a> {
    pub goal: Goal,
    pub trials: &'a [Trial],
    /// [`History::done`] of each trial, from whoever keeps it: a long history is passed over faster then. Else empty.
    losses: &'a [f64],
}

impl<'a> History<'a> {
    pub fn new(goal: Goal, trials: &'a [Trial]) -> Self {
        Self { goal, trials, losses: &[] }
    }

    pub fn with_losses(self, losses: &'a [f64]) -> Self {
        Self { losses, ..self }
    }

    /// Whether the trial at this place is known to be done and no better than `loss`.
    pub(super) fn is_no_better(&self, place: u32, loss: f64) -> bool {
        self.losses.get(place as usize).is_some_and(|known| *known >= loss)
    }

    /// The loss of a trial that ran to its end with a finite value; NaN of any other.
    pub fn done(&self, fate: Fate) -> f64 {
        match fate {
            Fate::Done { value } if value.is_finite() => self.loss(value),
            _ => f64::NAN,
        }
    }

    /// The value such that less is better, whatever the goal.
    pub fn loss(&self, value: f64) -> f64 {
        match self.goal {
            Goal::Minimize => value,
            Goal::Maximize => -value,
        }
    }
}
