//! Contradictions within one job, and names it uses.

use std::collections::BTreeMap;

use super::dangling;
use crate::spec::image::ImageSpec;
use crate::spec::job::{Gpus, Setting};
use crate::spec::problem::Problem;
use crate::spec::quantity::format_duration;
use crate::spec::read::Reader;
use crate::spec::shape::names;
use crate::template;
use crate::time::Span;

pub(super) fn check(name: &str, job: &Reader<'_>, root: &Reader<'_>, problems: &mut Vec<Problem>) {
    problems.extend(empty_command(job));
    problems.extend(image(job, root));
    problems.extend(target(job, root));
    size(job, problems);
    problems.extend(params_file(job));
    if let Some(resume) = job.table("resume") {
        problems.extend(checkpoint_place(job, &resume));
        problems.extend(warning_time(job, &resume));
        checkpoint_in_args(&resume, problems);
    }
    let params = params(name, job, root);
    let params: Vec<&str> = params.iter().map(String::as_str).collect();
    placeholders(job, &params, problems);
}

fn empty_command(job: &Reader<'_>) -> Option<Problem> {
    let command: Vec<String> = job.get("command").ok().flatten().unwrap_or_default();
    if command.first().is_some_and(String::is_empty) {
        return Some(job.item_problem("command", 0, "the name of the program is empty"));
    }
    let script: String = job.get("shell").ok()??;
    script.trim().is_empty().then(|| job.problem("shell", "there is nothing to run"))
}

fn image(job: &Reader<'_>, root: &Reader<'_>) -> Option<Problem> {
    let mut known = root.names_in("images");
    if root.has("image") {
        known.push(ImageSpec::DEFAULT);
    }
    let name: Option<String> = job.get("image").ok()?;
    dangling(job, "image", "image", &known).filter(|_| name.as_deref() != Some(ImageSpec::NONE))
}

fn target(job: &Reader<'_>, root: &Reader<'_>) -> Option<Problem> {
    if let Some(problem) = dangling(job, "target", "target", &root.names_in("targets")) {
        return Some(problem);
    }
    let name: String = job.get("target").ok()??;
    let kind: String = root.table("targets")?.table(&name)?.get("kind").ok()??;
    let is_in_place = job.get("in-place").ok()?.unwrap_or(false);
    if is_in_place && kind != "local" {
        let message = format!("works on targets of kind `local` only, and `{name}` is of kind `{kind}`");
        return Some(job.problem("in-place", message));
    }
    let nodes: u32 = job.get("nodes").ok()??;
    (nodes > 1 && ["local", "ssh"].contains(&kind.as_str())).then(|| {
        let message =
            format!("the target `{name}` is of kind `{kind}`, which is one machine, and the job wants {nodes}");
        job.problem("nodes", message)
    })
}

fn params_file(job: &Reader<'_>) -> Option<Problem> {
    let style: String = job.get("params-style").ok()??;
    let Some(file) = job.table("params-file") else {
        let hint = "add `params-file = { template = \"conf.tmpl.yaml\", to = \"conf.yaml\" }`".to_owned();
        let message = "`file` needs `params-file`";
        return (style == "file").then(|| job.problem("params-style", message).hint(hint));
    };
    if style != "file" {
        let message = format!("means nothing with `params-style = \"{style}\"`");
        return Some(job.problem("params-file", message).hint("write `params-style = \"file\"`".to_owned()));
    }
    if job.get("in-place").ok()?.unwrap_or(false) {
        return Some(job.problem("in-place", "would write `params-file.to` into the project folder itself"));
    }
    let (template, to): (String, String) = (file.get("template").ok()??, file.get("to").ok()??);
    (parts(&template) == parts(&to)).then(|| file.problem("to", "is the template itself"))
}

/// Nodes, processes and GPUs that cannot go together.
fn size(job: &Reader<'_>, problems: &mut Vec<Problem>) {
    let (Ok(Some(gpus)), Ok(Some(nodes))) = (job.get::<Gpus>("gpus"), job.get::<u32>("nodes")) else { return };
    let is_share = matches!(gpus, Gpus::Share(_));
    if is_share && nodes > 1 {
        let message = format!("a run with a share of a GPU, `gpus = {gpus}`, lives on one node");
        problems.push(job.problem("nodes", message));
    }
    let is_per_gpu = job.get::<String>("tasks").ok().flatten().as_deref() == Some("per-gpu");
    if is_per_gpu && (is_share || gpus == Gpus::Whole(0)) {
        let message = format!("`per-gpu` needs whole GPUs, and the job has `gpus = {gpus}`");
        problems.push(job.problem("tasks", message));
    }
    if job.has("per-node")
        && let Some(key) = ["gpus", "cpus", "memory"].into_iter().find(|key| job.is_written(key))
    {
        let message = format!("shares out whole nodes, and the job says `{key}` itself");
        problems.push(job.problem("per-node", message).hint(format!("leave out `{key}`, or `per-node`")));
    }
    if job.has("pack") && !is_share {
        let message = format!("only runs that share a GPU are packed, and the job has `gpus = {gpus}`");
        problems.push(job.problem("pack", message).hint("write a share, such as `gpus = 0.25`".to_owned()));
    }
}

