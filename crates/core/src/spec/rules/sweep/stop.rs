//! Whether a scheduler has what it needs, and nothing that it would not heed.

use crate::spec::problem::Problem;
use crate::spec::read::{Choice, Reader};
use crate::spec::shape::names;
use crate::spec::sweep::{SchedulerKind, StopMode};

use SchedulerKind::{Asha, Hyperband, Median, Pbt};

/// Keys of `stop` that not all schedulers heed.
const HEEDED: [(&str, &[(SchedulerKind, &str)]); 5] = [
    ("mode", &[(Asha, "asha"), (Hyperband, "hyperband")]),
    ("every", &[(Median, "median"), (Pbt, "pbt")]),
    ("quantile", &[(Pbt, "pbt")]),
    ("threshold", &[(Pbt, "pbt")]),
    ("mutate", &[(Pbt, "pbt")]),
];

pub(super) fn check(sweep: &Reader<'_>, root: &Reader<'_>, problems: &mut Vec<Problem>) {
    let Some(stop) = sweep.table("stop") else { return };
    let Ok(Some(Choice(kind))) = stop.get::<Choice<SchedulerKind>>("scheduler") else { return };
    for (key, owners) in HEEDED {
        if stop.has(key) && owners.iter().all(|(owner, _)| *owner != kind) {
            let message = format!("means something with {} only", names(owners.iter().map(|(_, name)| *name)));
            problems.push(stop.problem(key, message));
        }
    }
    problems.extend(last(&stop, kind));
    problems.extend(checkpoints(sweep, &stop, kind, root));
    shares(&stop, problems);
}

fn last(stop: &Reader<'_>, kind: SchedulerKind) -> Option<Problem> {
    let first: u64 = stop.get("first").ok()??;
    match stop.get::<u64>("last").ok()? {
        None if kind == Hyperband => {
            let hint = "add `last = N`: the training step at which a training is complete".to_owned();
            Some(stop.problem("scheduler", "`hyperband` needs to know how long a training is").hint(hint))
        }
        Some(last) if last <= first => {
            Some(stop.problem("last", format!("must lie above `first`, which is {first}, found {last}")))
        }
        _ => None,
    }
}

/// What is to go on elsewhere or later needs a checkpoint, and a program that takes it.
fn checkpoints(sweep: &Reader<'_>, stop: &Reader<'_>, kind: SchedulerKind, root: &Reader<'_>) -> Option<Problem> {
    let pauses = matches!(stop.get::<Choice<StopMode>>("mode"), Ok(Some(Choice(StopMode::Pause))));
    let (key, what) = match kind {
        Pbt => ("scheduler", "`pbt` hands checkpoints on"),
        Asha | Hyperband if pauses => ("mode", "a paused trial goes on from its checkpoint"),
        _ => return None,
    };
    let name: String = sweep.get("job").ok()??;
    let job = root.table("jobs")?.table(&name)?;
    let args: Vec<String> =
        job.table("resume").and_then(|resume| resume.get("args").ok().flatten()).unwrap_or_default();
    let has_checkpoint = job.table("resume").is_some_and(|resume| resume.has("checkpoint"));
    let lacks = match (has_checkpoint, args.is_empty()) {
        (true, false) => return None,
        (false, _) => "checkpoint",
        (true, true) => "args",
    };
    let hint = format!("add `[jobs.{name}.resume]` with `checkpoint = \"logs/**/model_*.pt\"` and `args`");
    Some(stop.problem(key, format!("{what}, and the job `{name}` has no `resume.{lacks}`")).hint(hint))
}

fn shares(stop: &Reader<'_>, problems: &mut Vec<Problem>) {
    if let Ok(Some(quantile)) = stop.get::<f64>("quantile")
        && !(quantile > 0.0 && quantile <= 0.5)
    {
        problems.push(stop.problem("quantile", format!("expected a share above 0 and at most 0.5, found {quantile}")));
    }
    if let Ok(Some(threshold)) = stop.get::<f64>("threshold")
        && threshold < 0.0
    {
        problems.push(stop.problem("threshold", format!("expected a number of at least 0, found {threshold}")));
    }
    let Some(mutate) = stop.table("mutate") else { return };
    if let Ok(Some(rate)) = mutate.get::<f64>("rate")
        && !(rate > 0.0 && rate <= 1.0)
    {
        problems.push(mutate.problem("rate", format!("expected a chance above 0 and at most 1, found {rate}")));
    }
    if let Ok(Some(range)) = mutate.get::<Vec<f64>>("range")
        && let [low, high] = range[..]
        && !(low > 1.0 && low <= high)
    {
        let message = format!("expected two factors above 1, the smaller first, found {low} and {high}");
        problems.push(mutate.problem("range", message));
    }
}
