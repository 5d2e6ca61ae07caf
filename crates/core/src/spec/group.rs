//! A group: jobs that are run by one word, and when each of them starts.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSpec {
    pub name: String,
    /// Names of jobs, at least one, none twice.
    pub jobs: Vec<String>,
    pub start: Start,
    /// Where all of them run; `None` is where each says.
    pub target: Option<String>,
}

/// When a job of a group starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// As soon as there is room for it.
    WhenFree,
    /// When all runs of the job before it have succeeded.
    InOrder,
    /// When there is room for all of them at once.
    Together,
}

impl Start {
    /// As it is written in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WhenFree => "when-free",
            Self::InOrder => "in-order",
            Self::Together => "together",
        }
    }
}
