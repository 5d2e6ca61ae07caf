//! Jobs that are submitted as a group: who sees to it that they start when they should.

use trainyard_core::run::Tie;
use trainyard_core::spec::{GroupSpec, JobSpec, Setting, Start, TargetKind};

use super::{Destination, Plan, SubmitError};
use crate::ledger::new_id;

/// Ties the plans of a group's jobs, in their order, to each other; or says why that target could not keep to it.
pub fn tie(group: &GroupSpec, plans: &mut [Plan]) -> Result<(), SubmitError> {
    let at_target = at_target(group, plans)?;
    let id = new_id().to_string();
    for (step, plan) in (0..).zip(plans) {
        plan.tie = Some(Tie { id: id.clone(), group: group.name.clone(), start: group.start, step, at_target });
    }
    Ok(())
}

/// Whether the target gets the group whole. A machine behind ssh has a queue of its own, so it keeps the order with this
/// machine switched off; a Ray cluster holds places for all of them. Else the yardmaster here sees to it.
fn at_target(group: &GroupSpec, plans: &[Plan]) -> Result<bool, SubmitError> {
    let Some(first) = plans.first() else { return Ok(false) };
    let refused = |why: String| SubmitError::Refused { target: first.target.clone(), why };
    let is_one = plans.iter().all(|plan| plan.target == first.target);
    if group.start == Start::WhenFree {
        return Ok(false);
    }
    if group.start == Start::Together && !is_one {
        let others = plans.iter().find(|plan| plan.target != first.target).map_or("", |plan| plan.target.as_str());
        let why = format!(
            "`groups.{}` starts together, and no two targets can promise that: another job of it runs at `{others}`; \
             name one target with `--on`",
            group.name
        );
        return Err(refused(why));
    }
    let kind = match &first.destination {
        Destination::Here { .. } => return Ok(false),
        Destination::Site(site) => &site.target.kind,
    };
    let whole = match (kind, group.start) {
        (TargetKind::Slurm(_), Start::Together) => {
            return Err(refused(format!(
                "`groups.{}` starts together, and SLURM gives each job its place by itself; use `start = \"in-order\"` \
                 or `\"when-free\"`, or one job with `nodes`",
                group.name
            )));
        }
        (TargetKind::Ssh(_), _) => is_one,
        (TargetKind::Ray(_), Start::Together) => true,
        _ => false,
    };
    match clash(plans).filter(|_| whole) {
        Some(why) => Err(refused(why)),
        None => Ok(whole),
    }
}

/// Secrets of a parcel are known by their names.
fn clash(plans: &[Plan]) -> Option<String> {
    let secrets = |plan: &Plan| -> Vec<(String, Setting)> {
        let all = plan.job.env.iter().filter(|(_, setting)| matches!(setting, Setting::Secret(_)));
        all.map(|(name, setting)| (name.clone(), setting.clone())).collect()
    };
    plans.iter().enumerate().find_map(|(index, plan)| {
        let others: Vec<_> = plans.iter().take(index).flat_map(secrets).collect();
        let mut own = secrets(plan).into_iter();
        own.find(|(name, setting)| others.iter().any(|(other, its)| other == name && its != setting)).map(
            |(name, _)| {
                format!(
                    "`jobs.{}.env.{name}` is another secret than in the jobs before it; give it another name",
                    plan.job.name
                )
            },
        )
    })
}

/// Why a job that asks for certain nodes is none for this kind of target.
pub(super) fn misplaced(job: &JobSpec, kind: &TargetKind) -> Option<String> {
    let only = |key: &str| Some(format!("`jobs.{}` has `{key}`, which means something on Ray clusters only", job.name));
    match kind {
        TargetKind::Ray(_) => None,
        _ if job.per_node.is_some() => only("per-node"),
        _ if !job.shares.is_empty() => only("resources"),
        TargetKind::Local(_) | TargetKind::Ssh(_) => job.node.as_ref().map(|node| {
            format!("`jobs.{}` wants the node `{node}`, and this is one machine; leave out `node`", job.name)
        }),
        _ => None,
    }
}
