//! A sweep from what was recorded of it.

use super::{End, Leg, LegState, Role, Sentence, Sweep, Told};
use crate::search::history::{Fate, Report, Trial};
use crate::search::scheduler::Verdict;
use crate::space::SpaceError;
use crate::spec::SweepSpec;
use crate::value::Params;

/// What was recorded, each list in its order.
#[derive(Debug, Clone)]
pub struct Record {
    pub spec: SweepSpec,
    pub trials: Vec<(Params, Option<Fate>)>,
    pub legs: Vec<LegRecord>,
    pub told: Vec<Told>,
    /// Trials in a row that have come to nothing.
    pub failures: u32,
}

#[derive(Debug, Clone)]
pub struct LegRecord {
    pub leg: Leg,
    pub has_begun: bool,
    pub end: Option<End>,
}

impl Sweep {
    /// Legs that have begun and have no end count as going on: whoever restores tells what has become of them meanwhile.
    pub fn restore(record: Record) -> Result<Self, SpaceError> {
        let mut sweep = Self::new(record.spec)?;
        for (number, (params, fate)) in (0..).zip(record.trials) {
            let fate = fate.unwrap_or(Fate::Pending);
            sweep.add_trial(Trial { number, params, fate, reports: Vec::new() });
        }
        for (number, LegRecord { leg, has_begun, end }) in (0..).zip(record.legs) {
            if let Some(End::Stopped { value, step } | End::Paused { value, step } | End::Replaced { value, step }) =
                end
            {
                sweep.keep_report(leg.trial, Report { step, value });
            }
            match (has_begun, end) {
                (true, None) => drop(sweep.open.insert(number)),
                (false, None) => sweep.waiting.push_back(number),
                (_, Some(_)) => {}
            }
            sweep.add(number, LegState { leg, end, sentence: None, course: Vec::new() });
        }
        for what in &record.told {
            let verdict = sweep.hear(what);
            sweep.sentence(what, verdict);
        }
        sweep.told = u32::try_from(record.told.len()).unwrap_or(u32::MAX);
        sweep.failed_in_a_row = record.failures;
        Ok(sweep)
    }

    /// The last word on a trial whose leg goes on still holds.
    fn sentence(&mut self, what: &Told, verdict: Option<Verdict>) {
        let (Told::Judge { leg, .. }, Some(verdict)) = (what, verdict) else { return };
        let Some(state) = self.legs.get_mut(*leg as usize).filter(|state| state.end.is_none()) else { return };
        state.sentence = match verdict {
            Verdict::Continue => None,
            Verdict::Pause => Some(Sentence::Pause),
            Verdict::Stop => Some(Sentence::Stop),
            Verdict::Replace { leader, params } => Some(Sentence::Replace { leader, params }),
        };
    }

    /// Legs that were ended by the scheduler or by another seed, but whose runs may not know yet.
    pub fn sentenced(&self) -> Vec<u32> {
        let sentenced = |leg: &u32| {
            let spared = |leg: &Leg| matches!(leg.role, Role::Repeat { .. }) && !self.is_pending(leg.trial);
            self.legs.get(*leg as usize).is_some_and(|state| state.sentence.is_some() || spared(&state.leg))
        };
        self.open.iter().copied().filter(sentenced).collect()
    }
}
