//! Trials and legs as they come, and what has become of them.

use super::{Deed, Leg, LegState, Role, Sweep};
use crate::search::history::{Fate, History, Trial};
use crate::value::Params;

impl Sweep {
    /// The newest leg of the search of a trial.
    pub(super) fn last_leg(&self, trial: u32) -> Option<(u32, Leg)> {
        let searching = self.legs_of(trial).filter(|(_, leg, _)| leg.role == Role::Search);
        searching.last().map(|(number, leg, _)| (number, leg.clone()))
    }

    pub(super) fn params_of(&self, trial: u32) -> Option<Params> {
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
            Fate::Failed => self.failed_in_a_row += 1,
            Fate::Done { .. } | Fate::Stopped { .. } => self.failed_in_a_row = 0,
            Fate::Pending | Fate::Lost => {}
        }
    }
}
