//! All of Ray that is text: what is asked of its jobs API, what it says, and why a job waits. Nothing is called here.

mod need;
mod say;

pub use need::{Need, Node, refuse, refuse_together, room, waiting};
pub use say::{JobRow, JobStatus, Usage, Version, parse_jobs, parse_nodes, parse_usage};

use std::collections::BTreeMap;

use serde::Serialize;

use crate::spec::JobSpec;
use crate::time::Span;

/// Ray's name of a group of a parcel: our own, so that a second submission finds the first.
pub fn submission_id(job: &str, parcel: &str, group: u32) -> String {
    format!("{job}.{parcel}.{group}")
}

/// Parcel and group of one of our jobs.
pub fn place(submission: &str) -> Option<(&str, u32)> {
    let (rest, group) = submission.rsplit_once('.')?;
    let (_, parcel) = rest.rsplit_once('.')?;
    Some((parcel, group.parse().ok()?))
}

/// The body of `POST /api/jobs/`. What is not set is left out: servers refuse keys they do not know.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Submission {
    /// For `/bin/sh -c`.
    pub entrypoint: String,
    pub submission_id: String,
    pub runtime_env: RuntimeEnv,
    pub metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint_num_cpus: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint_num_gpus: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint_memory: Option<u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub entrypoint_resources: BTreeMap<String, f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RuntimeEnv {
    /// The package with the agent, those with everything else, and modules of the user's. None of them is a
    /// `working_dir`: of several jobs that reach a node at once Ray (2.60) unpacks that anew for each, under the feet of
    /// those that have begun.
    pub py_modules: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pip: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env_vars: BTreeMap<String, String>,
}

/// A package in the cluster's own store.
pub fn package_uri(name: &str) -> String {
    format!("gcs://{name}")
}

/// Between Ray's SIGTERM and its SIGKILL: the job's own grace, and time to write down how it ended.
pub fn notice(job: &JobSpec) -> Span {
    Span((job.grace.0.saturating_mul(3) / 2).saturating_add(10_000))
}

impl Submission {
    /// With what a job needs.
    pub fn with(mut self, job: &JobSpec, need: &Need) -> Self {
        // One that asks for nothing is put on the head.
        self.entrypoint_num_cpus = Some(need.cpus);
        self.entrypoint_num_gpus = Some(need.gpus).filter(|gpus| *gpus > 0.0);
        self.entrypoint_memory = need.memory;
        self.entrypoint_resources = need.resources.clone();
        let wait = notice(job).0.div_ceil(1000);
        self.runtime_env.env_vars.insert("RAY_JOB_STOP_WAIT_TIME_S".to_owned(), wait.to_string());
        self
    }
}

#[cfg(test)]
mod tests;
