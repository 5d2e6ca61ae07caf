//! What ties runs of a group to each other: whose turn it is. Pure, like [`super::decide`]: whoever has the queue asks.

use serde::{Deserialize, Serialize};

use super::{Run, State};
use crate::spec::Start;

/// What a run has in common with the others of its group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tie {
    /// The same for all runs that were submitted as one group, and for no others.
    pub id: String,
    /// The group's name.
    pub group: String,
    pub start: Start,
    /// Which of the group's jobs it is a run of.
    pub step: u32,
    /// The target gets the whole group and keeps to its order by itself.
    pub at_target: bool,
}

/// A run of the same group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub step: u32,
    pub name: String,
    pub run: Run,
}

impl Peer {
    /// Nothing of it was executed yet, as far as is known.
    pub fn is_unbegun(&self) -> bool {
        matches!(self.run.state, State::Queued { .. }) && self.run.attempts == 0
    }
}

/// Whether a run that is queued may be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    Now,
    /// Together with all others of its group that are unbegun, or not at all.
    Together,
    Wait {
        why: String,
    },
    Never {
        why: String,
    },
}

impl Tie {
    /// `peers` are all runs of the group, this one included. One that was begun before needs to ask nobody.
    pub fn turn(&self, own: &Run, peers: &[Peer]) -> Turn {
        match self.start {
            _ if own.attempts > 0 => Turn::Now,
            Start::WhenFree => Turn::Now,
            Start::InOrder => self.after(peers),
            Start::Together => together(peers),
        }
    }

    fn after(&self, peers: &[Peer]) -> Turn {
        let earlier = || peers.iter().filter(|peer| peer.step < self.step);
        let is_bad = |peer: &&Peer| matches!(peer.run.state, State::Failed { .. } | State::Cancelled { .. });
        if let Some(bad) = earlier().find(is_bad) {
            return Turn::Never { why: format!("not begun: `{}` {}", bad.name, became(&bad.run.state)) };
        }
        let mut open: Vec<&Peer> = earlier().filter(|peer| !peer.run.state.has_ended()).collect();
        open.sort_by_key(|peer| (peer.step, &peer.name));
        match &open[..] {
            [] => Turn::Now,
            [one] => Turn::Wait { why: format!("waits for `{}` to succeed", one.name) },
            [first, others @ ..] => {
                Turn::Wait { why: format!("waits for `{}` and {} more to succeed", first.name, others.len()) }
            }
        }
    }
}

/// Those of which it is not known yet whether they were begun are waited for.
fn together(peers: &[Peer]) -> Turn {
    match peers.iter().find(|peer| matches!(peer.run.state, State::Starting { .. } | State::Waiting { .. })) {
        Some(peer) => Turn::Wait { why: format!("waits until it is known what became of `{}`", peer.name) },
        None => Turn::Together,
    }
}

fn became(state: &State) -> &'static str {
    match state {
        State::Cancelled { .. } => "was cancelled",
        _ => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Outcome, Policy, Reason};
    use super::*;
    use crate::time::Instant;

    fn peer(step: u32, name: &str, state: State, attempts: u32) -> Peer {
        let run = Run { state, attempts, ..Run::new(Policy { attempts: 1, on: Vec::new() }, Instant(0)) };
        Peer { step, name: name.to_owned(), run }
    }

    fn queued() -> State {
        State::Queued { since: Instant(0), not_before: None }
    }

    fn failed() -> State {
        State::Failed { at: Instant(9), reason: Reason::Attempt { outcome: Outcome::Exited { code: 3 } } }
    }

    fn turn(start: Start, own: usize, peers: &[Peer]) -> Turn {
        let tie = Tie { id: "t".to_owned(), group: "g".to_owned(), start, step: peers[own].step, at_target: false };
        tie.turn(&peers[own].run, peers)
    }

    #[test]
    fn in_order_means_after_success() {
        let going = State::Running { attempt: 1, since: Instant(0) };
        let done = State::Succeeded { at: Instant(1) };
        let cancelled = State::Cancelled { at: Instant(1), why: None };
        let with = |first: State, second: State| {
            let peers = [
                peer(0, "a-s1", first, 1),
                peer(0, "a-s2", second, 1),
                peer(1, "b", queued(), 0),
                peer(2, "c", queued(), 0),
            ];
            (turn(Start::InOrder, 2, &peers), turn(Start::InOrder, 3, &peers))
        };
        let wait = |why: &str| Turn::Wait { why: why.to_owned() };
        let never = |why: &str| Turn::Never { why: why.to_owned() };
        assert_eq!(with(done.clone(), done.clone()), (Turn::Now, wait("waits for `b` to succeed")));
        assert_eq!(with(done.clone(), going.clone()).0, wait("waits for `a-s2` to succeed"));
        assert_eq!(with(going.clone(), going.clone()).0, wait("waits for `a-s1` and 1 more to succeed"));
        assert_eq!(with(going, failed()).0, never("not begun: `a-s2` failed"), "the others need not end first");
        assert_eq!(with(cancelled, done).0, never("not begun: `a-s1` was cancelled"));
    }

    #[test]
    fn what_was_begun_goes_on_by_itself() {
        let peers = [peer(0, "a", failed(), 1), peer(1, "b", queued(), 1)];
        assert_eq!(turn(Start::InOrder, 1, &peers), Turn::Now);
        let peers = [peer(0, "a", State::Running { attempt: 1, since: Instant(0) }, 1), peer(1, "b", queued(), 2)];
        assert_eq!(turn(Start::Together, 1, &peers), Turn::Now);
    }

    #[test]
    fn together_waits_for_doubts() {
        let doubt = State::Starting { attempt: 1, since: Instant(0) };
        let peers = [peer(0, "a", queued(), 0), peer(1, "b", doubt, 1)];
        assert!(matches!(turn(Start::Together, 0, &peers), Turn::Wait { .. }));
        let peers = [peer(0, "a", queued(), 0), peer(1, "b", queued(), 0)];
        assert_eq!(turn(Start::Together, 0, &peers), Turn::Together);
        assert_eq!(turn(Start::WhenFree, 0, &peers), Turn::Now);
    }
}
