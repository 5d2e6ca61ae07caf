//! What a sweep is told about its runs, and what follows.

use serde::{Deserialize, Serialize};

use super::{Deed, End, Leg, Role, Sentence, Sweep};
use crate::search::curve::{value_at, value_of};
use crate::search::history::{Fate, History, Report, Trial};
use crate::search::scheduler::{Outlook, Verdict};
use crate::search::statistics::{aggregate, is_hopeless};
use crate::spec::{CurveValue, Goal, Repeats};
use crate::value::Params;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Succeeded,
    /// By itself.
    Failed,
    /// With its machine.
    Lost,
    /// At its time limit, for good: what it reached until then counts as its end.
    OutOfTime,
    Cancelled,
}

/// What the scheduler was told; telling it all again, in this order, makes it what it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Told {
    Begin {
        trial: u32,
        params: Params,
    },
    Judge {
        leg: u32,
        trial: u32,
        step: i64,
        /// Infinite is written as null.
        #[serde(with = "loss")]
        loss: f64,
    },
    End {
        trial: u32,
    },
    /// It was asked whom to promote, and named somebody.
    Promote {
        outlook: Outlook,
    },
}

impl Sweep {
    /// A run that goes on has reported this so far.
    pub fn course(&mut self, leg: u32, course: &[Report]) {
        let Some(state) = self.legs.get_mut(leg as usize) else { return };
        if state.end.is_some() || course.is_empty() || state.course == course {
            return;
        }
        state.course = course.to_vec();
        self.judge(leg);
    }

    fn judge(&mut self, leg: u32) {
        if self.spec.stop.is_none() {
            return;
        }
        let goal = self.spec.goal;
        loop {
            let Some(state) = self.legs.get(leg as usize) else { return };
            let trial = state.leg.trial;
            if state.leg.role != Role::Search || state.sentence.is_some() {
                return;
            }
            let Some(step) = self.scheduler.next_step(trial) else { return };
            let Some(last) = state.course.last().filter(|last| last.step >= step) else { return };
            let value = value_at(&state.course, step, self.spec.value, goal).unwrap_or(last.value);
            let loss = loss_of(goal, value);
            let verdict = self.tell(Told::Judge { leg, trial, step, loss });
            let sentence = match verdict {
                None | Some(Verdict::Continue) => continue,
                Some(Verdict::Pause) => Sentence::Pause,
                Some(Verdict::Stop) => Sentence::Stop,
                Some(Verdict::Replace { leader, params }) => Sentence::Replace { leader, params },
            };
            if let Some(state) = self.legs.get_mut(leg as usize) {
                state.sentence = Some(sentence);
            }
            self.deeds.push(Deed::Stop { leg });
            return;
        }
    }

    /// Tells the scheduler, and remembers that.
    pub(super) fn tell(&mut self, what: Told) -> Option<Verdict> {
        self.spec.stop.as_ref()?;
        let verdict = self.hear(&what);
        self.log(what);
        verdict
    }

    pub(super) fn hear(&mut self, what: &Told) -> Option<Verdict> {
        match what {
            Told::Begin { trial, params } => self.scheduler.begin(*trial, params),
            Told::Judge { trial, step, loss, .. } => return Some(self.scheduler.judge(*trial, *step, *loss)),
            Told::End { trial } => self.scheduler.end(*trial),
            Told::Promote { outlook } => drop(self.scheduler.promote(*outlook)),
        }
        None
    }

    pub(super) fn log(&mut self, what: Told) {
        self.deeds.push(Deed::Told { number: self.told, what });
        self.told += 1;
    }

    /// A run has ended.
    pub fn ended(&mut self, leg: u32, outcome: Outcome, course: &[Report]) {
        let Some(state) = self.legs.get_mut(leg as usize).filter(|state| state.end.is_none()) else { return };
        if !course.is_empty() {
            state.course = course.to_vec();
        }
        let (sentence, what) = (state.sentence.take(), state.leg.clone());
        let value = self.value(leg);
        let step = self.last_step(leg);
        let end = match (outcome, sentence) {
            (Outcome::Succeeded, _) | (Outcome::OutOfTime, None) => {
                value.map_or(End::Failed, |value| End::Done { value })
            }
            (_, Some(Sentence::Stop)) => value.map_or(End::Failed, |value| End::Stopped { value, step }),
            (_, Some(Sentence::Pause)) => value.map_or(End::Failed, |value| End::Paused { value, step }),
            (_, Some(Sentence::Replace { leader, params })) => return self.replace(leg, &what, leader, params, value),
            (Outcome::Failed, None) => End::Failed,
            (Outcome::Lost, None) => End::Lost,
            (Outcome::Cancelled, None) => End::Withdrawn,
        };
        self.close(leg, end);
        self.follow(leg, &what, end);
    }

    pub(super) fn close(&mut self, leg: u32, end: End) {
        self.open.remove(&leg);
        if let Some(state) = self.legs.get_mut(leg as usize) {
            state.end = Some(end);
        }
        self.deeds.push(Deed::Ended { leg, end });
    }

