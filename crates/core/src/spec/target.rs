//! Targets as the rest of the house sees them: a name, and what its kind needs to know.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::job::SecretRef;
use crate::time::Span;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetSpec {
    pub name: String,
    /// The folder at the site; `None` is the kind's own default. Always there for SLURM.
    pub depot: Option<String>,
    pub kind: TargetKind,
}

impl TargetSpec {
    /// The target that always exists: this machine.
    pub const LOCAL: &str = "local";
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    Local(Limits),
    Ssh(SshSpec),
    Slurm(Box<SlurmSpec>),
    Kubernetes(KubernetesSpec),
    Runai(RunaiSpec),
    Ray(RaySpec),
}

impl TargetKind {
    /// As it is written in the file.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Local(_) => "local",
            Self::Ssh(_) => "ssh",
            Self::Slurm(_) => "slurm",
            Self::Kubernetes(_) => "kubernetes",
            Self::Runai(_) => "runai",
            Self::Ray(_) => "ray",
        }
    }
}

/// How much of a machine may be used; `None` is all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub gpus: Option<GpuLimit>,
    pub cpus: Option<u32>,
    /// Bytes.
    pub memory: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GpuLimit {
    Count(u32),
    /// Indices or UUIDs, as the driver names them.
    Devices(Vec<String>),
}

/// What runs an image at the site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Container {
    Docker,
    Podman,
    Apptainer,
    Singularity,
    Pyxis,
    None,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SshSpec {
    pub host: String,
    pub limits: Limits,
    pub setup: Vec<String>,
    /// `None` is the first one found there.
    pub container: Option<Container>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlurmSpec {
    /// `None` is this machine.
    pub host: Option<String>,
    pub account: Option<String>,
    pub partition: Option<String>,
    pub qos: Option<String>,
    pub constraint: Option<String>,
    pub reservation: Option<String>,
    /// One or more options of `sbatch`; may hold `{gpus}`, `{gpus_per_task}`, `{total_gpus}`, `{nodes}`, `{tasks}`.
    pub gpu_request: String,
    pub memory_request: MemoryRequest,
    /// `None` is the first one found there.
    pub container: Option<Container>,
    /// `SOURCE`, `SOURCE:INSIDE` or `SOURCE:INSIDE:OPTIONS`.
    pub binds: Vec<String>,
    pub writable: Writable,
    /// Paths in the container.
    pub cache: Vec<String>,
    /// A folder on the node; may hold variables such as `$TMPDIR`, which are known there only.
    pub scratch: Option<String>,
    pub env: BTreeMap<String, String>,
    pub setup: Vec<String>,
    pub modules: Vec<String>,
    /// Without `#SBATCH`.
    pub directives: Vec<String>,
    pub mail: Option<String>,
    /// Empty is `END` and `FAIL` where there is an address.
    pub mail_type: Vec<String>,
    pub max_time: Option<Span>,
    /// `None` is what the site allows.
    pub resume_by: Option<ResumeBy>,
}

/// What SLURM counts a job's memory by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryRequest {
    /// `--mem`
    Node,
    /// `--mem-per-cpu`
    Cpu,
}

/// Where a program's writes into its image go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Writable {
    Tmpfs,
    Overlay,
    None,
}

/// How a run goes on while this machine is switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResumeBy {
    Requeue,
    Array,
    Chain,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubernetesSpec {
    pub context: Option<String>,
    pub namespace: Option<String>,
    /// The name of a secret in the cluster.
    pub image_pull_secret: Option<String>,
    pub queue: Option<String>,
    pub node_selector: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunaiSpec {
    pub url: String,
    pub project: String,
    pub token: SecretRef,
    /// A file.
    pub ca: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaySpec {
    /// At least one, once what `clusters` names has been read.
    pub addresses: Vec<String>,
    /// A file that says them.
    #[serde(default)]
    pub clusters: Option<String>,
    pub token: Option<SecretRef>,
    /// A file.
    pub ca: Option<String>,
    /// The only node to run on: its name, address or id.
    pub node: Option<String>,
    /// What every run holds of the cluster's own resources, in ten-thousandths, which is as fine as Ray counts.
    pub shares: BTreeMap<String, u64>,
    /// Python packages that Ray installs for every run.
    pub pip: Vec<String>,
    /// Addresses of packages that Ray puts on the path of every run.
    pub py_modules: Vec<String>,
    pub env: BTreeMap<String, String>,
}
