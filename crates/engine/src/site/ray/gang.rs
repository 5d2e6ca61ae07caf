//! Runs that start together: one job of Ray's holds places for all of them, and says where each of them is.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use trainyard_agent::parcel::Parcel;
use trainyard_agent::ray::{GANG, Seat, Seating, link_name, seating_name};
use trainyard_core::plan::ray::{JobRow, JobStatus, Need, Node, RuntimeEnv, Submission, submission_id};

use super::look::read;
use super::{RaySite, unsent};
use crate::ray::{Ray, RayError};
use crate::site::{Asked, InQueue, Over};
use crate::target::SubmitError;

const ALL_AT_ONCE: &str = "waits until there is room for all of its group at once";

impl RaySite {
    /// One job for all runs of a group. It needs nothing itself; it holds places for them.
    pub(super) fn gang(
        &self,
        parcel: &Parcel,
        runtime_env: RuntimeEnv,
        nodes: &[Node],
    ) -> Result<Submission, SubmitError> {
        let mut seats = Vec::new();
        for (group, members) in (0..).zip(&parcel.groups) {
            let Some(member) = members.first() else { continue };
            let need = Need::of(parcel.job_of(member), &self.spec, nodes).map_err(SubmitError::Refused)?;
            let command = self.agent.entrypoint(self.pipe.depot(), &format!("--group {group}")).map_err(unsent)?;
            let Need { cpus, gpus, memory, resources } = need;
            seats.push(Seat { group, command, cpus, gpus, memory, resources });
        }
        let mut runtime_env = runtime_env;
        let text = serde_json::to_string(&seats).map_err(|error| SubmitError::Refused(error.to_string()))?;
        runtime_env.env_vars.insert(GANG.to_owned(), text);
        let slowest = parcel.jobs().max_by_key(|job| job.grace).unwrap_or(&parcel.job);
        let task = format!("--gang {}", parcel.id);
        let submission = Submission {
            entrypoint: self.agent.entrypoint(self.pipe.depot(), &task).map_err(unsent)?,
            submission_id: gang_id(&parcel.id),
            runtime_env,
            metadata: BTreeMap::new(),
            entrypoint_num_cpus: None,
            entrypoint_num_gpus: None,
            entrypoint_memory: None,
            entrypoint_resources: BTreeMap::new(),
        };
        Ok(submission.with(slowest, &Need::nothing()))
    }

    /// What the jobs of groups that start together say of their runs, by parcel.
    pub(super) fn gangs(
        &self,
        ray: &Ray,
        asked: &[&Asked],
        jobs: &HashMap<(&str, u32), &JobRow>,
    ) -> Result<BTreeMap<String, Seating>, RayError> {
        let mut found = BTreeMap::new();
        for parcel in asked.iter().map(|it| &it.place.parcel).collect::<BTreeSet<_>>() {
            let Some(job) = jobs.get(&(parcel.as_str(), 0)).filter(|job| job.id == gang_id(parcel)) else { continue };
            let name = format!("{}/{}", link_name(self.pipe.depot()), seating_name(parcel));
            let seating = match &job.node {
                Some(node) => read(ray, node, &name)?,
                None => None,
            };
            found.insert(parcel.clone(), seating.unwrap_or_default());
        }
        Ok(found)
    }
}

pub(super) fn gang_id(parcel: &str) -> String {
    submission_id("together", parcel, 0)
}

pub(super) fn is_lost(seating: Option<&Seating>, asked: &Asked) -> bool {
    seating.is_some_and(|seating| seating.lost.contains_key(&asked.place.group))
}

/// Where a run stands whose places are held by this job. `None` where Ray's word on the job is all there is.
pub(super) fn in_gang(seating: &Seating, job: &JobRow, group: u32) -> Option<InQueue> {
    let over = |over| Some(InQueue::Over(over));
    if seating.lost.contains_key(&group) {
        return over(Over::NodeFailure);
    } else if seating.ended.contains_key(&group) {
        return over(Over::Ended);
    }
    match job.status {
        JobStatus::Running if seating.nodes.is_empty() => Some(InQueue::Waiting { why: Some(ALL_AT_ONCE.to_owned()) }),
        JobStatus::Running => Some(InQueue::Running),
        // Its program was killed, and took the places with it.
        JobStatus::Failed if !seating.nodes.is_empty() => over(Over::NodeFailure),
        _ => None,
    }
}
