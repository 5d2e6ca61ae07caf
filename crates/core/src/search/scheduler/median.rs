//! The median stopping rule (Golovin et al., "Google Vizier", 2017): a trial ends when its best value so far is worse
//! than the median of what the others were on average up to the same step.

use std::collections::BTreeMap;

use crate::spec::StopSpec;
use crate::value::Params;

use super::table::{Loss, Table};
use super::{Outlook, Scheduler, Verdict};

/// Fewer others than this say nothing about a median.
const FEWEST: usize = 3;

#[derive(Debug)]
pub struct Median {
    first: i64,
    every: i64,
    trials: BTreeMap<u32, State>,
    /// Running averages of all that were judged at the step with this number.
    averages: BTreeMap<i64, Table>,
}

#[derive(Debug)]
struct State {
    /// The number of the step it is judged at next.
    next: i64,
    best: Loss,
    /// Of finite values only: one that is not would be the average for good.
    sum: f64,
    count: f64,
}

impl Median {
    pub fn new(spec: &StopSpec) -> Self {
        let whole = |steps: u64| i64::try_from(steps.max(1)).unwrap_or(i64::MAX);
        let (first, every) = (whole(spec.first), whole(spec.every));
        Self { first, every, trials: BTreeMap::new(), averages: BTreeMap::new() }
    }
}

impl Scheduler for Median {
    fn begin(&mut self, trial: u32, _: &Params) {
        self.trials.insert(trial, State { next: 0, best: Loss::new(f64::INFINITY), sum: 0.0, count: 0.0 });
    }

    fn next_step(&self, trial: u32) -> Option<i64> {
        let next = self.trials.get(&trial)?.next;
        self.every.checked_mul(next)?.checked_add(self.first)
    }

    fn judge(&mut self, trial: u32, step: i64, loss: f64) -> Verdict {
        let Some(state) = self.trials.get_mut(&trial) else { return Verdict::Continue };
        let number = step.saturating_sub(self.first).div_euclid(self.every);
        if number < state.next {
            return Verdict::Continue;
        }
        state.next = number.saturating_add(1);
        state.best = state.best.min(Loss::new(loss));
        if loss.is_finite() {
            (state.sum, state.count) = (state.sum + loss, state.count + 1.0);
        }
        let (best, average) = (state.best, Loss::new(state.sum / state.count));
        let others = self.averages.entry(number).or_default();
        let is_poor = others.len() >= FEWEST && others.median().is_some_and(|median| best.get() > median);
        others.insert(average, trial);
        if is_poor {
            self.trials.remove(&trial);
            return Verdict::Stop;
        }
        Verdict::Continue
    }

    fn end(&mut self, trial: u32) {
        self.trials.remove(&trial);
    }

    fn promote(&mut self, _: Outlook) -> Option<u32> {
        None
    }
}
