//! Trials and legs as they come, and what has become of them.

use super::{Deed, End, Leg, LegState, Role, Sweep};
use crate::search::history::{Fate, History, Trial};
use crate::value::Params;

impl Sweep {
    /// The newest leg of the search of a trial.
    pub(super) fn last_leg(&self, trial: u32) -> Option<(u32, Leg)> {
        let searching = self.legs_of(trial).filter(|(_, leg, _)| leg.role == Role::Search);
        searching.last().map(|(number, leg, _)| (number, leg.clone()))
    }

    /// The leg whose checkpoint another trial may go on from: one that is only about to begin has none of its own.
    pub(super) fn leader_leg(&self, trial: u32) -> Option<u32> {
        let (number, leg) = self.last_leg(trial)?;
        let state = self.legs.get(number as usize)?;
        let has_begun = state.end.is_some() || !state.course.is_empty();
        Some(if has_begun { number } else { leg.from.unwrap_or(number) })
    }

    /// Where a leg that was lost goes on: at its own checkpoint, if it left one. One that has reported nothing may have
    /// failed to begin with what it was given: the trial goes back to what it had reached by itself.
    pub(super) fn origin(&self, leg: u32, what: &Leg) -> u32 {
        let has_reported = self.legs.get(leg as usize).is_some_and(|state| !state.course.is_empty());
        let Some(from) = what.from.filter(|_| !has_reported) else { return leg };
        if self.leg(from).is_some_and(|from| from.trial == what.trial) {
            return from;
        }
        let earlier = self.legs_of(what.trial).map(|(number, ..)| number).take_while(|number| *number < leg);
        earlier.last().unwrap_or(leg)
    }

    /// All parameters of the space that a run of this trial gets now: sampled, fixed and derived.
    pub fn params_of(&self, trial: u32) -> Option<Params> {
        self.space.complete(&self.trials.get(trial as usize)?.params).ok()
    }

    /// Numbers a leg that is to come.
    pub(super) fn plan(&mut self, leg: Leg) -> u32 {
        let number = u32::try_from(self.legs.len()).unwrap_or(u32::MAX);
        self.deeds.push(Deed::Await { leg: number, what: leg.clone() });
        self.add(number, LegState { leg, end: None, sentence: None, course: Vec::new() });
        number
    }

    pub(super) fn add(&mut self, number: u32, state: LegState) {
        let trial = state.leg.trial as usize;
        if self.legs_by_trial.len() <= trial {
            self.legs_by_trial.resize(trial + 1, Vec::new());
        }
        if let Some(legs) = self.legs_by_trial.get_mut(trial) {
            legs.push(number);
        }
        self.legs.push(state);
    }

    pub(super) fn add_trial(&mut self, trial: Trial) {
        self.losses.push(History::new(self.spec.goal, &[]).done(trial.fate));
        self.trials.push(trial);
    }

    pub(super) fn settle(&mut self, trial: u32, fate: Fate) {
        let Some(known) = self.trials.get_mut(trial as usize) else { return };
        known.fate = fate;
        if let Some(loss) = self.losses.get_mut(trial as usize) {
            *loss = History::new(self.spec.goal, &[]).done(fate);
        }
        self.deeds.push(Deed::Fate { trial, fate });
        match fate {
            Fate::Failed => self.count_failures(self.failed_in_a_row + 1),
            Fate::Done { .. } | Fate::Stopped { .. } => self.count_failures(0),
            Fate::Pending | Fate::Lost => {}
        }
        if fate != Fate::Pending {
            self.spare(trial);
        }
    }

    pub(super) fn count_failures(&mut self, in_a_row: u32) {
        if self.failed_in_a_row != in_a_row {
            self.failed_in_a_row = in_a_row;
            self.deeds.push(Deed::Failures { in_a_row });
        }
    }

    pub(super) fn is_pending(&self, trial: u32) -> bool {
        self.trials.get(trial as usize).is_some_and(|trial| trial.fate == Fate::Pending)
    }

    /// Whatever else was to be run of a configuration that is decided.
    fn spare(&mut self, trial: u32) {
        let of_it = |sweep: &Self, leg: &u32| {
            sweep.leg(*leg).is_some_and(|leg| leg.trial == trial && !matches!(leg.role, Role::Confirm { .. }))
        };
        let waiting: Vec<u32> = self.waiting.iter().copied().filter(|leg| of_it(self, leg)).collect();
        self.waiting.retain(|leg| !waiting.contains(leg));
        waiting.into_iter().for_each(|leg| self.close(leg, End::Withdrawn));
        let going: Vec<u32> = self.open.iter().copied().filter(|leg| of_it(self, leg)).collect();
        self.deeds.extend(going.into_iter().map(|leg| Deed::Stop { leg }));
    }
}
