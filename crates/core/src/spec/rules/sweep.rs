//! Contradictions within one sweep, and the job it searches.

use super::dangling;
use crate::spec::decode::dimension;
use crate::spec::problem::Problem;
use crate::spec::read::{Choice, Reader};
use crate::spec::sweep::{Domain, SamplerKind};

pub(super) fn check(sweep: &Reader<'_>, root: &Reader<'_>, problems: &mut Vec<Problem>) {
    problems.extend(job(sweep, root));
    problems.extend(trials(sweep));
    let Some(space) = sweep.table("space") else { return };
    if space.names().is_empty() {
        problems.push(sweep.problem("space", "there is nothing to search"));
    }
    for (_, reader) in sweep.tables("space") {
        problems.extend(range(&reader));
    }
}

fn job(sweep: &Reader<'_>, root: &Reader<'_>) -> Option<Problem> {
    if let Some(problem) = dangling(sweep, "job", "job", &root.names_in("jobs")) {
        return Some(problem);
    }
    let name: String = sweep.get("job").ok()??;
    let has_metrics = root.table("jobs")?.table(&name)?.has("metrics");
    let hint = format!("add `[jobs.{name}.metrics]` with `tensorboard`, `jsonl` or `stdout`");
    let message = format!("the job `{name}` has no `metrics`, so nothing can be read from its runs");
    (!has_metrics).then(|| sweep.problem("metric", message).hint(hint))
}

fn trials(sweep: &Reader<'_>) -> Option<Problem> {
    if sweep.has("trials") {
        return None;
    }
    let sampler: Choice<SamplerKind> = sweep.get("sampler").ok()??;
    let space = sweep.tables("space").into_iter();
    let dimensions: Option<Vec<_>> = space.map(|(_, reader)| dimension(&reader).ok()).collect();
    let is_finite = dimensions?.iter().all(|dimension| dimension.domain.is_finite());
    let message = match (sampler.0, is_finite) {
        (SamplerKind::Grid, true) => return None,
        (SamplerKind::Grid, false) => "missing key `trials`: the space is not finite",
        _ => "missing key `trials`: only a grid knows its end",
    };
    Some(sweep.problem("trials", message))
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
