//! `tasks.yaml` of Isaac Lab's `task_runner.py`.

use super::draft::{Draft, DraftJob, is_gpus};
use super::yaml::{self, Node, Value};
use super::{ImportError, Imported, Remark, UNKNOWN, arithmetic, at};
use crate::spec::Start;

pub(super) fn translate(text: &str) -> Result<Imported, ImportError> {
    let root = yaml::parse(text).map_err(ImportError::At)?;
    let Some(tasks) = root.get("tasks") else {
        return Err(ImportError::Nothing { what: UNKNOWN, remarks: Vec::new() });
    };
    let Value::List(items) = &tasks.value else {
        return Err(ImportError::At(at(tasks.line, "`tasks` is to be a list")));
    };
    let mut remarks = unknown(&root, &["tasks", "pip", "py_modules", "concurrent"]);
    let mut draft = Draft { start: Some(start(&root, &mut remarks)), ..Draft::default() };
    draft.pip = texts(&root, "pip", &mut remarks);
    draft.py_modules = texts(&root, "py_modules", &mut remarks);
    for item in items {
        match task(item, &draft, &mut remarks) {
            Ok(job) => draft.jobs.push(job),
            Err(remark) => remarks.push(at(remark.line, format!("{}; the task was left out", remark.what))),
        }
    }
    if draft.jobs.is_empty() {
        return Err(ImportError::Nothing { what: "no task of it can be translated", remarks });
    }
    remarks.sort_by_key(|remark| remark.line);
    Ok(Imported { text: draft.write(), remarks })
}

fn unknown(node: &Node, known: &[&str]) -> Vec<Remark> {
    let others = node.fields().iter().filter(|(name, _)| !known.contains(&name.as_str()));
    others.map(|(name, node)| at(node.line, format!("the key `{name}` is not known, and was left out"))).collect()
}

fn start(root: &Node, remarks: &mut Vec<Remark>) -> Start {
    let Some(node) = root.get("concurrent") else { return Start::WhenFree };
    match node.text().map(str::to_ascii_lowercase).as_deref() {
        Some("true" | "yes" | "on") => Start::Together,
        Some("false" | "no" | "off") => Start::WhenFree,
        _ => {
            remarks.push(at(node.line, "`concurrent` is neither `true` nor `false`; taken as `false`"));
            Start::WhenFree
        }
    }
}

fn texts(root: &Node, key: &str, remarks: &mut Vec<Remark>) -> Vec<String> {
    let Some(node) = root.get(key) else { return Vec::new() };
    let Value::List(items) = &node.value else {
        remarks.push(at(node.line, format!("`{key}` is no list, and was left out")));
        return Vec::new();
    };
    let text = |item: &Node| match item.text() {
        Some(text) if !text.trim().is_empty() => Some(text.to_owned()),
        _ => {
            remarks.push(at(item.line, format!("an item of `{key}` is no text, and was left out")));
            None
        }
    };
    items.iter().filter_map(text).collect()
}

fn task(item: &Node, draft: &Draft, remarks: &mut Vec<Remark>) -> Result<DraftJob, Remark> {
    if !matches!(item.value, Value::Map(_)) {
        return Err(at(item.line, "a task is a table with `name` and `py_args`"));
    }
    let wish =
        item.get("name").map_or(Ok("task"), |name| name.text().ok_or_else(|| at(name.line, "`name` is no text")))?;
    let arguments = item.get("py_args").ok_or_else(|| at(item.line, "`py_args` is missing"))?;
    let arguments = arguments.text().ok_or_else(|| at(arguments.line, "`py_args` is no text"))?;
    let mut job = DraftJob { name: draft.name(wish), ..DraftJob::default() };
    command(&mut job, arguments);
    amounts(&mut job, item, remarks)?;
    job.node = item.get("node").map_or(Ok(None), |node| place(node, remarks))?;
    remarks.extend(unknown(item, &["name", "py_args", "num_gpus", "num_cpus", "memory", "node"]));
    if job.name != wish {
        remarks.push(at(item.line, format!("the task `{}` is called `{}`", wish.escape_debug(), job.name)));
    }
    Ok(job)
}

/// The tool gave the line to a shell. Where no shell is needed to understand it, none is used.
fn command(job: &mut DraftJob, arguments: &str) {
    let line = arguments.split_whitespace().collect::<Vec<_>>().join(" ");
    let needs_shell = line.contains(['$', '`', '|', '&', ';', '<', '>', '*', '?', '~', '#']);
    match shlex::split(&line).filter(|_| !needs_shell) {
        Some(words) => job.command = std::iter::once("python".to_owned()).chain(words).collect(),
        None => job.shell = Some(format!("exec python {line}")),
    }
}

fn amounts(job: &mut DraftJob, item: &Node, remarks: &mut Vec<Remark>) -> Result<(), Remark> {
    let amount = |key: &str| -> Result<Option<(f64, usize)>, Remark> {
        let Some(node) = item.get(key) else { return Ok(None) };
        let text = node.text().ok_or_else(|| at(node.line, format!("`{key}` is no number")))?;
        let value = arithmetic::evaluate(text).map_err(|why| at(node.line, format!("`{key}`: {why}")))?;
        if value < 0.0 {
            return Err(at(node.line, format!("`{key}` is less than nothing")));
        }
        Ok(Some((value, node.line)))
    };
    if let Some((gpus, line)) = amount("num_gpus")? {
        is_gpus(gpus).map_err(|why| at(line, format!("`num_gpus` is {gpus}: {why}")))?;
        job.gpus = Some(gpus);
    }
    if let Some((cpus, line)) = amount("num_cpus")? {
        let whole = cpus.ceil().max(1.0);
        if whole != cpus {
            remarks.push(at(line, format!("`num_cpus` was {cpus}, and is {whole} now: yard counts whole cores")));
        }
        job.cpus = Some(whole as u64);
    }
    job.memory = amount("memory")?.map(|(bytes, _)| bytes.ceil() as u64).filter(|bytes| *bytes > 0);
    Ok(())
}

fn place(node: &Node, remarks: &mut Vec<Remark>) -> Result<Option<String>, Remark> {
    remarks.extend(unknown(node, &["specific", "hostname", "node_id"]));
    let specific = node.get("specific");
    let Some(key) = specific.and_then(Node::text).filter(|how| *how != "any") else { return Ok(None) };
    if key != "hostname" && key != "node_id" {
        let line = specific.map_or(node.line, |node| node.line);
        return Err(at(line, format!("`specific` is `{key}`, and not one of `any`, `hostname`, `node_id`")));
    }
    match node.get(key).and_then(Node::text) {
        Some(name) => Ok(Some(name.to_owned())),
        None => Err(at(node.line, format!("`specific` is `{key}`, but there is no `{key}`"))),
    }
}
