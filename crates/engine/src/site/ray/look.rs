//! How runs stand: what Ray says of its jobs, and what lies in the folders of those that have begun.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant as Clock};

use trainyard_agent::disk::now;
use trainyard_agent::look::Finding;
use trainyard_agent::ray::link_name;
use trainyard_agent::site::SiteState;
use trainyard_core::plan::ray::{self as plan, JobRow, JobStatus, Need};

use super::gang::{in_gang, is_lost};
use super::{RaySite, Room};
use crate::ray::{ASKING, Ray, RayError};
use crate::site::{Asked, InQueue, Over, Seen};

/// Ray may bring back the record of a job that is removed right after its end.
const SETTLED: i64 = 60_000;
/// What nodes have and use is asked for again after this long.
const STALE: Duration = Duration::from_secs(15);

impl RaySite {
    /// What lies in the folder of a run that has begun.
    fn look(&self, ray: &Ray, node: &str, asked: &Asked) -> Result<Option<Finding>, RayError> {
        let folder = format!("{}/runs/{}", link_name(self.pipe.depot()), asked.run);
        let state: Option<SiteState> = read(ray, node, &format!("{folder}/state.json"))?;
        let Some(state) = state else { return Ok(None) };
        let attempt = |number: u32, file: &str| format!("{folder}/attempts/{number}/{file}");
        let mut results = Vec::new();
        for number in asked.known + 1..=state.run.last_attempt {
            results.extend(read(ray, node, &attempt(number, "result.json"))?);
        }
        let status = match state.run.state.attempt() {
            Some(number) => read(ray, node, &attempt(number, "status.json"))?,
            None => None,
        };
        Ok(Some(Finding { run: asked.run, state: Some(state), status, results }))
    }

    pub(super) fn observe_at(
        &mut self,
        index: usize,
        jobs: &[JobRow],
        asked: &[&Asked],
    ) -> Result<Vec<Seen>, RayError> {
        let Some(ray) = self.clusters.get(index).cloned() else { return Ok(Vec::new()) };
        tidy(&ray, jobs);
        let by_place: HashMap<(&str, u32), &JobRow> =
            jobs.iter().filter_map(|job| Some((plan::place(&job.id)?, job))).collect();
        let gangs = self.gangs(&ray, asked, &by_place)?;
        let row = |it: &Asked| {
            let group = if gangs.contains_key(&it.place.parcel) { 0 } else { it.place.group };
            by_place.get(&(it.place.parcel.as_str(), group)).copied()
        };
        let is_pending = |it: &&Asked| row(it).is_some_and(|job| job.status == JobStatus::Pending);
        let reasons = asked.iter().any(is_pending).then(|| self.room_at(index, &ray)).transpose()?;
        let mut seen = Vec::new();
        for it in asked {
            let Some(job) = row(it) else {
                seen.push(Seen { run: it.run, queue: InQueue::Absent, finding: None });
                continue;
            };
            let seating = gangs.get(&it.place.parcel);
            let node = seating.map_or(job.node.as_ref(), |seating| seating.nodes.get(&it.place.group));
            let finding = match node {
                Some(node) => {
                    self.note_begun(it, node).map_err(RayError::Package)?;
                    match self.look(&ray, node, it) {
                        Ok(finding) => finding,
                        // A node that is gone says nothing; what Ray says of the job counts then.
                        Err(RayError::Refused(_)) if job.status.has_ended() || is_lost(seating, it) => None,
                        // One that does not answer hides none of the others.
                        Err(RayError::Refused(why)) => {
                            let state = format!("its node does not answer ({why})");
                            seen.push(Seen { run: it.run, queue: InQueue::Other { state }, finding: None });
                            continue;
                        }
                        Err(error) => return Err(error),
                    }
                }
                None => None,
            };
            let queue = seating.and_then(|seating| in_gang(seating, job, it.place.group));
            let queue = queue.unwrap_or_else(|| self.in_queue(job, it, reasons.as_ref()));
            seen.push(Seen { run: it.run, queue, finding });
        }
        Ok(seen)
    }

    /// What a cluster has and what of it is used, as it was a moment ago: why jobs wait is told with every look.
    fn room_at(&mut self, index: usize, ray: &Ray) -> Result<Room, RayError> {
        if let Some((at, room)) = self.rooms.get(&index)
            && at.elapsed() < STALE
        {
            return Ok(room.clone());
        }
        let room = Rc::new((ray.nodes()?, ray.usage()?));
        self.rooms.insert(index, (Clock::now(), Rc::clone(&room)));
        Ok(room)
    }

    fn in_queue(&self, job: &JobRow, asked: &Asked, reasons: Option<&Room>) -> InQueue {
        match &job.status {
            JobStatus::Pending => InQueue::Waiting { why: self.why(asked, reasons) },
            JobStatus::Running => InQueue::Running,
            JobStatus::Succeeded => InQueue::Over(Over::Ended),
            JobStatus::Stopped => InQueue::Over(Over::Cancelled),
            JobStatus::Failed => InQueue::Over(failed(job)),
            JobStatus::Other(state) => InQueue::Other { state: state.clone() },
        }
    }

    fn why(&self, asked: &Asked, reasons: Option<&Room>) -> Option<String> {
        let (nodes, usage) = &**reasons?;
        let job = self.choice(&asked.place.parcel)?.job;
        let need = Need::of(&job, &self.spec, nodes).ok()?;
        plan::waiting(&need, nodes, usage)
    }
}

pub(super) fn read<T: serde::de::DeserializeOwned>(ray: &Ray, node: &str, name: &str) -> Result<Option<T>, RayError> {
    Ok(ray.file(node, name)?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// Records of requests that were answered a while ago.
fn tidy(ray: &Ray, jobs: &[JobRow]) {
    let is_old = |job: &&JobRow| {
        job.id.starts_with(ASKING) && job.status.has_ended() && job.ended.is_some_and(|at| now().0 - at > SETTLED)
    };
    for job in jobs.iter().filter(is_old) {
        // The next look tries again.
        drop(ray.forget(&job.id));
    }
}

fn failed(job: &JobRow) -> Over {
    let gone =
        ["health check failed", "missing too many heartbeats", "node was terminated", "ActorDiedError", "node is dead"];
    if gone.iter().any(|word| job.message.contains(word)) {
        return Over::NodeFailure;
    }
    Over::Failed { how: last_words(&job.message) }
}

/// Ray's messages are logs, mostly; their end says it, unless the program was killed and could say nothing.
pub(super) fn last_words(message: &str) -> String {
    if let Some((_, rest)) = message.split_once("entrypoint command failed with exit code -") {
        let signal: String = rest.chars().take_while(char::is_ascii_digit).collect();
        return format!("its program was killed by signal {signal}");
    }
    let line = message.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.trim().chars().take(300).collect()
}
