//! Contradictions within one group, and the jobs it names.

use super::dangling;
use crate::spec::nearest::did_you_mean;
use crate::spec::problem::Problem;
use crate::spec::read::Reader;
use crate::spec::shape::names;

pub(super) fn check(name: &str, group: &Reader<'_>, root: &Reader<'_>, problems: &mut Vec<Problem>) {
    let known = root.names_in("jobs");
    if known.contains(&name) {
        let message = format!("a job is called `{name}` too, and `yard run {name}` can mean only one of them");
        problems.push(group.problem("", message).hint("give one of them another name".to_owned()));
    }
    problems.extend(dangling(group, "target", "target", &root.names_in("targets")));
    let jobs: Vec<String> = group.get("jobs").ok().flatten().unwrap_or_default();
    for (index, job) in jobs.iter().enumerate() {
        if !known.contains(&job.as_str()) {
            let hint = did_you_mean(job, known.iter().copied())
                .unwrap_or_else(|| format!("known here: {}", names(known.iter().copied())));
            problems.push(group.item_problem("jobs", index, format!("no job is called `{job}`")).hint(hint));
        }
        if jobs.iter().take(index).any(|earlier| earlier == job) {
            let hint = "give the job `seeds` to run it several times".to_owned();
            problems.push(group.item_problem("jobs", index, format!("`{job}` stands here twice")).hint(hint));
        }
    }
}
