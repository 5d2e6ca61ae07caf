//! Files of the tools that yard replaces, as text for `trainyard.toml`: Isaac Lab's `tasks.yaml`, its `~/.cluster_config`,
//! and command lines that hold several jobs. What cannot be translated is told with its line; nothing is dropped in silence.

mod arithmetic;
mod clusters;
mod draft;
mod joined;
mod tasks;
#[cfg(test)]
mod tests;
mod yaml;

pub use clusters::{Cluster, parse_clusters};

use thiserror::Error;

use crate::spec::{Layer, load};

/// The translation, and what a person should know about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    pub text: String,
    pub remarks: Vec<Remark>,
}

/// Something at one line that did not come along as it was, or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// From 1.
    pub line: usize,
    pub what: String,
}

impl std::fmt::Display for Remark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ImportError {
    #[error("{0}")]
    At(Remark),
    #[error("{what}")]
    Nothing { what: &'static str, remarks: Vec<Remark> },
    #[error("what comes out of it is no trainyard.toml: {0}")]
    Unfit(String),
}

/// Larger files are no lists of tasks.
const MOST: usize = 1 << 20;
const UNKNOWN: &str = "none of the files that can be imported: a `tasks.yaml` with `tasks`, a `~/.cluster_config` with lines \
                       `name: NAME address: URL`, or a command line with `--aggregate_jobs` or `--sub_jobs`";

/// Tells the kind of the file by what it says.
pub fn import(text: &str) -> Result<Imported, ImportError> {
    if text.len() > MOST {
        return Err(ImportError::Nothing { what: UNKNOWN, remarks: Vec::new() });
    }
    let imported = if joined::is_joined(text) {
        joined::translate(text)?
    } else if clusters::is_list(text) {
        clusters::translate(text)?
    } else {
        tasks::translate(text)?
    };
    let layer = Layer { name: "what was imported".to_owned(), text: imported.text.clone() };
    load(&[layer], &[], "imported").map_err(|error| ImportError::Unfit(error.to_string()))?;
    Ok(imported)
}

fn at(line: usize, what: impl Into<String>) -> Remark {
    Remark { line, what: what.into() }
}
