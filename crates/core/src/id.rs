//! Names that must not be mixed up.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The name of a run: a UUIDv7, so that runs sort by when they were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub Uuid);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for RunId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text).map(Self)
    }
}

/// Our own unique name of an attempt: set as job name, label or submission id at the target, so that the
/// attempt can be found again whatever happened in between.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// Lower-case hex and dashes only, 63 characters at most: valid as a Kubernetes name and a SLURM job name.
    pub fn new(run: RunId, attempt: u32) -> Self {
        Self(format!("yard-{}-{attempt}", run.0.simple()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The run and the attempt's number it was made from; `None` for a name that is not ours.
    pub fn parts(&self) -> Option<(RunId, u32)> {
        let (run, attempt) = self.0.strip_prefix("yard-")?.rsplit_once('-')?;
        Some((run.parse().ok()?, attempt.parse().ok()?))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A BLAKE3 hash, in lower-case hex.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(pub String);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
