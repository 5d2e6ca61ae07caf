//! The whole way, from texts to a configuration or to all that is wrong with them.

mod errors_of_form;
mod errors_of_meaning;
mod example;
mod properties;
mod schema;
mod sweeps;

use serde::Serialize;
use serde_json::Value;

use super::{Config, Entry, Layer, Loaded, SpecError, load};

fn load_text(text: &str) -> Result<Loaded, SpecError> {
    let layer = Layer { name: "trainyard.toml".to_owned(), text: text.to_owned() };
    load(&[layer], &[], "folder")
}

/// The configuration; a panic with the problems if there are any.
fn config(text: &str) -> Config {
    match load_text(text) {
        Ok(loaded) => loaded.config,
        Err(error) => panic!("{error}"),
    }
}

/// As a person sees it: one problem a line, hints below.
fn problems(text: &str) -> String {
    match load_text(text) {
        Ok(_) => "no problem".to_owned(),
        Err(error) => render(&error),
    }
}

fn render(error: &SpecError) -> String {
    let mut lines = Vec::new();
    for problem in &error.problems {
        lines.push(problem.to_string());
        lines.extend(problem.hint.iter().map(|hint| format!("  hint: {hint}")));
    }
    lines.join("\n")
}

/// The problems of `[jobs.train]` with these lines in it.
fn job_problems(lines: &str) -> String {
    problems(&format!("[jobs.train]\ncommand = ['a']\n{lines}"))
}

fn listing(entries: &[Entry]) -> String {
    let lines = entries.iter().map(|entry| format!("{} = {}  ({})", entry.path, entry.value, entry.origin));
    lines.collect::<Vec<_>>().join("\n")
}

/// What a value serialises to, one leaf a line; what is not set is left out.
fn flat(value: &impl Serialize) -> String {
    let mut lines = Vec::new();
    flatten(&serde_json::to_value(value).unwrap_or_default(), String::new(), &mut lines);
    lines.join("\n")
}

fn flatten(value: &Value, path: String, lines: &mut Vec<String>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                flatten(member, format!("{path}/{name}"), lines);
            }
        }
        Value::Null => {}
        leaf => lines.push(format!("{path} {leaf}")),
    }
}
