//! What is begun next: what was decided before, who is promoted, a new configuration, or a seed that confirms.

use std::borrow::Cow;

use super::{Deed, FRESH_SEEDS, Leg, Role, Spent, Sweep, Told};
use crate::search::history::{Fate, History, Trial};
use crate::search::rng::rng;
use crate::search::scheduler::Outlook;
use crate::spec::Repeats;
use crate::value::Params;

impl Sweep {
    pub(super) fn next_leg(&mut self, spent: Spent) -> Option<u32> {
        if self.failed_in_a_row >= self.spec.give_up {
            return None;
        }
        if let Some(leg) = self.next_waiting() {
            return Some(leg);
        }
        while let Some(leg) = self.promoted(Outlook::More) {
            let leg = self.plan(leg);
            if !self.is_ahead(leg) {
                return Some(leg);
            }
            self.waiting.push_back(leg);
        }
        while self.is_searching(spent) {
            if let Some(leg) = self.try_next() {
                return Some(self.plan(leg));
            }
            if self.failed_in_a_row >= self.spec.give_up {
                return None;
            }
        }
        if self.has_first_looks() {
            return None;
        }
        if let Some(leg) = self.promoted(Outlook::Last) {
            return Some(self.plan(leg));
        }
        if self.confirms() && self.spec.confirm.is_none() {
            let runs = self.confirming_runs(spent);
            self.spec.confirm = Some(runs);
            self.deeds.push(Deed::Confirm { runs });
        }
        let (trial, index) = self.next_confirmation()?;
        let seed = FRESH_SEEDS + u64::from(index);
        Some(self.plan(Leg { trial, role: Role::Confirm { index }, seed, from: None, lost: 0 }))
    }

    fn next_waiting(&mut self) -> Option<u32> {
        let place = self.waiting.iter().position(|leg| !self.is_ahead(*leg))?;
        self.waiting.remove(place)
    }

    /// Whether it goes on from a leg of its own trial that is still about to end.
    fn is_ahead(&self, leg: u32) -> bool {
        let Some(leg) = self.leg(leg) else { return false };
        let own = |from: &u32| self.leg(*from).is_some_and(|from| from.trial == leg.trial);
        leg.from.filter(own).is_some_and(|from| self.open.contains(&from))
    }

    /// A new configuration; `None` if its derived values or constraints do not work out, which counts as a failure.
    fn try_next(&mut self) -> Option<Leg> {
        let number = u32::try_from(self.trials.len()).unwrap_or(u32::MAX);
        let sampled = match self.spec.points.get(number as usize) {
            Some(point) => exactly(point, self.space.draw_around(point, &mut rng(self.spec.seed, number))),
            None => {
                let trials = self.with_known();
                let history = History::new(self.spec.goal, &trials);
                // What was added or left out has other places.
                let history = match trials {
                    Cow::Borrowed(_) => history.with_losses(&self.losses),
                    Cow::Owned(_) => history,
                };
                self.sampler.ask(&self.space, &history, &mut rng(self.spec.seed, number))
            }
        };
        self.deeds.push(Deed::Try { trial: number, params: sampled.clone() });
        self.add_trial(Trial { number, params: sampled.clone(), fate: Fate::Pending, reports: Vec::new() });
        match self.space.complete(&sampled) {
            Ok(_) => {
                self.tell(Told::Begin { trial: number, params: sampled.clone() });
                let seed = match self.spec.repeats {
                    Repeats::Adaptive => 1 + u64::from(number) % (FRESH_SEEDS - 1),
                    Repeats::Each(_) => 1,
                };
                Some(Leg { trial: number, role: Role::Search, seed, from: None, lost: 0 })
            }
            Err(_) => {
                self.settle(number, Fate::Failed);
                None
            }
        }
    }

    fn promoted(&mut self, outlook: Outlook) -> Option<Leg> {
        self.spec.stop.as_ref()?;
        let trial = self.scheduler.promote(outlook)?;
        self.log(Told::Promote { outlook });
        let (number, last) = self.last_leg(trial)?;
        let leg = Leg { from: Some(number), lost: 0, ..last };
        self.settle(trial, Fate::Pending);
        Some(leg)
    }
}

/// A point's own values as they were written: what went through the coordinates of the space differs in the last digit.
fn exactly(point: &Params, mut drawn: Params) -> Params {
    for (name, value) in &mut drawn {
        if let Some(given) = point.get(name) {
            value.clone_from(given);
        }
    }
    drawn
}
