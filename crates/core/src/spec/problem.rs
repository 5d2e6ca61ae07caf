//! What is wrong with a configuration: all of it at once, each problem with its place.

use std::fmt;

use serde::Serialize;
use thiserror::Error;

use super::origin::Origin;
use super::path::KeyPath;

/// One thing to put right.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    pub origin: Origin,
    /// The key, dotted and quoted as after `--set`; empty when the text cannot be read at all.
    pub path: String,
    /// Lower case, no full stop.
    pub message: String,
    /// What to type instead.
    pub hint: Option<String>,
}

impl Problem {
    pub(super) fn new(path: &KeyPath, origin: &Origin, message: impl Into<String>) -> Self {
        Self { origin: origin.clone(), path: path.to_string(), message: printable(&message.into()), hint: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<Option<String>>) -> Self {
        self.hint = hint.into().as_deref().map(printable);
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin)?;
        // `--set PATH` names the path already.
        let named = matches!(&self.origin, Origin::Flag(flag) if flag.strip_prefix("--set ") == Some(&self.path));
        if !self.path.is_empty() && !named {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// Every problem that was found, sorted by place; never empty. Displays one a line, without the hints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Error)]
#[error("{}", lines(problems))]
pub struct SpecError {
    pub problems: Vec<Problem>,
}

impl SpecError {
    pub(super) fn new(mut problems: Vec<Problem>) -> Self {
        problems.sort();
        problems.dedup();
        Self { problems }
    }
}

/// What a file holds is shown to people; it must neither break the line nor command their terminal.
pub(super) fn printable(text: &str) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escape).collect()
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}
