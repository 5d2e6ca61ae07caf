//! Who is ahead.

use std::collections::BTreeSet;

use super::{End, Role, Sweep};
use crate::search::history::{Fate, History};
use crate::spec::Repeats;

/// A trial's place among the others.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    pub trial: u32,
    pub score: Score,
}

/// What speaks for a trial; better ones first.
#[derive(Debug, Clone, PartialEq)]
pub enum Score {
    /// With fresh seeds that the search never saw: what can be expected of it.
    Confirmed {
        mean: f64,
        /// In which the true mean lies in 95 of 100 cases; `None` of a single seed.
        interval: Option<(f64, f64)>,
        seeds: u32,
    },
    /// One look, or the mean of its repeats. The best of many such looks is too good to be true.
    Seen { value: f64 },
    /// At the moment the scheduler ended it.
    Stopped { value: f64 },
}

impl Sweep {
    /// All trials with a number, best first: those that were confirmed, then those that ran to their end, then the rest.
    pub fn standing(&self) -> Vec<Scored> {
        let history = History::new(self.spec.goal, &self.trials);
        let mut scored: Vec<(u8, f64, Scored)> = Vec::new();
        let confirmed = self.race().map(|race| race.standing(&self.confirmed())).unwrap_or_default();
        let is_confirmed: BTreeSet<u32> = confirmed.iter().map(|place| place.trial).collect();
        for (place, found) in confirmed.iter().enumerate() {
            let found = found.clone().by_goal(self.spec.goal);
            let score = Score::Confirmed { mean: found.mean, interval: found.interval, seeds: found.seeds };
            // The race has its own order: who came farther stands before who dropped out.
            scored.push((0, place as f64, Scored { trial: found.trial, score }));
        }
        for trial in &self.trials {
            if is_confirmed.contains(&trial.number) {
                continue;
            }
            let (class, value, score) = match trial.fate {
                Fate::Done { value } => (1, value, Score::Seen { value }),
                Fate::Stopped { value } => (2, value, Score::Stopped { value }),
                Fate::Pending | Fate::Failed | Fate::Lost => continue,
            };
            scored.push((class, history.loss(value), Scored { trial: trial.number, score }));
        }
        scored.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        scored.into_iter().map(|(_, _, scored)| scored).collect()
    }

    /// Legs of a trial that have ended or go on: their role, seed and end.
    pub fn legs_of(&self, trial: u32) -> impl Iterator<Item = (u32, &super::Leg, Option<End>)> {
        let numbers = self.legs_by_trial.get(trial as usize).into_iter().flatten();
        let found = numbers.filter_map(|number| Some((*number, self.legs.get(*number as usize)?)));
        found.map(|(number, state)| (number, &state.leg, state.end))
    }

    /// Runs that have come to an end that counts.
    pub fn ended_legs(&self) -> usize {
        let counts = |state: &&super::LegState| !matches!(state.end, None | Some(End::Lost | End::Paused { .. }));
        self.legs.iter().filter(counts).count()
    }

    /// How many runs there will be, if that is counted.
    pub fn expected_legs(&self) -> Option<u32> {
        let trials = self.spec.trials.or(self.grid)?;
        match self.spec.repeats {
            Repeats::Each(repeats) => Some(trials.saturating_mul(repeats)),
            Repeats::Adaptive => Some(trials),
        }
    }

    /// Runs that were begun for the search, and for confirming.
    pub fn tally(&self) -> (usize, usize) {
        let confirming = self.legs.iter().filter(|state| matches!(state.leg.role, Role::Confirm { .. })).count();
        (self.legs.len() - confirming, confirming)
    }
}
