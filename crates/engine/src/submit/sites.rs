//! How a site is told about runs: what each kind of site makes of a wish, or why it would not run it.

use trainyard_core::plan::slurm::{self as rules, Facts};
use trainyard_core::spec::{ResumeBy, SlurmSpec};
use trainyard_core::time::Span;

use super::{SubmitError, Wish};
use crate::site::{SitePlan, depot_of};

/// SLURM's own default between SIGTERM and SIGKILL.
const KILL_WAIT: Span = Span::seconds(30);

pub(super) fn machine(wish: &Wish<'_>) -> Result<SitePlan, SubmitError> {
    if wish.job.nodes > 1 {
        let why = format!("`jobs.{}` wants {} nodes, and this is one machine", wish.job.name, wish.job.nodes);
        return Err(SubmitError::Refused { target: wish.target.name.clone(), why });
    }
    Ok(SitePlan {
        target: wish.target.clone(),
        pack: 1,
        lanes: 1,
        most_groups: u32::MAX,
        by: ResumeBy::Requeue,
        limit: None,
        notice: KILL_WAIT,
        facts: None,
    })
}

/// Ray counts shares of GPUs itself, so every run is a job of its own.
pub(super) fn ray(wish: &Wish<'_>) -> Result<SitePlan, SubmitError> {
    let refused = |why: String| SubmitError::Refused { target: wish.target.name.clone(), why };
    if wish.job.nodes > 1 {
        let why = format!("`jobs.{}` wants {} nodes, and a Ray job runs on one", wish.job.name, wish.job.nodes);
        return Err(refused(why));
    }
    if let Some((profile, _)) = wish.image {
        return Err(refused(format!(
            "the job runs in the image `{profile}`, and on a Ray cluster programs run in what its nodes have; set `image = \"none\"` in the job, or `--image none`"
        )));
    }
    if !depot_of(wish.target).starts_with('/') {
        return Err(refused("`depot` must be an absolute path, the same on all nodes".to_owned()));
    }
    Ok(SitePlan {
        target: wish.target.clone(),
        pack: 1,
        lanes: 1,
        most_groups: u32::MAX,
        by: ResumeBy::Requeue,
        limit: None,
        notice: trainyard_core::plan::ray::notice(wish.job),
        facts: None,
    })
}

pub(super) fn slurm(wish: &Wish<'_>, target: &SlurmSpec, facts: Option<&Facts>) -> Result<SitePlan, SubmitError> {
    let refused = |why: String| SubmitError::Refused { target: wish.target.name.clone(), why };
    let facts = facts.cloned().unwrap_or_default();
    if let Some(why) = rules::refuse(wish.job, target, &facts) {
        return Err(refused(why));
    }
    let pack = rules::runs_per_group(wish.job);
    let runs = u32::try_from(wish.seeds.len().max(1)).unwrap_or(u32::MAX);
    let attempts = wish.job.resume.attempts;
    // An array of turns serves one group, so each gets one of its own.
    let by_array = target.resume_by == Some(ResumeBy::Array);
    let groups = if by_array { 1 } else { runs.div_ceil(pack) };
    let by = rules::mechanism(target, &facts, groups, attempts).map_err(|error| refused(error.to_string()))?;
    let alone = by == ResumeBy::Array && attempts > 1;
    Ok(SitePlan {
        target: wish.target.clone(),
        pack,
        lanes: rules::lanes(wish.job),
        most_groups: if alone { 1 } else { facts.array_size().max(1) },
        by,
        limit: rules::allocation_time(wish.job, target, &facts),
        notice: facts.settings.known().and_then(|settings| settings.kill_wait).unwrap_or(KILL_WAIT),
        facts: Some(facts),
    })
}
