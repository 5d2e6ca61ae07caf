//! How a job meets a site: how long, how many at once, by which way it goes on, and what can never run.

mod refuse;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;

pub use refuse::refuse;

use std::ops::Range;

use super::facts::Facts;
use super::moment;
use super::script::PlanError;
use crate::spec::{Gpus, JobSpec, ResumeBy, SlurmSpec};
use crate::time::Span;

const MINUTE: u64 = 60_000;

/// Runs that go side by side in one allocation.
pub fn lanes(job: &JobSpec) -> u32 {
    match job.gpus {
        Gpus::Whole(_) => 1,
        Gpus::Share(of) => of.min(runs_per_group(job)),
    }
}

/// Runs that one allocation is made for; more than [`lanes`] take turns.
pub fn runs_per_group(job: &JobSpec) -> u32 {
    match job.gpus {
        Gpus::Whole(_) => 1,
        Gpus::Share(of) => job.pack.unwrap_or(of).max(1),
    }
}

/// What is asked for with `--time`: the job's own time (once for each turn of its lanes) within what the site allows,
/// in whole minutes. `None` where neither says anything, and the partition's own default holds.
pub fn allocation_time(job: &JobSpec, target: &SlurmSpec, facts: &Facts) -> Option<Span> {
    let turns = u64::from(runs_per_group(job).div_ceil(lanes(job)));
    let wanted = job.time.map(|time| Span(time.0.saturating_mul(turns)));
    let allowed = longest(target, facts);
    let (wanted, allowed) = match (wanted, allowed) {
        (None, None) => return None,
        (None, Some(_)) => (target.max_time?, allowed),
        (Some(wanted), allowed) => (wanted, allowed),
    };
    let minutes = wanted.0.div_ceil(MINUTE);
    let most = allowed.map_or(u64::MAX, |allowed| allowed.0 / MINUTE);
    Some(Span(minutes.min(most).max(1) * MINUTE))
}

/// The longest an allocation may be: `max-time` and the limits of the partitions. `None` is no limit that is known.
fn longest(target: &SlurmSpec, facts: &Facts) -> Option<Span> {
    target.max_time.into_iter().chain(partition_limit(target, facts)).min()
}

/// With several partitions named, the longest of theirs: SLURM passes over those that are too short.
fn partition_limit(target: &SlurmSpec, facts: &Facts) -> Option<Span> {
    let partitions = facts.partitions_for(target.partition.as_deref())?;
    let limits: Option<Vec<Span>> = partitions.iter().map(|partition| partition.max_time).collect();
    limits?.into_iter().max()
}

/// What job and target say against each other, whatever the site is like.
pub(super) fn conflict(job: &JobSpec, target: &SlurmSpec) -> Option<String> {
    let words: Vec<&str> = target.gpu_request.split_whitespace().collect();
    let has = |option: &str, name: &str| words.iter().any(|word| word.starts_with(option) && word.contains(name));
    let has_gpus = job.gpus != Gpus::Whole(0);
    if has_gpus && job.nodes > 1 && (has("--gpus=", "{gpus}") || has("-G", "{gpus}")) {
        return Some(format!(
            "`--gpus` counts the GPUs of all {} nodes; write `{{total_gpus}}` instead of `{{gpus}}` in `gpu-request`",
            job.nodes
        ));
    }
    if has_gpus && job.tasks_per_node() > 1 && has("--gpus-per-task=", "{gpus}") {
        let message = "`--gpus-per-task` counts the GPUs of one process; \
                       write `{gpus_per_task}` instead of `{gpus}` in `gpu-request`";
        return Some(message.to_owned());
    }
    let per_gpu = target.directives.iter().any(|directive| directive.starts_with("--mem-per-gpu"));
    (per_gpu && job.memory.is_some())
        .then(|| "`memory` of the job and `--mem-per-gpu` in `directives` exclude each other; drop one".to_owned())
}

pub(super) fn time_text(time: Span) -> String {
    moment::minutes(time.0.div_ceil(MINUTE))
}

/// Groups `0..groups` in portions that fit into one array each. Every portion is an array of its own, numbered from
/// 0 and with a name of its own, since indices end at the site's `MaxArraySize`.
pub fn split(groups: u32, facts: &Facts) -> Vec<Range<u32>> {
    let size = facts.array_size().max(1);
    (0..groups).step_by(size as usize).map(|first| first..groups.min(first.saturating_add(size))).collect()
}

/// How runs go on without us: what the target says, else what the site is known to allow. An array serves one group
/// alone and needs nothing from the nodes, so it comes first where the site would rather not requeue.
pub fn mechanism(target: &SlurmSpec, facts: &Facts, groups: u32, attempts: u32) -> Result<ResumeBy, PlanError> {
    let requeue = facts.settings.known().and_then(|settings| settings.requeue).unwrap_or(true);
    match target.resume_by {
        Some(ResumeBy::Array) if groups > 1 && attempts > 1 => Err(PlanError::ArrayOfGroups { groups }),
        Some(chosen) => Ok(chosen),
        None if requeue => Ok(ResumeBy::Requeue),
        None if groups <= 1 && attempts <= facts.array_size() => Ok(ResumeBy::Array),
        None => Ok(ResumeBy::Chain),
    }
}
