//! Remote targets: systems that take whole runs and take them through their attempts without us.
//!
//! A site is told about runs in parcels and asked about all of its runs at once. What it says is mirrored; how a run
//! goes on is decided there, by the same rules (`core::run::decide`).

mod machine;
mod probe;
mod ray;
mod slurm;
mod survey;
mod worker;

use serde::{Deserialize, Serialize};
use trainyard_agent::look::{Fate, Finding};
use trainyard_agent::order::Secrets;
use trainyard_agent::parcel::{Parcel, Scheduler};
use trainyard_core::id::RunId;
use trainyard_core::plan::slurm::Facts;
use trainyard_core::spec::{JobSpec, ResumeBy, TargetKind, TargetSpec};
use trainyard_core::time::{Instant, Span};

use crate::pipe::PipeError;
use crate::target::{Declared, SubmitError};

pub use machine::{Machine, Standing, secret_key};
pub(crate) use machine::{WANTS_SECRETS, is_secret_key};
pub use probe::Known;
pub use ray::{Overview, RaySite, inspect, overview};
pub use slurm::{Slurm, job_name, script};
pub use survey::{Cluster, Folder, Survey, survey};
pub use worker::{News, Reach, Task, Worker, depot_of, open, send_code};

/// How a site is told about the runs of a submission: what was decided when it was planned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SitePlan {
    pub target: TargetSpec,
    /// Runs to an allocation.
    pub pack: u32,
    /// Programs that share an allocation at any one time.
    pub lanes: u32,
    /// Allocations that one submission may ask for.
    pub most_groups: u32,
    pub by: ResumeBy,
    /// The time limit of an allocation.
    pub limit: Option<Span>,
    /// Between the scheduler's SIGTERM and its SIGKILL.
    pub notice: Span,
    /// What the probe said, for kinds that have one.
    pub facts: Option<Facts>,
}

impl SitePlan {
    /// How an agent speaks to whatever gives it an allocation for this parcel.
    pub fn scheduler(&self, job: &str, parcel: &str) -> Scheduler {
        match &self.target.kind {
            TargetKind::Ssh(ssh) => {
                let Declared { cpus, memory, gpus } = Declared::of(&ssh.limits);
                Scheduler::Host { cpus, memory, gpus, setup: ssh.setup.clone() }
            }
            TargetKind::Ray(_) => Scheduler::Ray { notice: self.notice },
            _ => Scheduler::Slurm {
                name: job_name(job, parcel),
                by: self.by,
                limit: self.limit,
                notice: self.notice,
                script: String::new(),
            },
        }
    }
}

/// Where a site keeps an attempt: the parcel and the group in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    pub parcel: String,
    pub group: u32,
}

impl SitePlan {
    /// Where runs of one submission go, in their order: groups of one allocation each, in parcels of as many as the site
    /// takes at once.
    pub(crate) fn places(&self, runs: usize) -> Vec<Place> {
        let pack = self.pack.max(1) as usize;
        let most = pack.saturating_mul(self.most_groups.max(1) as usize);
        let mut places = Vec::with_capacity(runs);
        while places.len() < runs {
            let parcel = parcel_id();
            let portion =
                (0..most.min(runs - places.len())).map(|index| u32::try_from(index / pack).unwrap_or(u32::MAX));
            places.extend(portion.map(|group| Place { parcel: parcel.clone(), group }));
        }
        places
    }
}

/// A parcel on its way.
#[derive(Debug, Clone)]
pub struct Shipment {
    pub parcel: Parcel,
    pub plan: SitePlan,
    pub secrets: Secrets,
}

/// A run somebody wants to hear about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub run: RunId,
    pub place: Place,
    pub job: String,
    /// Results up to this attempt are known.
    pub known: u32,
    /// It was seen to have begun.
    pub begun: bool,
    pub sent: Instant,
    /// All tasks of its array are turns of this one group.
    pub sequential: bool,
    /// Runs to an allocation.
    pub pack: u32,
}

/// What a site says about a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub run: RunId,
    pub queue: InQueue,
    /// What lies in its folder; not looked for where there can be nothing yet.
    pub finding: Option<Finding>,
}

/// Where a run stands with the scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InQueue {
    /// In plain words why.
    Waiting {
        why: Option<String>,
    },
    /// For its secrets: they were lost there, and are to be sent again with its parcel.
    WantsSecrets,
    Running,
    /// It will not be begun, or be begun again.
    Over(Over),
    /// The scheduler does not know it, or no more.
    Absent,
    /// The same, but its books, which lag behind, do not say yet how it ended.
    Unsettled,
    /// In a state that this yard does not know; shown as it is.
    Other {
        state: String,
    },
}

/// How the scheduler says it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Over {
    Ended,
    Cancelled,
    TimeLimit,
    Preempted,
    NodeFailure,
    OutOfMemory,
    Failed { how: String },
}

/// Speaks to one system, decides nothing, remembers nothing. All sites pass `testkit::conformance` against the real one.
pub trait Site {
    /// Submitting a parcel twice executes it once. Returns what the site calls it, for people.
    fn submit(&mut self, shipment: &Shipment) -> Result<String, SubmitError>;
    /// One query for all.
    fn observe(&mut self, asked: &[Asked]) -> Result<Vec<Seen>, PipeError>;
    /// Stopping what has ended, or was never there, is no error. With `insist` no grace is given.
    fn cancel(&mut self, asked: &[Asked], insist: bool) -> Result<(), PipeError>;
    /// Makes sure that an attempt the scheduler does not know is not begun any more, or finds out how it ended.
    fn settle(&mut self, asked: &Asked, attempt: u32, job: &JobSpec) -> Result<Fate, PipeError>;
    /// Runs that have ended are no more part of what it remembers, if it remembers any.
    fn forget(&mut self, _runs: &[RunId]) -> Result<(), PipeError> {
        Ok(())
    }
}

/// `y` and 16 hex digits.
pub fn parcel_id() -> String {
    let id = uuid::Uuid::now_v7().simple().to_string();
    format!("y{}", id.get(16..).unwrap_or(&id))
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        // Some say their cause themselves.
        let said = inner.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = inner.source();
    }
    text
}
