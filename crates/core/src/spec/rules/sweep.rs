//! Contradictions within one sweep, and the job it searches.

mod space;
mod stop;

use super::dangling;
use crate::space::Domain;
use crate::spec::decode::dimension;
use crate::spec::job::Gpus;
use crate::spec::preset::PRESETS;
use crate::spec::problem::Problem;
use crate::spec::read::{Choice, Reader};
use crate::spec::sweep::{Repeats, SamplerKind};

pub(super) fn check(sweep: &Reader<'_>, root: &Reader<'_>, problems: &mut Vec<Problem>) {
    problems.extend(job(sweep, root));
    problems.extend(trials(sweep));
    problems.extend(budget(sweep, root));
    problems.extend(aggregate(sweep));
    stop::check(sweep, root, problems);
    let Some(table) = sweep.table("space") else { return };
    if table.names().is_empty() {
        problems.push(sweep.problem("space", "there is nothing to search"));
    }
    let before = problems.len();
    for (_, reader) in sweep.tables("space") {
        problems.extend(range(&reader));
    }
    if problems.len() == before
        && let Some(space) = space::check(sweep, problems)
    {
        space::points(sweep, &space, problems);
    }
}

fn budget(sweep: &Reader<'_>, root: &Reader<'_>) -> Option<Problem> {
    let budget = sweep.table("budget")?;
    let hours: f64 = budget.get("gpu-hours").ok()??;
    if hours <= 0.0 {
        return Some(budget.problem("gpu-hours", format!("must be more than nothing, found {hours}")));
    }
    let name: String = sweep.get("job").ok()??;
    let gpus: Gpus = root.table("jobs")?.table(&name)?.get("gpus").ok()??;
    (gpus == Gpus::Whole(0)).then(|| {
        let message = format!("the job `{name}` has no GPU, so it would never spend any");
        budget.problem("gpu-hours", message).hint("write `time = \"24h\"` instead".to_owned())
    })
}

fn aggregate(sweep: &Reader<'_>) -> Option<Problem> {
    let repeats: Repeats = sweep.get("repeats").ok()??;
    (sweep.has("aggregate") && repeats == Repeats::Adaptive).then(|| {
        let hint = "write `repeats = 3`, or leave `aggregate` out".to_owned();
        sweep.problem("aggregate", "adaptive repeats have a mean of their own").hint(hint)
    })
}

fn job(sweep: &Reader<'_>, root: &Reader<'_>) -> Option<Problem> {
    if let Some(problem) = dangling(sweep, "job", "job", &root.names_in("jobs")) {
        return Some(problem);
    }
    let name: String = sweep.get("job").ok()??;
    let has_metrics = root.table("jobs")?.table(&name)?.has("metrics");
    let presets = PRESETS.join(", ");
    let hint =
        format!("add `[jobs.{name}.metrics]` with `tensorboard`, `jsonl`, `csv`, `stdout`, or a `preset`: {presets}");
    let message = format!("the job `{name}` has no `metrics`, so nothing can be read from its runs");
    (!has_metrics).then(|| sweep.problem("metric", message).hint(hint))
}

fn trials(sweep: &Reader<'_>) -> Option<Problem> {
    let sampler: Choice<SamplerKind> = sweep.get("sampler").ok()??;
    if sweep.has("trials") {
        return None;
    }
    match (sampler.0, space::is_finite(sweep)?) {
        (SamplerKind::Grid, true) => None,
        (SamplerKind::Grid, false) => Some(sweep.problem("trials", "missing key `trials`: the space is not finite")),
        _ if sweep.has("budget") => None,
        _ => {
            let problem = sweep.problem("trials", "missing key `trials`: only a grid knows its end");
            Some(problem.hint("add `trials`, or a `budget` such as `{ time = \"24h\" }`".to_owned()))
        }
    }
}

fn range(reader: &Reader<'_>) -> Option<Problem> {
    let ordered =
        |low: f64, high: f64| (low >= high).then(|| format!("low must be less than high, found {low} and {high}"));
    let positive = |low: f64| (low <= 0.0).then(|| format!("a logarithm needs numbers above 0, found {low}"));
    let power = |n: u64| (n > 0 && !n.is_power_of_two()).then(|| format!("{n} is not a power of two"));
    let (key, message) = match dimension(reader).ok()?.domain {
        Domain::Uniform { low, high } => ("uniform", ordered(low, high)),
        Domain::LogUniform { low, high } => ("log-uniform", ordered(low, high).or_else(|| positive(low))),
        Domain::Quantized { low, high, step } => {
            let fits = step > 0.0 && step <= high - low;
            let step = (!fits).then(|| format!("the step must lie above 0 and within the range, found {step}"));
            ("quantized", ordered(low, high).or(step))
        }
        Domain::Int { low, high } => ("int", ordered_whole(low, high)),
        Domain::LogInt { low, high } => ("log-int", ordered_whole(low, high).or_else(|| positive(low as f64))),
        Domain::PowerOfTwo { low, high } => {
            let unordered = (low >= high).then(|| format!("low must be less than high, found {low} and {high}"));
            ("power-of-two", power(low).or_else(|| power(high)).or(unordered))
        }
        _ => return None,
    };
    message.map(|message| reader.problem(key, message))
}

/// Not by way of floats, in which large neighbours are equal.
fn ordered_whole(low: i64, high: i64) -> Option<String> {
    (low >= high).then(|| format!("low must be less than high, found {low} and {high}"))
}
