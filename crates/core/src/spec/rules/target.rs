//! Contradictions within one target, and values that nobody filled in.

use super::slurm;
use crate::spec::problem::Problem;
use crate::spec::read::Reader;
use crate::spec::target::TargetSpec;

pub(super) fn check(name: &str, target: &Reader<'_>, problems: &mut Vec<Problem>) {
    problems.extend(always_local(name, target));
    samples(target, problems);
    slurm::check(target, problems);
}

fn always_local(name: &str, target: &Reader<'_>) -> Option<Problem> {
    let kind: String = target.get("kind").ok()??;
    (name == TargetSpec::LOCAL && kind != "local").then(|| {
        let message = "the target called `local` is always this machine, of kind `local`";
        target.problem("kind", message).hint("give the other one another name".to_owned())
    })
}

/// What stands in the configurations people copy from.
const SAMPLES: [&str; 10] = [
    "username@",
    "@cluster_ip",
    "/some/path/",
    "/path/to/your/",
    "your_account",
    "your_cluster",
    "name@mail",
    "user@mail",
    "your-account",
    "<your",
];

fn samples(target: &Reader<'_>, problems: &mut Vec<Problem>) {
    for key in ["host", "depot", "account", "partition", "mail", "scratch"] {
        let Ok(Some(text)) = target.get::<String>(key) else { continue };
        let lower = text.to_ascii_lowercase();
        let is_address = |sample: &str| key == "mail" && lower.contains('.') && sample.ends_with("@mail");
        if SAMPLES.iter().any(|sample| lower.contains(sample) && !is_address(sample)) {
            problems.push(target.problem(key, format!("`{text}` is still the placeholder; write your own")));
        }
    }
}
