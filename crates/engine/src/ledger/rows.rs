//! What goes into the ledger and comes out of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use trainyard_agent::depot::Depot;
use trainyard_agent::order::{AttemptResult, Metrics, Point, Source};
use trainyard_core::id::{RunId, Token};
use trainyard_core::plan::slots::{Demand, Slot};
use trainyard_core::run::{Run, Tie};
use trainyard_core::spec::JobSpec;
use trainyard_core::time::Instant;
use trainyard_core::value::Params;

use super::SweepChange;
use crate::provenance::Provenance;
use crate::site::{Place, SitePlan};
use crate::target::Declared;

/// What the runs of one submission have in common.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Batch {
    pub project: PathBuf,
    pub target: String,
    /// What the target's settings say about the machine.
    pub declared: Declared,
    pub depot: Depot,
    pub job: JobSpec,
    pub source: Source,
    /// The environment at submission, reduced to what is no secret.
    pub env: BTreeMap<String, String>,
    pub extra: Vec<String>,
    /// `None` on this machine.
    pub site: Option<SitePlan>,
    /// Where the code comes from, if git knew.
    pub provenance: Option<Provenance>,
    /// `None` for a job that was run by itself.
    pub tie: Option<Tie>,
}

impl Batch {
    pub fn demand(&self) -> Demand {
        Demand { cpus: self.job.cpus, memory: self.job.memory.unwrap_or(0), gpus: self.job.gpus }
    }
}

#[derive(Debug, Clone)]
pub struct NewRun {
    pub id: RunId,
    pub name: String,
    pub seed: Option<u64>,
    pub params: Params,
    /// The run whose newest checkpoint it begins with.
    pub from: Option<RunId>,
    pub run: Run,
    /// Where its first attempt goes, if that is settled.
    pub place: Option<Place>,
    pub retry_of: Option<RunId>,
}

/// A run that has not ended, as the yardmaster keeps it.
#[derive(Debug, Clone)]
pub struct OpenRun {
    pub seq: i64,
    pub id: RunId,
    pub batch: i64,
    pub name: String,
    pub seed: Option<u64>,
    pub params: Params,
    pub from: Option<RunId>,
    pub run: Run,
}

/// A run as people see it.
#[derive(Debug, Clone)]
pub struct RunRow {
    pub seq: i64,
    pub id: RunId,
    pub batch: i64,
    pub name: String,
    pub job: String,
    pub target: String,
    pub seed: Option<u64>,
    pub params: Params,
    pub state: String,
    pub run: Run,
    /// The newest attempt's number, 0 before the first.
    pub attempt: u32,
    pub exit_code: Option<i32>,
    pub reason: Option<String>,
    pub metrics: Metrics,
    /// The metric that says most of it: its sweep's, or the one its job names.
    pub headline: Option<String>,
    /// Of the objective of its sweep; empty for others.
    pub course: Vec<Point>,
    pub from: Option<RunId>,
    pub created: Instant,
    pub started: Option<Instant>,
    pub ended: Option<Instant>,
    pub retry_of: Option<RunId>,
    /// In plain words why it waits, while it does.
    pub note: Option<String>,
}

/// A site, and how it was last heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteRow {
    pub name: String,
    pub seen: Option<Instant>,
    /// What is wrong, and since when.
    pub problem: Option<(String, Instant)>,
}

#[derive(Debug, Clone)]
pub struct AttemptRow {
    pub number: u32,
    pub token: Token,
    pub slot: Slot,
    pub place: Option<Place>,
    pub created: Instant,
    pub result: Option<AttemptResult>,
}

#[derive(Debug, Clone)]
pub struct EventRow {
    pub at: Instant,
    pub what: String,
}

/// Something a person wants of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    Cancel,
}

/// One thing to remember; several go into one transaction.
#[derive(Debug)]
pub enum Change {
    /// A run's new state, and in a few words what led to it; no words for what the next event says anyway.
    State {
        seq: i64,
        run: Run,
        at: Instant,
        what: String,
    },
    /// An attempt that is about to be sent. In the ledger before anything leaves the machine.
    Attempt {
        seq: i64,
        number: u32,
        token: Token,
        slot: Slot,
        place: Option<Place>,
        at: Instant,
    },
    /// Also of an attempt that a site made by itself.
    Result {
        seq: i64,
        number: u32,
        result: Box<AttemptResult>,
    },
    Started {
        seq: i64,
        at: Instant,
    },
    Metrics {
        seq: i64,
        metrics: Metrics,
    },
    Course {
        seq: i64,
        course: Vec<Point>,
    },
    Note {
        seq: i64,
        note: Option<String>,
    },
    /// A site answered, or did not.
    Site {
        name: String,
        at: Instant,
        problem: Option<String>,
    },
    Sweep {
        sweep: i64,
        change: SweepChange,
    },
    RequestsUpTo {
        id: i64,
    },
}

/// Random below the millisecond: a counter there would make all ids of a submission alike but for their last digits.
pub(crate) fn new_id() -> RunId {
    RunId(uuid::Uuid::new_v7(uuid::Timestamp::now(uuid::NoContext)))
}
