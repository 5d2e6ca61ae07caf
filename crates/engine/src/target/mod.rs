//! The systems that run attempts. A target speaks to exactly one system, decides nothing and remembers nothing.

mod local;
mod machine;

use async_trait::async_trait;
use trainyard_agent::depot::Depot;
use trainyard_agent::order::{AttemptResult, Order, Secrets, Status};
use trainyard_core::id::{RunId, Token};
use trainyard_core::plan::slots::Capacity;
use trainyard_core::time::Instant;

pub use local::Local;
pub use machine::{Declared, capacity};
pub use trainyard_agent::order::Stop;

/// The target's name of an attempt. For `local` that is the attempt's folder in the depot, named by run and number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handle {
    pub depot: Depot,
    pub run: RunId,
    pub attempt: u32,
    pub token: Token,
}

/// What a target knows about an attempt now.
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    Running {
        since: Option<Instant>,
    },
    Ended {
        result: Box<AttemptResult>,
    },
    /// Nothing of it was executed, and nothing will be.
    NeverStarted,
    /// It may have executed, but no result came of it and none will.
    Lost {
        why: String,
    },
    /// No attempt of that name is known here.
    Gone,
    /// Could not be found out now.
    Doubt {
        why: String,
    },
}

/// What a target says without being asked.
#[derive(Debug)]
pub enum News {
    Started {
        token: Token,
        at: Instant,
    },
    Beat {
        token: Token,
        status: Status,
    },
    /// Something about this attempt changed; [`Target::observe`] tells what.
    Changed {
        token: Token,
    },
    Ended {
        result: Box<AttemptResult>,
    },
}

/// A part of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChunk {
    pub bytes: Vec<u8>,
    /// Where to go on.
    pub next: u64,
}

/// What a target is like; input of the plan.
#[derive(Debug, Clone)]
pub struct Facts {
    pub capacity: Capacity,
}

#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("cannot reach the target")]
    Unreachable(#[source] std::io::Error),
    #[error("the target refused: {0}")]
    Refused(String),
}

/// Why an attempt is not, or perhaps not, at the target.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// It would say so again.
    #[error("the target refused: {0}")]
    Refused(String),
    /// Nothing arrived.
    #[error("cannot reach the target")]
    Unreachable(#[source] std::io::Error),
    /// It may have arrived; [`Target::find`] tells.
    #[error("the target did not answer")]
    Unsure(#[source] std::io::Error),
}

/// All targets pass `testkit::conformance` against the real system.
#[async_trait(?Send)]
pub trait Target {
    async fn probe(&self) -> Result<Facts, TargetError>;
    /// The ledger knows the token before this is called. Submitting a token twice executes it once.
    async fn submit(&self, order: Order, secrets: Secrets) -> Result<Handle, SubmitError>;
    async fn find(&self, token: &Token) -> Result<Option<Handle>, TargetError>;
    /// One query for all; the answers are in the order of the handles.
    async fn observe(&self, handles: &[Handle]) -> Result<Vec<Observation>, TargetError>;
    /// Stopping what has ended, or was never there, is no error.
    async fn stop(&self, handle: &Handle, how: Stop) -> Result<(), TargetError>;
    async fn logs(&self, handle: &Handle, from: u64) -> Result<LogChunk, TargetError>;
    /// Takes away what a run that has ended left at the target.
    async fn remove(&self, handle: &Handle) -> Result<(), TargetError>;
}