/// A checkpoint outside the outputs would be gone when the next attempt looks for it elsewhere.
fn checkpoint_place(job: &Reader<'_>, resume: &Reader<'_>) -> Option<Problem> {
    let glob: String = resume.get("checkpoint").ok()??;
    let outputs: Vec<String> = job.get("outputs").ok()?.unwrap_or_default();
    let start = literal_start(&glob);
    if outputs.iter().any(|output| start.starts_with(&parts(output))) {
        return None;
    }
    let message = if outputs.is_empty() {
        "lies in none of `outputs`, which is empty".to_owned()
    } else {
        format!("lies in none of `outputs`: {}", names(outputs.iter().map(String::as_str)))
    };
    let folder = start.first().filter(|_| start.len() > 1 || glob.contains('/'));
    let hint = folder.map(|folder| format!("add `\"{folder}/\"` to `outputs`"));
    Some(resume.problem("checkpoint", message).hint(hint))
}

/// The leading folders of a glob that are no pattern.
fn literal_start(glob: &str) -> Vec<&str> {
    let is_literal = |part: &&str| !part.contains(['*', '?', '[', '{']);
    parts(glob).into_iter().take_while(is_literal).collect()
}

fn parts(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").collect()
}

fn warning_time(job: &Reader<'_>, resume: &Reader<'_>) -> Option<Problem> {
    let warn = resume.table("warn")?;
    let before: Span = warn.get("before").ok()??;
    let time: Span = job.get("time").ok()??;
    (before >= time).then(|| {
        let message = format!(
            "the warning would come before the start: an attempt has {}, and this is {}",
            format_duration(time),
            format_duration(before)
        );
        warn.problem("before", message)
    })
}

fn checkpoint_in_args(resume: &Reader<'_>, problems: &mut Vec<Problem>) {
    let args: Vec<String> = resume.get("args").ok().flatten().unwrap_or_default();
    if resume.has("checkpoint") {
        return;
    }
    for (index, arg) in args.iter().enumerate() {
        if template::names(arg).contains(&"checkpoint") {
            let message = "uses `{checkpoint}`, but there is no `checkpoint` to look for";
            let hint = "add `checkpoint = \"logs/**/model_*.pt\"`";
            problems.push(resume.item_problem("args", index, message).hint(hint.to_owned()));
        }
    }
}

/// The job's own parameters, and those that sweeps over it set.
fn params(name: &str, job: &Reader<'_>, root: &Reader<'_>) -> Vec<String> {
    let own = job.names_in("params").into_iter();
    let sweeps = root.tables("sweeps").into_iter();
    let sweeps = sweeps.filter(|(_, sweep)| sweep.get::<String>("job").ok().flatten().as_deref() == Some(name));
    let searched = sweeps.flat_map(|(_, sweep)| sweep.names_in("space"));
    own.chain(searched).map(str::to_owned).collect()
}

fn placeholders(job: &Reader<'_>, params: &[&str], problems: &mut Vec<Problem>) {
    for (reader, key) in [(Some(job.clone()), "command"), (job.table("resume"), "args")] {
        let Some(reader) = reader else { continue };
        let texts: Vec<String> = reader.get(key).ok().flatten().unwrap_or_default();
        for (index, text) in texts.iter().enumerate() {
            if let Err(error) = template::check(text, params) {
                problems.push(reader.item_problem(key, index, error.to_string()));
            }
        }
    }
    if let Ok(Some(script)) = job.get::<String>("shell")
        && let Err(error) = template::check(&script, params)
    {
        problems.push(job.problem("shell", error.to_string()));
    }
    let Some(env) = job.table("env") else { return };
    let settings: BTreeMap<String, Setting> = job.get("env").ok().flatten().unwrap_or_default();
    for (name, setting) in settings {
        if let Setting::Text(text) = setting
            && let Err(error) = template::check(&text, params)
        {
            problems.push(env.problem(&name, error.to_string()));
        }
    }
}
