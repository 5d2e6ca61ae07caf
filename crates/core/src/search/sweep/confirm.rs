//! Which of the best is: the race with fresh seeds, from the legs that have ended.

use std::collections::BTreeSet;

use super::{CONFIRM_SHARE, End, Role, Spent, Sweep, search_share};
use crate::search::history::{Fate, History};
use crate::search::race::{Race, Results};

impl Sweep {
    /// How many runs confirm, once the search is over.
    pub(super) fn confirming_runs(&self, spent: Spent) -> u32 {
        let counted = match (self.spec.trials, self.grid) {
            (Some(trials), _) => Some(trials.saturating_sub(search_share(&self.spec, trials))),
            (None, Some(grid)) => Some((f64::from(grid) * CONFIRM_SHARE / (1.0 - CONFIRM_SHARE)).ceil() as u32),
            (None, None) => None,
        };
        let already = u32::try_from(self.confirmed().len()).unwrap_or(u32::MAX);
        let room = (!self.spec.budget.is_unlimited()).then(|| self.room(spent).saturating_add(already));
        counted.into_iter().chain(room).min().unwrap_or(0)
    }

    /// As many runs as the rest of the budget has room for, going by what those so far took.
    fn room(&self, spent: Spent) -> u32 {
        let used = self.used(spent).max(1e-9);
        let each = used / (self.legs.len().max(1)) as f64;
        // The room for a whole run may be short of it by a rounding.
        ((1.0 - used).max(0.0) / each + 1e-6).floor() as u32
    }

    pub(super) fn race(&self) -> Option<Race> {
        if !self.confirms() {
            return None;
        }
        let runs = self.spec.confirm?;
        let history = History::new(self.spec.goal, &self.trials);
        let done = self.trials.iter().filter_map(|trial| match trial.fate {
            Fate::Done { value } if value.is_finite() => Some((trial.number, history.loss(value))),
            _ => None,
        });
        let done: Vec<(u32, f64)> = done.collect();
        Some(Race::new(runs, &done))
    }

    /// Losses of confirming runs that have ended.
    pub(super) fn confirmed(&self) -> Results {
        let history = History::new(self.spec.goal, &self.trials);
        let mut results = Results::new();
        for state in &self.legs {
            let Role::Confirm { index } = state.leg.role else { continue };
            let loss = match state.end {
                Some(End::Done { value } | End::Stopped { value, .. }) => history.loss(value),
                // What nobody will repeat counts as the worst, or the race would wait for it for ever.
                Some(End::Failed | End::Withdrawn) => f64::INFINITY,
                Some(End::Lost) if state.leg.lost >= self.spec.retries => f64::INFINITY,
                _ => continue,
            };
            results.insert((state.leg.trial, index), loss);
        }
        results
    }

    pub(super) fn next_confirmation(&self) -> Option<(u32, u32)> {
        let race = self.race()?;
        let going: BTreeSet<(u32, u32)> = self
            .open
            .iter()
            .chain(&self.waiting)
            .filter_map(|leg| self.leg(*leg))
            .filter_map(|leg| match leg.role {
                Role::Confirm { index } => Some((leg.trial, index)),
                _ => None,
            })
            .collect();
        race.next(&self.confirmed()).into_iter().find(|wanted| !going.contains(wanted))
    }
}