    /// What a leg's curve comes to. What an earlier leg of the same training has reached counts for the best.
    fn value(&self, leg: u32) -> Option<f64> {
        let state = self.legs.get(leg as usize)?;
        let own = value_of(&state.course, self.spec.value, self.spec.goal);
        let earlier = state.leg.from.and_then(|from| match self.legs.get(from as usize)?.end? {
            End::Paused { value, .. } => Some(value),
            _ => None,
        });
        match (own, earlier) {
            (Some(own), Some(earlier)) if self.spec.value == CurveValue::Best => {
                let better = loss_of(self.spec.goal, earlier) < loss_of(self.spec.goal, own);
                Some(if better { earlier } else { own })
            }
            (own, earlier) => own.or(earlier),
        }
    }

    fn follow(&mut self, leg: u32, what: &Leg, end: End) {
        let is_confirming = matches!(what.role, Role::Confirm { .. });
        if !is_confirming && !self.is_pending(what.trial) {
            // Another seed has decided it.
            return;
        }
        if end == End::Lost && what.lost < self.spec.retries {
            let from = self.origin(leg, what);
            let again = self.plan(Leg { from: Some(from), lost: what.lost + 1, ..what.clone() });
            self.waiting.push_back(again);
            return;
        }
        if what.role == Role::Search && !matches!(end, End::Paused { .. }) {
            self.tell(Told::End { trial: what.trial });
        }
        match (what.role, end) {
            (Role::Confirm { .. }, _) => {}
            (_, End::Lost) => {
                // Machines that keep getting lost would use up the budget for nothing.
                self.count_failures(self.failed_in_a_row + 1);
                self.settle(what.trial, Fate::Lost);
            }
            (_, End::Withdrawn) => self.settle(what.trial, Fate::Lost),
            (
                Role::Search,
                End::Stopped { value, step } | End::Paused { value, step } | End::Replaced { value, step },
            ) => {
                self.keep_report(what.trial, Report { step, value });
                // It may have been promoted before its run has come to its end.
                if self.last_leg(what.trial).is_none_or(|(last, _)| last == leg) {
                    self.settle(what.trial, Fate::Stopped { value });
                }
            }
            (Role::Search, End::Done { value }) => match self.spec.repeats {
                Repeats::Each(repeats) if repeats > 1 => self.repeat(what, repeats, value),
                _ => self.settle(what.trial, Fate::Done { value }),
            },
            (_, End::Failed) => self.settle(what.trial, Fate::Failed),
            (Role::Repeat { .. }, _) => self.gather(what.trial),
        }
    }

    fn last_step(&self, leg: u32) -> i64 {
        let last = self.legs.get(leg as usize).and_then(|state| state.course.last());
        last.map_or(0, |report| report.step)
    }

    /// How far it got says how much its value is worth.
    pub(super) fn keep_report(&mut self, trial: u32, report: Report) {
        if let Some(trial) = self.trials.get_mut(trial as usize) {
            trial.reports = vec![report];
        }
    }

    /// More seeds, unless the first has shown enough.
    fn repeat(&mut self, first: &Leg, repeats: u32, value: f64) {
        let history = History::new(self.spec.goal, &self.trials);
        let losses: Vec<Vec<f64>> = self.trials.iter().map(|trial| self.losses_of(trial)).collect();
        if is_hopeless(history.loss(value), &losses) {
            return self.settle(first.trial, Fate::Stopped { value });
        }
        for index in 1..repeats {
            let seed = 1 + u64::from(index);
            let role = Role::Repeat { index };
            let next = self.plan(Leg { role, seed, from: None, lost: 0, ..first.clone() });
            self.waiting.push_back(next);
        }
    }

    /// All seeds of a configuration have ended: one number stands for them.
    fn gather(&mut self, trial: u32) {
        let Repeats::Each(repeats) = self.spec.repeats else { return };
        let values = self.values_of(trial);
        if values.len() >= repeats as usize
            && let Some(value) = aggregate(&values, self.spec.aggregate)
        {
            self.settle(trial, Fate::Done { value });
        }
    }

    /// Of its legs that ran to their end.
    fn values_of(&self, trial: u32) -> Vec<f64> {
        let value = |(_, _, end): (u32, &Leg, Option<End>)| match end {
            Some(End::Done { value }) => Some(value),
            _ => None,
        };
        self.legs_of(trial).filter_map(value).collect()
    }

    /// Of a configuration that has had all its repeats.
    fn losses_of(&self, trial: &Trial) -> Vec<f64> {
        match trial.fate {
            Fate::Done { .. } => {
                let values = self.values_of(trial.number);
                values.into_iter().map(|value| loss_of(self.spec.goal, value)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn replace(&mut self, leg: u32, what: &Leg, leader: u32, sampled: Params, value: Option<f64>) {
        let end = value.map_or(End::Failed, |value| End::Replaced { value, step: self.last_step(leg) });
        self.close(leg, end);
        // A copy that cannot be made leaves the trial as it is: it goes on by itself.
        let from = self.leader_leg(leader).filter(|_| self.space.complete(&sampled).is_ok());
        if from.is_some() {
            if let Some(trial) = self.trials.get_mut(what.trial as usize) {
                trial.params.clone_from(&sampled);
            }
            self.deeds.push(Deed::Try { trial: what.trial, params: sampled });
        }
        let next = self.plan(Leg { from: from.or(Some(leg)), lost: 0, ..what.clone() });
        self.waiting.push_back(next);
    }
}

pub(super) fn loss_of(goal: Goal, value: f64) -> f64 {
    let loss = History::new(goal, &[]).loss(value);
    if loss.is_nan() { f64::INFINITY } else { loss }
}

/// JSON has no infinity.
mod loss {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(loss: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        loss.is_finite().then_some(*loss).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
    }
}
