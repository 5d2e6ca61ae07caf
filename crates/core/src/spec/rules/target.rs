//! Contradictions within one target.

use crate::spec::problem::Problem;
use crate::spec::read::Reader;
use crate::spec::target::TargetSpec;
use crate::template;

pub(super) fn check(name: &str, target: &Reader<'_>, problems: &mut Vec<Problem>) {
    problems.extend(always_local(name, target));
    problems.extend(gpu_request(target));
    directives(target, problems);
}

fn always_local(name: &str, target: &Reader<'_>) -> Option<Problem> {
    let kind: String = target.get("kind").ok()??;
    (name == TargetSpec::LOCAL && kind != "local").then(|| {
        let message = "the target called `local` is always this machine, of kind `local`";
        target.problem("kind", message).hint("give the other one another name".to_owned())
    })
}

fn gpu_request(target: &Reader<'_>) -> Option<Problem> {
    let request: String = target.get("gpu-request").ok()??;
    let other = template::names(&request).into_iter().find(|name| *name != "gpus")?;
    let message = format!("unknown placeholder `{{{other}}}`, only `{{gpus}}` can stand here");
    Some(target.problem("gpu-request", message))
}

/// A directive that is no option would end the `#SBATCH` lines of the script, and the rest with them.
fn directives(target: &Reader<'_>, problems: &mut Vec<Problem>) {
    let directives: Vec<String> = target.get("directives").ok().flatten().unwrap_or_default();
    for (index, directive) in directives.iter().enumerate() {
        if !directive.starts_with('-') {
            let message = "expected an option of `sbatch`, such as `--exclusive`";
            problems.push(target.item_problem("directives", index, message));
        }
    }
}
