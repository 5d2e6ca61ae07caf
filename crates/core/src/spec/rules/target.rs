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
const SAMPLES: [&str; 5] = ["username@cluster_ip", "your_cluster_login_node", "your_account", "name@mail", "user@mail"];
const SAMPLE_FOLDERS: [&str; 2] = ["/some/path/", "/path/to/"];

fn samples(target: &Reader<'_>, problems: &mut Vec<Problem>) {
    for key in ["host", "depot", "account", "partition", "mail", "scratch"] {
        let Ok(Some(text)) = target.get::<String>(key) else { continue };
        let is_sample = SAMPLES.iter().any(|sample| text.eq_ignore_ascii_case(sample));
        if is_sample || SAMPLE_FOLDERS.iter().any(|folder| text.starts_with(folder)) {
            problems.push(target.problem(key, format!("`{text}` is still the placeholder; write your own")));
        }
    }
}
