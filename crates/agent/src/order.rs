//! What an agent is told, and what it says about it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use trainyard_core::id::{Digest, RunId, Token};
use trainyard_core::run::Outcome;
use trainyard_core::spec::JobSpec;
use trainyard_core::time::{Instant, Span};
use trainyard_core::value::Params;

use crate::depot::Depot;

/// One attempt, complete: the agent needs to ask nobody.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    pub depot: Depot,
    pub run: RunId,
    pub name: String,
    pub attempt: u32,
    pub token: Token,
    pub job: JobSpec,
    pub seed: Option<u64>,
    pub params: Params,
    /// The run whose newest checkpoint it begins with.
    #[serde(default)]
    pub from: Option<RunId>,
    /// Arguments from the command line, handed on byte for byte.
    pub extra: Vec<String>,
    pub source: Source,
    /// What the program sees besides its own settings.
    pub env: BTreeMap<String, String>,
    /// Devices by the name the program knows them under.
    pub devices: Vec<String>,
    /// `None` on a machine of our own.
    #[serde(default)]
    pub lease: Option<Lease>,
}

/// Machine and time that a scheduler gave, and may take back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub ends: Option<Instant>,
    /// How long a program has after the scheduler's SIGTERM before its SIGKILL.
    pub notice: Span,
    /// What that SIGTERM means.
    #[serde(default)]
    pub told: Told,
}

/// What a scheduler's SIGTERM means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// It wants the machine back.
    #[default]
    ToLeave,
    /// Somebody asked it to stop this job.
    ToStop,
    /// Who held the machine for it is gone; unless somebody asked to stop it, which then lies in the run's folder.
    Abandoned,
}

/// Where the working folder comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    Snapshot(Digest),
    /// The project folder itself, as it is when the program starts.
    InPlace(PathBuf),
}

/// How a program is to end; the stronger wish is the greater one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// SIGTERM, and SIGKILL after the job's grace. Said again it changes nothing, so it can be said again in doubt.
    Gently,
    Now,
}

/// Somebody wants the program to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    pub how: Stop,
    /// Told by a signal: on a [`Lease`] that is the scheduler taking it back.
    pub by_signal: bool,
}

/// Values of secrets, by the name of the environment variable. Only ever in memory and on a pipe.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secrets(pub BTreeMap<String, String>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0.keys())
    }
}

/// What became of an attempt; `result.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptResult {
    pub token: Token,
    pub outcome: Outcome,
    pub started: Instant,
    pub ended: Instant,
    /// The checkpoint the program was given at the start.
    pub resumed_from: Option<String>,
    /// The newest complete checkpoint at the end, relative to the working folder.
    pub checkpoint: Option<String>,
    /// Whether that one is new; `None` when the job declares no checkpoints.
    pub new_checkpoint: Option<bool>,
    /// Bytes, of the largest moment seen.
    pub peak_memory: u64,
    /// Last value of each metric.
    pub metrics: Metrics,
    /// The course of the job's objective, thinned, in the order of its steps.
    #[serde(default)]
    pub course: Vec<Point>,
    /// Remarks for people: processes left behind, bytes of log that could not be written.
    pub notes: Vec<String>,
}

/// The heartbeat of an attempt; `status.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub at: Instant,
    pub started: Instant,
    pub metrics: Metrics,
    /// The course of the job's objective so far, thinned, in the order of its steps.
    #[serde(default)]
    pub course: Vec<Point>,
    pub memory: u64,
    pub checkpoint: Option<String>,
}

/// The newest point of each metric.
pub type Metrics = BTreeMap<String, Point>;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    pub step: i64,
    /// `None` stands for a value that is no number: NaN or an infinity.
    pub value: Option<f64>,
}

impl AttemptResult {
    /// What the resume policy wants to know.
    pub fn ending(&self) -> trainyard_core::run::Ending {
        trainyard_core::run::Ending {
            outcome: self.outcome.clone(),
            lasted: self.ended.since(self.started),
            new_checkpoint: self.new_checkpoint,
        }
    }
}
