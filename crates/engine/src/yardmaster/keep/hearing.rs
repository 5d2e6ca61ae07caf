//! What targets tell about attempts, and what it means for their runs.

use trainyard_agent::order::{AttemptResult, Metrics, Point, Source, Status};
use trainyard_agent::site;
use trainyard_agent::view::View;
use trainyard_core::id::{RunId, Token};
use trainyard_core::run::{Effect, Ending, Event, Outcome, State};
use trainyard_core::time::{Instant, Span};

use super::Keep;
use crate::ledger::Change;
use crate::target::{Handle, News, Observation};

impl Keep {
    /// What a target said by itself.
    pub(in crate::yardmaster) fn hear(&mut self, news: News, now: Instant) {
        match news {
            News::Started { token, at } => self.started(&token, Some(at), now),
            News::Beat { token, status } => self.beat(&token, status),
            News::Changed { token } => {
                self.doubts.insert(token);
            }
            News::Ended { result } => self.ended(*result, now),
        }
    }

    pub(in crate::yardmaster) fn observed(&mut self, handle: &Handle, seen: Observation, now: Instant) {
        let (run, attempt) = (handle.run, handle.attempt);
        if !matches!(seen, Observation::Doubt { .. }) {
            self.doubts.remove(&handle.token);
        }
        match seen {
            Observation::Running { since } => {
                self.started(&handle.token, since, now);
                self.stop_if_unwanted(run);
            }
            Observation::Ended { result } => self.ended(*result, now),
            Observation::NeverStarted | Observation::Gone => {
                self.happen(run, &Event::NeverStarted { attempt }, "never started, queued again", now);
            }
            Observation::Lost { why } => {
                let ending = self.lost(handle, why);
                let what = format!("attempt {attempt}: {}", ending.outcome);
                self.happen(run, &Event::Ended { attempt, ending }, &what, now);
            }
            Observation::Doubt { .. } => {}
        }
    }

    pub(in crate::yardmaster) fn beat(&mut self, token: &Token, status: Status) {
        if let Some((run, _)) = token.parts() {
            self.beat_of(run, status.metrics, status.course);
        }
    }

    pub(in crate::yardmaster) fn beat_of(&mut self, run: RunId, metrics: Metrics, course: Vec<Point>) {
        let Some(active) = self.runs.get_mut(&run) else { return };
        let seq = active.open.seq;
        if active.metrics != metrics && !metrics.is_empty() {
            active.metrics.clone_from(&metrics);
            self.changes.push(Change::Metrics { seq, metrics });
        }
        if active.course != course && !course.is_empty() {
            active.course.clone_from(&course);
            self.reported.insert(run);
            self.changes.push(Change::Course { seq, course });
        }
    }

    fn started(&mut self, token: &Token, at: Option<Instant>, now: Instant) {
        let Some((run, attempt)) = token.parts() else { return };
        let Some(active) = self.runs.get(&run) else { return };
        self.changes.push(Change::Started { seq: active.open.seq, at: at.unwrap_or(now) });
        self.happen(run, &Event::Started { attempt }, &format!("attempt {attempt} started"), now);
    }

    /// The yardmaster before may have been killed between writing a cancel down and acting on it.
    fn stop_if_unwanted(&mut self, run: RunId) {
        let state = self.runs.get(&run).map(|active| &active.open.run.state);
        if let Some(State::Cancelling { attempt, .. }) = state {
            self.effects.push((run, Effect::Stop { attempt: *attempt }));
        }
    }

    fn ended(&mut self, result: AttemptResult, now: Instant) {
        let Some((run, attempt)) = result.token.parts() else { return };
        let Some(active) = self.runs.get(&run) else { return };
        let seq = active.open.seq;
        self.changes.push(Change::Started { seq, at: result.started });
        self.beat_of(run, result.metrics.clone(), result.course.clone());
        let (ending, what) = (result.ending(), format!("attempt {attempt}: {}", result.outcome));
        self.changes.push(Change::Result { seq, number: attempt, result: Box::new(result) });
        self.happen(run, &Event::Ended { attempt, ending }, &what, now);
    }

    /// How far it got is read from what it left. The ledger cannot tell; its times are those of hearing, and nobody may
    /// have listened when it began or ended.
    fn lost(&self, handle: &Handle, why: String) -> Ending {
        let Some(active) = self.runs.get(&handle.run) else {
            return Ending { outcome: Outcome::Lost { why }, lasted: Span(0), new_checkpoint: None };
        };
        let view = match &active.batch.source {
            Source::Snapshot(_) => View::of(&handle.depot, handle.run),
            Source::InPlace(folder) => View::plain(folder.clone()),
        };
        site::lost(&handle.depot.run(handle.run).attempt(handle.attempt), &active.batch.job, view, why)
    }
}
