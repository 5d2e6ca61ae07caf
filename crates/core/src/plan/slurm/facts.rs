//! What is known about one SLURM site. "Could not ask" differs from "there is none": the first is `Unknown`.

mod parse;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;

pub use parse::ProbeError;

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// One POSIX script for the login node. Each question has its own time limit, and a failing one spoils no other.
pub fn probe_script() -> &'static str {
    concat!(include_str!("facts/ask.sh"), include_str!("facts/probe.sh"))
}

/// The same for a machine without SLURM, which has container runtimes at the most. The target's `setup` lines are its arguments.
pub fn machine_script() -> &'static str {
    concat!(include_str!("facts/ask.sh"), include_str!("facts/machine.sh"))
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// `22.05.8`
    pub version: Answer<String>,
    /// Who we are there.
    pub user: Answer<String>,
    pub partitions: Answer<Vec<Partition>>,
    pub settings: Answer<Settings>,
    pub associations: Answer<Vec<Association>>,
    /// Whether the site keeps accounts that `sacct` reads.
    pub accounting: Answer<bool>,
    /// Versions of the container runtimes on the login node; a node may have others.
    pub apptainer: Answer<Option<String>>,
    pub singularity: Answer<Option<String>>,
    pub enroot: Answer<Option<String>>,
    /// Of a plain machine; nodes of a cluster have no engines for everybody.
    #[serde(default)]
    pub podman: Answer<Option<String>>,
    #[serde(default)]
    pub docker: Answer<Option<String>>,
    /// Whether `srun` takes images.
    pub pyxis: Answer<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer<T> {
    Known(T),
    /// Could not be asked, and why.
    Unknown(String),
}

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self::Unknown("not asked".to_owned())
    }
}

impl<T> Answer<T> {
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    pub name: String,
    pub is_default: bool,
    /// Takes jobs and starts them.
    pub is_up: bool,
    /// `None` is no limit.
    pub max_time: Option<Span>,
    /// What a job gets that asks for nothing; `None` is `max_time`.
    pub default_time: Option<Span>,
    pub nodes: Vec<Nodes>,
}

/// Nodes of one partition that are alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nodes {
    pub count: u32,
    /// In SLURM's short word: `idle`, `mix`, `alloc`, `down*`, …
    pub state: String,
    pub cpus: u32,
    /// MiB.
    pub memory: u64,
    pub gpus: Vec<GpuKind>,
    pub features: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuKind {
    /// `None` where the site gives its GPUs no type.
    pub kind: Option<String>,
    pub count: u32,
}

impl Nodes {
    pub fn gpu_count(&self) -> u32 {
        self.gpus.iter().map(|gpu| gpu.count).sum()
    }
}

/// Of `scontrol show config`; `None` is what the site's version does not print.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub cluster: Option<String>,
    pub max_array_size: Option<u32>,
    /// `max_array_tasks` of the scheduler, which lies below.
    pub max_array_tasks: Option<u32>,
    pub max_job_count: Option<u32>,
    /// The site's default, and a hint at what it wants: a job may ask for the opposite.
    pub requeue: Option<bool>,
    pub kill_wait: Option<Span>,
    /// How long the controller remembers a job that has ended.
    pub min_job_age: Option<Span>,
    pub accounting_storage: Option<String>,
    /// What the site checks: `associations`, `limits`, `qos`, …
    pub enforced: Vec<String>,
    pub preempt_mode: Option<String>,
    /// Whether a job above a partition's limits is refused at once rather than left waiting.
    pub enforces_limits: Option<bool>,
}

/// An account the user may charge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Association {
    pub account: String,
    /// `None` is all of them.
    pub partition: Option<String>,
    pub qos: Vec<String>,
    pub default_qos: Option<String>,
    pub max_submit: Option<u32>,
}

impl Facts {
    pub fn parse(text: &str) -> Result<Self, ProbeError> {
        parse::facts(text)
    }

    /// Of [`machine_script`].
    pub fn parse_machine(text: &str) -> Result<Self, ProbeError> {
        parse::machine(text)
    }

    /// The partitions that a job of this target may land in: those named (with commas between), or the default.
    /// `None` if the site could not be asked.
    pub fn partitions_for(&self, named: Option<&str>) -> Option<Vec<&Partition>> {
        let all = self.partitions.known()?;
        Some(match named {
            Some(names) => all.iter().filter(|one| names.split(',').any(|name| name.trim() == one.name)).collect(),
            None => all.iter().filter(|one| one.is_default).collect(),
        })
    }

    /// The largest number of tasks in one array; SLURM's own default where the site does not say.
    pub fn array_size(&self) -> u32 {
        const DEFAULT: u32 = 1001;
        let settings = self.settings.known();
        let size = settings.and_then(|settings| settings.max_array_size).unwrap_or(DEFAULT);
        let tasks = settings.and_then(|settings| settings.max_array_tasks).unwrap_or(u32::MAX);
        size.min(tasks)
    }
}
