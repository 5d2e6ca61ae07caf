//! The one place where a run's state changes: a pure function of the run, what happened, and when.

use super::{Ending, Outcome, Run, State, Verdict};
use crate::time::Instant;

/// Something that happened to a run, or that somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// There is room for the next attempt.
    Placed,
    Started {
        attempt: u32,
    },
    Ended {
        attempt: u32,
        ending: Ending,
    },
    /// It is certain that nothing of this attempt was executed.
    NeverStarted {
        attempt: u32,
    },
    /// The target or the plan says no, and would say so again.
    Refused {
        why: String,
    },
    CancelAsked,
    /// It is not to be begun any more, for a reason that lies in other runs.
    Dropped {
        why: String,
    },
    /// The target has the attempt in its own queue.
    Accepted {
        attempt: u32,
    },
    /// What a site that goes through the attempts by itself says of the run.
    Reported {
        site: Box<Run>,
    },
}

/// What has to be done because of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    Submit {
        attempt: u32,
    },
    Stop {
        attempt: u32,
    },
    /// The run may be placed (again) from this moment on.
    Queue {
        not_before: Option<Instant>,
    },
}

/// `changed` is false for events that say nothing new; they need not be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub next: Run,
    pub effects: Vec<Effect>,
    pub changed: bool,
}

/// Events about other attempts than the current one, and all events after the end, change nothing: they are
/// late or repeated, and a target may repeat itself as often as it likes.
pub fn decide(run: &Run, event: &Event, now: Instant) -> Decision {
    let moved = match event {
        _ if run.state.has_ended() => None,
        Event::Placed => place(run, now),
        Event::Started { attempt } => start(run, *attempt, now),
        Event::Ended { attempt, ending } => current(run, *attempt).map(|()| end(run, ending, now)),
        Event::NeverStarted { attempt } => current(run, *attempt).map(|()| take_back(run, now)),
        Event::Refused { why } => refuse(run, why, now),
        Event::CancelAsked => cancel(run, now),
        Event::Dropped { why } => drop_it(run, why, now),
        Event::Accepted { attempt } => accept(run, *attempt, now),
        Event::Reported { site } => adopt(run, site),
    };
    match moved {
        Some((next, effects)) => Decision { next, effects, changed: true },
        None => Decision { next: run.clone(), effects: Vec::new(), changed: false },
    }
}

type Move = (Run, Vec<Effect>);

fn current(run: &Run, attempt: u32) -> Option<()> {
    (run.state.attempt() == Some(attempt)).then_some(())
}

fn with(run: &Run, state: State) -> Run {
    Run { state, ..run.clone() }
}

fn place(run: &Run, now: Instant) -> Option<Move> {
    let State::Queued { .. } = run.state else { return None };
    let attempt = run.last_attempt + 1;
    let state = State::Starting { attempt, since: now };
    let next = Run { state, last_attempt: attempt, attempts: run.attempts + 1, ..run.clone() };
    Some((next, vec![Effect::Submit { attempt }]))
}

fn start(run: &Run, attempt: u32, now: Instant) -> Option<Move> {
    match run.state {
        State::Starting { attempt: waiting, .. } | State::Waiting { attempt: waiting, .. } if waiting == attempt => {
            Some((with(run, State::Running { attempt, since: now }), Vec::new()))
        }
        _ => None,
    }
}

fn end(run: &Run, ending: &Ending, now: Instant) -> Move {
    if ending.outcome == (Outcome::Exited { code: 0 }) {
        return (with(run, State::Succeeded { at: now }), Vec::new());
    }
    if ending.outcome == Outcome::Stopped || matches!(run.state, State::Cancelling { .. }) {
        return (with(run, State::Cancelled { at: now, why: None }), Vec::new());
    }
    match run.policy.judge(ending, run.attempts, run.futile) {
        Verdict::End(reason) => (with(run, State::Failed { at: now, reason }), Vec::new()),
        Verdict::Again { after, futile } => {
            let not_before = (after.0 > 0).then(|| now + after);
            let next = Run { state: State::Queued { since: now, not_before }, futile, ..run.clone() };
            (next, vec![Effect::Queue { not_before }])
        }
    }
}

/// It does not count, but its number is spent.
fn take_back(run: &Run, now: Instant) -> Move {
    if matches!(run.state, State::Cancelling { .. }) {
        return (with(run, State::Cancelled { at: now, why: None }), Vec::new());
    }
    // One that a site had yet to begin was not counted.
    let counted = run.state.attempt().is_some_and(|attempt| attempt <= run.last_attempt);
    let next = Run {
        state: State::Queued { since: now, not_before: None },
        attempts: run.attempts.saturating_sub(u32::from(counted)),
        ..run.clone()
    };
    (next, vec![Effect::Queue { not_before: None }])
}

fn refuse(run: &Run, why: &str, now: Instant) -> Option<Move> {
    let state = match run.state {
        State::Queued { .. } | State::Starting { .. } | State::Waiting { .. } => {
            State::Failed { at: now, reason: super::Reason::Refused { why: why.to_owned() } }
        }
        State::Cancelling { .. } => State::Cancelled { at: now, why: None },
        State::Running { .. } | State::Succeeded { .. } | State::Failed { .. } | State::Cancelled { .. } => {
            return None;
        }
    };
    Some((with(run, state), Vec::new()))
}

fn cancel(run: &Run, now: Instant) -> Option<Move> {
    match run.state {
        State::Queued { .. } => Some((with(run, State::Cancelled { at: now, why: None }), Vec::new())),
        State::Starting { attempt, .. } | State::Waiting { attempt, .. } | State::Running { attempt, .. } => {
            let next = with(run, State::Cancelling { attempt, since: now });
            Some((next, vec![Effect::Stop { attempt }]))
        }
        State::Cancelling { .. } | State::Succeeded { .. } | State::Failed { .. } | State::Cancelled { .. } => None,
    }
}

/// One that is under way is left alone.
fn drop_it(run: &Run, why: &str, now: Instant) -> Option<Move> {
    let State::Queued { .. } = run.state else { return None };
    Some((with(run, State::Cancelled { at: now, why: Some(why.to_owned()) }), Vec::new()))
}

fn accept(run: &Run, attempt: u32, now: Instant) -> Option<Move> {
    match run.state {
        State::Starting { attempt: sent, .. } if sent == attempt => {
            Some((with(run, State::Waiting { attempt, since: now }), Vec::new()))
        }
        _ => None,
    }
}

/// The site's word counts. A report from before the newest attempt is late, unless it tells of success: that stays true;
/// or of another end that came before the site had begun the newest one.
fn adopt(run: &Run, site: &Run) -> Option<Move> {
    let succeeded = matches!(site.state, State::Succeeded { .. });
    let unbegun = site.state.has_ended() && site.last_attempt + 1 == run.last_attempt;
    if site.last_attempt < run.last_attempt && !succeeded && !unbegun {
        return None;
    }
    let state = match (&run.state, &site.state) {
        (State::Cancelling { .. }, there) if !there.has_ended() => run.state.clone(),
        (_, State::Queued { since, .. }) => State::Waiting { attempt: site.last_attempt + 1, since: *since },
        (_, State::Starting { attempt, since }) => State::Waiting { attempt: *attempt, since: *since },
        (_, there) => there.clone(),
    };
    let last_attempt = site.last_attempt.max(run.last_attempt);
    let next = Run { state, last_attempt, attempts: site.attempts, futile: site.futile, policy: run.policy.clone() };
    (next != *run).then_some((next, Vec::new()))
}
