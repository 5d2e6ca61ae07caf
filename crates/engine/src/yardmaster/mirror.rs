//! What follows from what sites say. Their word on a run counts; what no scheduler knows any more is found out.

use std::collections::BTreeMap;

use trainyard_agent::look::{Fate, Finding};
use trainyard_agent::site::SiteState;
use trainyard_core::id::RunId;
use trainyard_core::run::{Ending, Event, Outcome, State};
use trainyard_core::spec::{ResumeBy, TargetSpec};
use trainyard_core::time::{Instant, Span};

use super::keep::{Active, Keep};
use crate::ledger::Change;
use crate::site::{Asked, InQueue, Over, Seen, WANTS_SECRETS};

/// A scheduler that says a job is over may be ahead of the disk on which its agent wrote how.
const OVER: Span = Span::seconds(5);
/// A job that a scheduler has never heard of may have been acknowledged a moment ago, or be known to it again after it
/// has read its books.
const ABSENT: Span = Span::seconds(30);
/// Books are minutes behind at most, unless the controller died without telling them.
const UNSETTLED: Span = Span::seconds(300);
/// Who does not stop by then is stopped.
const INSIST: Span = Span::seconds(20);

/// Why an attempt is thought to be nobody's.
#[derive(Debug, Clone)]
pub(super) struct Missing {
    since: Instant,
    looks: u32,
    pub(super) over: Option<Over>,
    asked: bool,
}

impl Keep {
    /// What to ask each site, by its name.
    pub(super) fn asked_of_sites(&self) -> BTreeMap<String, Vec<Asked>> {
        let mut asked: BTreeMap<String, Vec<Asked>> = BTreeMap::new();
        for active in self.runs.values() {
            if let (Some(plan), Some(question)) = (&active.batch.site, active.question()) {
                asked.entry(plan.target.name.clone()).or_default().push(question);
            }
        }
        asked
    }

    pub(super) fn target_of(&self, site: &str) -> Option<TargetSpec> {
        let newest =
            self.runs.values().filter(|active| active.batch.target == site).max_by_key(|active| active.open.seq)?;
        newest.batch.site.as_ref().map(|plan| plan.target.clone())
    }

    /// Returns whether anything moved, and what is to be asked because of it.
    pub(super) fn seen(&mut self, seen: Seen, now: Instant) -> Follow {
        let run = seen.run;
        let before = self.runs.get(&run).map(|active| active.open.run.clone());
        if let Some(finding) = seen.finding {
            self.found(with_reason(finding, &seen.queue), now);
        }
        let mut follow = Follow::Nothing;
        match seen.queue {
            InQueue::Waiting { why } => {
                self.accepted(run, "in the site's queue", now);
                self.note(run, why);
                self.present(run);
            }
            InQueue::WantsSecrets => {
                self.accepted(run, "in the site's queue", now);
                self.note(run, Some(WANTS_SECRETS.to_owned()));
                self.present(run);
                follow = Follow::Ship;
            }
            InQueue::Running => {
                self.accepted(run, "in the site's queue", now);
                self.present(run);
            }
            InQueue::Other { state } => {
                self.accepted(run, "in the site's queue", now);
                self.note(run, Some(format!("the site says: {state}")));
                self.present(run);
            }
            InQueue::Over(over) => follow = self.missing(run, Some(over), OVER, now),
            InQueue::Absent => follow = self.missing(run, None, ABSENT, now),
            InQueue::Unsettled => follow = self.missing(run, None, UNSETTLED, now),
        }
        let Some(active) = self.runs.get(&run) else { return Follow::Nothing };
        if let (State::Cancelling { since, .. }, Follow::Nothing | Follow::Ship) = (&active.open.run.state, &follow) {
            return Follow::Cancel { insist: now.since(*since) > INSIST };
        }
        match follow {
            Follow::Nothing if before.as_ref() != Some(&active.open.run) => Follow::Moved,
            follow => follow,
        }
    }

