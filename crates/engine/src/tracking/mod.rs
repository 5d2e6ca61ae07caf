//! Tracking servers: runs, parameters and curves as others keep them.
//!
//! [`Mlflow`] speaks to a server, [`Exporter`] brings runs there exactly once, [`tensorboard`] brings a server's runs into
//! event files. What is exported is a [`TrackedRun`]; where it comes from is for others to know. Everything here blocks.

mod artifacts;
mod export;
mod keys;
mod mlflow;
mod settings;
pub mod tensorboard;
mod wire;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use artifacts::Listed;
pub use export::{Exported, Exporter};
pub use mlflow::{Experiment, Mlflow};
pub use settings::{MlflowSettings, SettingsError};
pub use wire::{RunStatus, ServerRun};

/// A run as tracking servers see it.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackedRun {
    /// Ours. It becomes a tag of the server's run, which is how that is found again.
    pub id: String,
    pub name: String,
    /// Our id of the run it lies below, such as the sweep's. Need not have been exported before.
    pub parent: Option<String>,
    /// What is exported first stays, for parameters cannot be changed at a server.
    pub params: BTreeMap<String, String>,
    pub tags: BTreeMap<String, String>,
    pub status: RunStatus,
    /// Milliseconds since 1970.
    pub started: i64,
    pub ended: Option<i64>,
    /// By name. A later export of the same run has the same points, and perhaps more after them.
    pub metrics: Vec<(String, Vec<Point>)>,
    pub artifacts: Vec<Artifact>,
}

/// A value of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub step: i64,
    /// Milliseconds since 1970.
    pub time: i64,
    pub value: f64,
}

impl Point {
    /// By which points are the same at a server: two of the same step, moment and value are one. Servers make the largest
    /// finite number of infinity, and zero of minus zero.
    fn identity(self) -> (i64, i64, u64) {
        let value = match self.value {
            value if value.is_nan() => f64::NAN,
            0.0 => 0.0,
            value => value.clamp(f64::MIN, f64::MAX),
        };
        (self.step, self.time, value.to_bits())
    }
}

/// A file that goes with a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// With `/` between folders.
    pub name: String,
    pub path: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum TrackingError {
    #[error(transparent)]
    Web(#[from] trainyard_web::Error),
    #[error(
        "experiment `{name}` was deleted at the server: restore it there (`mlflow experiments restore -x {id}`), or choose another name"
    )]
    Deleted { name: String, id: String },
    #[error("there is no experiment `{name}` at {server}")]
    NoExperiment { name: String, server: String },
    #[error(
        "the artifacts of this server are at `{uri}`, which it does not pass on: start it with `--serve-artifacts`"
    )]
    NoProxy { uri: String },
    #[error("the server names a file `{name}`, which would lie elsewhere")]
    Escapes { name: String },
    #[error("another export writes into {} right now: wait for it, or choose another folder", folder.display())]
    Busy { folder: PathBuf },
    #[error(transparent)]
    Io(#[from] std::io::Error),
}
