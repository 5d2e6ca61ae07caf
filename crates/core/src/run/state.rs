//! The states of a run. Each carries the times it needs; an ended run stays ended.

use serde::{Deserialize, Serialize};

use super::{Policy, Reason};
use crate::time::Instant;

/// A run as [`super::decide`] sees it: its state, and what its attempts so far mean for the next one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub state: State,
    pub policy: Policy,
    /// The number given to the newest attempt; no number is given twice.
    pub last_attempt: u32,
    /// Attempts that may have executed.
    pub attempts: u32,
    /// Attempts in a row that got nowhere.
    pub futile: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum State {
    /// Waits for a place, and not before `not_before` if that is set (back-off between attempts).
    Queued {
        since: Instant,
        not_before: Option<Instant>,
    },
    /// On its way to the target: recorded here, perhaps known there.
    Starting {
        attempt: u32,
        since: Instant,
    },
    /// At the target, which has not begun it yet: it waits there for its turn, or for the next one.
    Waiting {
        attempt: u32,
        since: Instant,
    },
    Running {
        attempt: u32,
        since: Instant,
    },
    /// Asked to stop; ends when the target says so.
    Cancelling {
        attempt: u32,
        since: Instant,
    },
    Succeeded {
        at: Instant,
    },
    Failed {
        at: Instant,
        reason: Reason,
    },
    Cancelled {
        at: Instant,
        /// What else than a person's wish led to it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
}

impl State {
    /// The word that `yard ps` and JSON show.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Queued { .. } => "queued",
            Self::Starting { .. } => "starting",
            Self::Waiting { .. } => "waiting",
            Self::Running { .. } => "running",
            Self::Cancelling { .. } => "cancelling",
            Self::Succeeded { .. } => "succeeded",
            Self::Failed { .. } => "failed",
            Self::Cancelled { .. } => "cancelled",
        }
    }

    pub fn has_ended(&self) -> bool {
        self.ended_at().is_some()
    }

    pub fn ended_at(&self) -> Option<Instant> {
        match self {
            Self::Succeeded { at } | Self::Failed { at, .. } | Self::Cancelled { at, .. } => Some(*at),
            Self::Queued { .. }
            | Self::Starting { .. }
            | Self::Waiting { .. }
            | Self::Running { .. }
            | Self::Cancelling { .. } => None,
        }
    }

    /// The attempt that is under way or comes next at the target, if one does.
    pub fn attempt(&self) -> Option<u32> {
        match self {
            Self::Starting { attempt, .. }
            | Self::Waiting { attempt, .. }
            | Self::Running { attempt, .. }
            | Self::Cancelling { attempt, .. } => Some(*attempt),
            Self::Queued { .. } | Self::Succeeded { .. } | Self::Failed { .. } | Self::Cancelled { .. } => None,
        }
    }
}

impl Run {
    pub fn new(policy: Policy, now: Instant) -> Self {
        Self { state: State::Queued { since: now, not_before: None }, policy, last_attempt: 0, attempts: 0, futile: 0 }
    }
}
