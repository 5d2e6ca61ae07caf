//! Successive halving without waiting (Li et al., "A System for Massively Parallel Hyperparameter Tuning", 2020):
//! levels of `first`, `first · factor`, `first · factor²` … steps, and of those that reach a level about one in
//! `factor` goes on to the next.
//!
//! In the stopping form a trial is judged once, against those that were there before it. In the pausing form it waits at
//! its level and is promoted when it turns out to belong to the best.

use std::collections::{BTreeMap, BTreeSet};

use crate::spec::{StopMode, StopSpec};
use crate::value::Params;

use super::table::{Loss, Table};
use super::{Outlook, Scheduler, Verdict};

#[derive(Debug)]
pub struct Asha {
    factor: usize,
    mode: StopMode,
    levels: Vec<Level>,
    trials: BTreeMap<u32, State>,
}

#[derive(Debug)]
struct Level {
    step: i64,
    reached: Table,
    waiting: BTreeSet<(Loss, u32)>,
}

#[derive(Debug)]
struct State {
    /// Index of the level it has not reached yet.
    next: usize,
    /// Where it waits.
    paused: Option<(usize, Loss)>,
}

impl Asha {
    pub fn new(spec: &StopSpec) -> Self {
        Self::from_level(spec, 0)
    }

    /// Without the lowest `skipped` levels.
    pub(super) fn from_level(spec: &StopSpec, skipped: usize) -> Self {
        let steps = steps(spec).skip(skipped);
        let levels = steps.map(|step| Level { step, reached: Table::default(), waiting: BTreeSet::new() });
        let factor = usize::try_from(spec.factor).unwrap_or(usize::MAX).max(2);
        Self { factor, mode: spec.mode, levels: levels.collect(), trials: BTreeMap::new() }
    }

    /// The highest level that has been reached and not been judged.
    fn level(&self, next: usize, step: i64) -> Option<usize> {
        let reached = self.levels.partition_point(|level| level.step <= step);
        (reached > next).then(|| reached - 1)
    }
}

/// The steps of all levels: below the last, and below what can be counted.
pub(super) fn steps(spec: &StopSpec) -> impl Iterator<Item = i64> {
    let first = i64::try_from(spec.first.max(1)).ok();
    let last = spec.last.and_then(|last| i64::try_from(last).ok()).unwrap_or(i64::MAX);
    let factor = i64::from(spec.factor.max(2));
    std::iter::successors(first, move |step| step.checked_mul(factor)).take_while(move |step| *step < last)
}

impl Scheduler for Asha {
    fn begin(&mut self, trial: u32, _: &Params) {
        self.trials.insert(trial, State { next: 0, paused: None });
    }

    fn next_step(&self, trial: u32) -> Option<i64> {
        self.levels.get(self.trials.get(&trial)?.next).map(|level| level.step)
    }

    fn judge(&mut self, trial: u32, step: i64, loss: f64) -> Verdict {
        let loss = Loss::new(loss);
        let Some(next) = self.trials.get(&trial).map(|state| state.next) else { return Verdict::Continue };
        let Some(index) = self.level(next, step) else { return Verdict::Continue };
        let (Some(state), Some(level)) = (self.trials.get_mut(&trial), self.levels.get_mut(index)) else {
            return Verdict::Continue;
        };
        state.next = index + 1;
        level.reached.insert(loss, trial);
        let count = level.reached.len();
        match self.mode {
            // Rounded up, since what is stopped does not come back. The first to come has nobody to be measured by, and
            // equals are not told apart: where nothing has been learnt yet, nothing is stopped.
            StopMode::Stop
                if level.reached.better_than(loss) < if loss.is_known() { count.div_ceil(self.factor) } else { 1 } =>
            {
                Verdict::Continue
            }
            StopMode::Stop => {
                self.trials.remove(&trial);
                Verdict::Stop
            }
            StopMode::Pause if loss.is_known() && level.reached.rank(loss, trial) < count / self.factor => {
                Verdict::Continue
            }
            StopMode::Pause => {
                state.paused = Some((index, loss));
                level.waiting.insert((loss, trial));
                Verdict::Pause
            }
        }
    }

    fn end(&mut self, trial: u32) {
        let paused = self.trials.remove(&trial).and_then(|state| state.paused);
        if let Some((index, loss)) = paused
            && let Some(level) = self.levels.get_mut(index)
        {
            level.waiting.remove(&(loss, trial));
        }
    }

    /// From the highest level down: what has come far is nearest to an answer.
    fn promote(&mut self, outlook: Outlook) -> Option<u32> {
        let least = usize::from(outlook == Outlook::Last);
        let factor = self.factor;
        let trial = self.levels.iter_mut().rev().find_map(|level| {
            let (loss, trial) = *level.waiting.first()?;
            let places = if loss.is_known() { level.reached.len() / factor } else { 0 }.max(least);
            (level.reached.rank(loss, trial) < places).then(|| level.waiting.pop_first())?;
            Some(trial)
        })?;
        self.trials.get_mut(&trial)?.paused = None;
        Some(trial)
    }
}
