//! Jobs, their group and their target on the way to text.

use crate::spec::{Start, parse_gpus};
use crate::template;

#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) jobs: Vec<DraftJob>,
    pub(super) start: Option<Start>,
    pub(super) pip: Vec<String>,
    pub(super) py_modules: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct DraftJob {
    pub(super) name: String,
    /// Words for no shell; or a line for one.
    pub(super) command: Vec<String>,
    pub(super) shell: Option<String>,
    pub(super) gpus: Option<f64>,
    pub(super) cpus: Option<u64>,
    /// Bytes.
    pub(super) memory: Option<u64>,
    pub(super) per_node: Option<u64>,
    pub(super) node: Option<String>,
}

impl Draft {
    /// A name that is allowed and free, made of a wish.
    pub(super) fn name(&self, wish: &str) -> String {
        let fine = |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' };
        let name: String = wish.trim().chars().map(fine).take(56).collect();
        let name = name.trim_start_matches(['-', '_', '.']).trim_end_matches('-');
        let name = if name.is_empty() { "task" } else { name };
        let is_free = |name: &str| name != GROUP && self.jobs.iter().all(|job| job.name != name);
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        std::iter::once(name.to_owned()).chain(numbered).find(|name| is_free(name)).unwrap_or_default()
    }

    pub(super) fn write(&self) -> String {
        let mut lines = Vec::new();
        for job in &self.jobs {
            job.write(&mut lines);
        }
        let names: Vec<String> = self.jobs.iter().map(|job| text(&job.name)).collect();
        lines.extend([format!("[groups.{GROUP}]"), format!("jobs = [{}]", names.join(", "))]);
        lines.extend(self.start.map(|start| format!("start = {}", text(start.name()))));
        lines.extend(["target = \"ray\"".to_owned(), String::new()]);
        lines.push("[targets.ray]".to_owned());
        lines.push("kind = \"ray\"".to_owned());
        lines.push("address = \"http://127.0.0.1:8265\"  # of your cluster's dashboard".to_owned());
        for (key, values) in [("pip", &self.pip), ("py-modules", &self.py_modules)] {
            if !values.is_empty() {
                lines.push(format!("{key} = {}", list(values)));
            }
        }
        lines.join("\n") + "\n"
    }
}

/// What the imported jobs are called together.
pub(super) const GROUP: &str = "tasks";

impl DraftJob {
    fn write(&self, lines: &mut Vec<String>) {
        let name = if self.name.contains('.') { text(&self.name) } else { self.name.clone() };
        lines.push(format!("[jobs.{name}]"));
        match &self.shell {
            Some(shell) => lines.push(format!("shell = {}", text(&literal(shell)))),
            None => {
                let words: Vec<String> = self.command.iter().map(|word| literal(word)).collect();
                lines.push(format!("command = {}", list(&words)));
            }
        }
        lines.push("image = \"none\"".to_owned());
        lines.extend(self.gpus.map(|gpus| format!("gpus = {gpus}")));
        lines.extend(self.cpus.map(|cpus| format!("cpus = {cpus}")));
        lines.extend(self.memory.map(|bytes| format!("memory = \"{}\"", size(bytes))));
        lines.extend(self.per_node.map(|runs| format!("per-node = {runs}")));
        lines.extend(self.node.as_ref().map(|node| format!("node = {}", text(node))));
        lines.push(String::new());
    }
}

/// What a person wrote in braces meant nothing to the tool before, so it is to mean nothing here.
fn literal(word: &str) -> String {
    if template::names(word).is_empty() && !word.contains("{{") {
        return word.to_owned();
    }
    word.replace('{', "{{").replace('}', "}}")
}

/// As TOML; JSON's texts are.
pub(super) fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

fn list(words: &[String]) -> String {
    format!("[{}]", words.iter().map(|word| text(word)).collect::<Vec<_>>().join(", "))
}

/// The largest unit that says it exactly.
fn size(bytes: u64) -> String {
    let units = [
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("GB", 1_000_000_000),
        ("MiB", 1 << 20),
        ("MB", 1_000_000),
        ("KiB", 1 << 10),
    ];
    let exact = units.into_iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    exact.map_or_else(|| format!("{bytes}B"), |(name, unit)| format!("{}{name}", bytes / unit))
}

/// Whether yard can count them so.
pub(super) fn is_gpus(gpus: f64) -> Result<(), String> {
    parse_gpus(gpus).map(drop).map_err(|error| error.to_string())
}