    /// The site has taken it.
    pub(super) fn accepted(&mut self, run: RunId, what: &str, now: Instant) {
        let state = self.runs.get(&run).map(|active| active.open.run.state.clone());
        if let Some(State::Starting { attempt, .. }) = state {
            self.note(run, None);
            self.happen(run, &Event::Accepted { attempt }, what, now);
        }
    }

    fn present(&mut self, run: RunId) {
        if let Some(active) = self.runs.get_mut(&run) {
            active.missing = None;
        }
    }

    pub(super) fn note(&mut self, run: RunId, note: Option<String>) {
        let Some(active) = self.runs.get_mut(&run) else { return };
        if active.note != note {
            active.note.clone_from(&note);
            self.changes.push(Change::Note { seq: active.open.seq, note });
        }
    }

    fn found(&mut self, finding: Finding, now: Instant) {
        let Some(seq) = self.runs.get(&finding.run).map(|active| active.open.seq) else { return };
        for result in finding.results {
            let number = result.token.parts().map_or(0, |(_, number)| number);
            if let Some(active) = self.runs.get_mut(&finding.run) {
                active.known = active.known.max(number);
            }
            self.changes.push(Change::Started { seq, at: result.started });
            self.beat_of(finding.run, result.metrics.clone(), result.course.clone());
            self.changes.push(Change::Result { seq, number, result: Box::new(result) });
        }
        if let Some(status) = finding.status {
            self.changes.push(Change::Started { seq, at: status.started });
            self.beat_of(finding.run, status.metrics, status.course);
        }
        if let Some(SiteState { run: site, .. }) = finding.state {
            let what = words(&site.state);
            self.happen(finding.run, &Event::Reported { site: Box::new(site) }, &what, now);
        }
    }

    /// Asked for once it has been missing for long enough and more than once.
    fn missing(&mut self, run: RunId, over: Option<Over>, long: Span, now: Instant) -> Follow {
        let Some(active) = self.runs.get_mut(&run) else { return Follow::Nothing };
        let Some(attempt) = active.open.run.state.attempt() else { return Follow::Nothing };
        // A parcel whose answer is still awaited is missing for no other reason.
        if matches!(active.open.run.state, State::Starting { .. }) && over.is_none() {
            return Follow::Nothing;
        }
        let missing = active.missing.get_or_insert(Missing { since: now, looks: 0, over: None, asked: false });
        missing.looks += 1;
        missing.over = over.or(missing.over.take());
        if missing.looks < 2 || now.since(missing.since) < long || missing.asked {
            return Follow::Nothing;
        }
        missing.asked = true;
        Follow::Settle { attempt }
    }

    /// A question went unanswered; it may have been what an attempt came to.
    pub(super) fn unsettled(&mut self, site: &str) {
        for active in self.runs.values_mut().filter(|active| active.batch.target == site) {
            active.missing.iter_mut().for_each(|missing| missing.asked = false);
        }
    }

