//! One submission to a site: what its runs have in common, and the runs, in groups of one allocation each.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use trainyard_core::id::{RunId, Token};
use trainyard_core::run::{Run, Tie};
use trainyard_core::spec::{JobSpec, ResumeBy, Start};
use trainyard_core::time::Span;
use trainyard_core::value::Params;

use crate::depot::Depot;
use crate::disk::read_json;
use crate::order::{Lease, Order, Source};

/// `parcel.json`. Complete: the site needs to ask nobody.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Parcel {
    /// `y` and 16 hex digits, part of the name under which the scheduler knows it.
    pub id: String,
    pub job: JobSpec,
    pub source: Source,
    pub extra: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Runs that share an allocation, one after the other.
    pub groups: Vec<Vec<Member>>,
    /// Programs that share an allocation at any one time.
    pub lanes: u32,
    pub scheduler: Scheduler,
}

/// A run of a parcel.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Member {
    pub id: RunId,
    pub name: String,
    pub seed: Option<u64>,
    pub params: Params,
    /// The run whose newest checkpoint it begins with.
    #[serde(default)]
    pub from: Option<RunId>,
    /// As it was when it was sent.
    pub run: Run,
    /// Of a parcel that is a whole group.
    #[serde(default)]
    pub tied: Option<Box<Tied>>,
}

/// What a run of a group has instead of its parcel's job, and what ties it to the others.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Tied {
    pub job: JobSpec,
    pub tie: Tie,
}

/// How to speak to whatever gave the allocation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    Slurm {
        name: String,
        by: ResumeBy,
        /// The time limit of one allocation, for where SLURM does not tell.
        limit: Option<Span>,
        /// Between SIGTERM and SIGKILL.
        notice: Span,
        /// The batch script, for successors of the job; filled in when it is sent.
        #[serde(default)]
        script: String,
    },
    /// A Ray cluster; see [`crate::ray`].
    Ray {
        /// Between SIGTERM and SIGKILL.
        notice: Span,
    },
    /// A machine with a yardmaster of its own; see `engine::queue`. What is not said is looked up there.
    Host {
        cpus: Option<u32>,
        memory: Option<u64>,
        gpus: Option<Vec<String>>,
        /// Shell lines that make the environment.
        setup: Vec<String>,
    },
}

/// Whether it may become part of a path.
pub(crate) fn is_id(text: &str) -> bool {
    text.strip_prefix('y').is_some_and(|rest| rest.len() == 16 && rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

impl Parcel {
    pub fn read(depot: &Depot, id: &str) -> io::Result<Self> {
        let path = depot.parcel(id).join("parcel.json");
        read_json(&path)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{} is gone or damaged", path.display())))
    }

    /// The batch script, of a parcel that has one.
    pub(crate) fn script(&self) -> Option<&str> {
        match &self.scheduler {
            Scheduler::Slurm { script, .. } => Some(script.as_str()),
            Scheduler::Ray { .. } | Scheduler::Host { .. } => None,
        }
    }

    /// What a run of it is a run of.
    pub fn job_of<'a>(&'a self, member: &'a Member) -> &'a JobSpec {
        member.tied.as_ref().map_or(&self.job, |tied| &tied.job)
    }

    /// Of all its runs.
    pub fn jobs(&self) -> impl Iterator<Item = &JobSpec> {
        self.groups.iter().flatten().map(|member| self.job_of(member))
    }

    /// Its runs start at once or not at all.
    pub fn is_gang(&self) -> bool {
        let mut ties = self.groups.iter().flatten().filter_map(|member| member.tied.as_ref());
        ties.any(|tied| tied.tie.start == Start::Together)
    }

    pub fn group(&self, index: u32) -> &[Member] {
        self.groups.get(index as usize).map_or(&[], Vec::as_slice)
    }

    pub fn order(&self, depot: &Depot, member: &Member, attempt: u32, devices: Vec<String>, lease: Lease) -> Order {
        Order {
            depot: depot.clone(),
            run: member.id,
            name: member.name.clone(),
            attempt,
            token: Token::new(member.id, attempt),
            job: self.job_of(member).clone(),
            seed: member.seed,
            params: member.params.clone(),
            from: member.from,
            extra: self.extra.clone(),
            source: self.source.clone(),
            env: self.env.clone(),
            devices,
            lease: Some(lease),
        }
    }
}