    /// The site has made sure what an attempt came to.
    pub(super) fn settled(&mut self, run: RunId, attempt: u32, fate: Fate, now: Instant) {
        let Some(active) = self.runs.get_mut(&run) else { return };
        let over = active.missing.take().and_then(|missing| missing.over);
        let (event, what) = match fate {
            Fate::Ended(result) => {
                let (seq, mut ending) = (active.open.seq, result.ending());
                if over == Some(Over::Cancelled) && ending.outcome == Outcome::Preempted {
                    ending.outcome = Outcome::Stopped;
                }
                let what = format!("attempt {attempt}: {}", ending.outcome);
                self.changes.push(Change::Result { seq, number: attempt, result });
                (Event::Ended { attempt, ending }, what)
            }
            Fate::NeverStarted if over == Some(Over::Cancelled) => {
                let ending = Ending { outcome: Outcome::Stopped, lasted: Span(0), new_checkpoint: None };
                (Event::Ended { attempt, ending }, "cancelled at the site".to_owned())
            }
            // It had its turn: what kept its agent from beginning would do so again.
            Fate::NeverStarted if matches!(over, Some(Over::Ended | Over::Failed { .. } | Over::OutOfMemory)) => {
                let why =
                    "the site ran the job, but its agent did not begin; `yard target check` finds out why".to_owned();
                let ending = Ending { outcome: Outcome::Lost { why }, lasted: Span(0), new_checkpoint: None };
                let what = format!("attempt {attempt}: {}", ending.outcome);
                (Event::Ended { attempt, ending }, what)
            }
            Fate::NeverStarted => {
                (Event::NeverStarted { attempt }, "the site lost it before it began; sent again".to_owned())
            }
            Fate::Lost(mut ending) => {
                ending.outcome = over.and_then(outcome).unwrap_or(ending.outcome);
                let what = format!("attempt {attempt}: {}", ending.outcome);
                (Event::Ended { attempt, ending }, what)
            }
        };
        self.happen(run, &event, &what, now);
    }
}

/// An agent that is sent away cannot tell who wanted that. The scheduler can, once it is done with the job.
fn with_reason(mut finding: Finding, queue: &InQueue) -> Finding {
    let Some(State::Failed { at, reason }) = finding.state.as_ref().map(|state| &state.run.state) else {
        return finding;
    };
    if reason.outcome() != Some(&Outcome::Preempted) {
        return finding;
    }
    let at = *at;
    match queue {
        InQueue::Running => finding.state = None,
        InQueue::Over(Over::Cancelled) => {
            finding.state.iter_mut().for_each(|state| state.run.state = State::Cancelled { at, why: None });
        }
        _ => {}
    }
    finding
}

/// What is to be done after an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Follow {
    Nothing,
    Moved,
    /// Its parcel is to be sent again.
    Ship,
    Settle {
        attempt: u32,
    },
    Cancel {
        insist: bool,
    },
}

impl Active {
    /// `None` for a run that is not at a site.
    pub(super) fn question(&self) -> Option<Asked> {
        let place = self.place.clone().filter(|_| self.open.run.state.attempt().is_some())?;
        let plan = self.batch.site.as_ref()?;
        let begun = self.known > 0 || !matches!(self.open.run.state, State::Starting { .. } | State::Waiting { .. });
        Some(Asked {
            run: self.open.id,
            place,
            job: self.batch.job.name.clone(),
            known: self.known,
            begun,
            sent: self.sent,
            sequential: plan.by == ResumeBy::Array && self.batch.job.resume.attempts > 1,
            pack: plan.pack,
        })
    }
}

fn outcome(over: Over) -> Option<Outcome> {
    match over {
        Over::Ended => None,
        Over::Cancelled => Some(Outcome::Stopped),
        Over::TimeLimit => Some(Outcome::TimeLimit),
        Over::Preempted => Some(Outcome::Preempted),
        Over::NodeFailure => Some(Outcome::Lost { why: "the node failed".to_owned() }),
        Over::OutOfMemory => Some(Outcome::Killed { signal: 9 }),
        Over::Failed { how } => Some(Outcome::Lost { why: format!("the job ended without its agent's word ({how})") }),
    }
}

fn words(state: &State) -> String {
    match state {
        State::Queued { .. } => "waits at the site for its next turn".to_owned(),
        State::Starting { attempt, .. } | State::Waiting { attempt, .. } => {
            format!("attempt {attempt} is about to start")
        }
        State::Running { attempt, .. } => format!("attempt {attempt} started"),
        State::Cancelling { .. } => "being stopped".to_owned(),
        State::Succeeded { .. } => "succeeded".to_owned(),
        State::Failed { reason, .. } => reason.to_string(),
        State::Cancelled { .. } => "cancelled".to_owned(),
    }
}
