//! The depot's folders: the only place that knows their names.
//!
//! ```text
//! depot/
//!   blobs/ab/cdef…            file contents by BLAKE3, read-only
//!   snapshots/<hash>          manifest: path, mode, link target, blob
//!   bin/yard-<hash>           the agent
//!   parcels/<parcel id>/      parcel.json: one submission to a site, and the script that starts it
//!   trees/<hash>/             a large snapshot's files, laid out once for all runs
//!   cache/<user id>/…         folders of images that are kept from run to run
//!   runs/<run id>/
//!     state.json              the run as its site knows it; see [`crate::site`]
//!     cancel                  there when somebody wants the run cancelled
//!     work/                   the working folder, kept through all attempts
//!     layers.json             says that a tree lies under the working folder
//!     layer/                  what programs have changed in their image, where that is kept
//!     attempts/<n>/           claim.json, output.log, output.idx, status.json, result.json
//! ```

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use trainyard_core::id::{Digest, RunId};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Depot {
    root: PathBuf,
}

impl Depot {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    pub fn blob(&self, digest: &Digest) -> PathBuf {
        let (front, rest) = digest.0.split_at(digest.0.len().min(2));
        self.root.join("blobs").join(front).join(rest)
    }

    pub fn snapshots(&self) -> PathBuf {
        self.root.join("snapshots")
    }

    pub fn snapshot(&self, digest: &Digest) -> PathBuf {
        self.root.join("snapshots").join(&digest.0)
    }

    pub fn parcels(&self) -> PathBuf {
        self.root.join("parcels")
    }

    /// Programs like this one, by their hash.
    pub fn agents(&self) -> PathBuf {
        self.root.join("bin")
    }

    pub fn parcel(&self, id: &str) -> PathBuf {
        self.root.join("parcels").join(id)
    }

    /// What a user's programs keep from run to run under this path of their image.
    pub(crate) fn cache(&self, user: u32, inside: &str) -> PathBuf {
        self.root.join("cache").join(user.to_string()).join(inside.trim_start_matches('/'))
    }

    pub fn trees(&self) -> PathBuf {
        self.root.join("trees")
    }

    pub fn tree(&self, digest: &Digest) -> PathBuf {
        self.root.join("trees").join(&digest.0)
    }

    pub fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    pub fn run(&self, run: RunId) -> RunFolder {
        RunFolder { path: self.root.join("runs").join(run.to_string()) }
    }
}

/// The folder of one run.
#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    pub fn state(&self) -> PathBuf {
        self.path.join("state.json")
    }

    pub fn cancel(&self) -> PathBuf {
        self.path.join("cancel")
    }

    /// Says what lies under the working folder; see [`crate::view`].
    pub fn layers(&self) -> PathBuf {
        self.path.join("layers.json")
    }

    /// What a program has changed in its image.
    pub(crate) fn layer(&self) -> PathBuf {
        self.path.join("layer")
    }

    /// Overlayfs wants a folder for itself.
    pub(crate) fn spare(&self) -> PathBuf {
        self.path.join("overlay")
    }

    pub fn attempt(&self, number: u32) -> AttemptFolder {
        AttemptFolder { path: self.path.join("attempts").join(number.to_string()) }
    }
}

/// The folder of one attempt.
#[derive(Debug, Clone)]
pub struct AttemptFolder {
    path: PathBuf,
}

impl AttemptFolder {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the folder and those above it, from the top: all but the last are mostly there or mostly not.
    pub fn create(&self) -> std::io::Result<()> {
        let mut missing: Vec<&Path> = self.path.ancestors().take(3).collect();
        while let Some(folder) = missing.pop() {
            match std::fs::create_dir(folder) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    return fs_err::create_dir_all(&self.path);
                }
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// When the attempt was taken on: its claim is made once, before anything of it is executed.
    pub fn began(&self) -> Option<SystemTime> {
        modified(&self.claim())
    }

    /// When an attempt that left no result was last known to live: its log is written to the end.
    pub fn last_sign(&self) -> Option<SystemTime> {
        [self.claim(), self.log(), self.status()].iter().filter_map(|path| modified(path)).max()
    }

    /// Made once, by the agent that runs the attempt; see [`crate::claim`].
    pub fn claim(&self) -> PathBuf {
        self.path.join("claim.json")
    }

    pub fn log(&self) -> PathBuf {
        self.path.join("output.log")
    }

    pub fn log_index(&self) -> PathBuf {
        self.path.join("output.idx")
    }

    pub fn status(&self) -> PathBuf {
        self.path.join("status.json")
    }

    /// Names the step of a program that the scheduler starts; see [`crate::step`].
    pub(crate) fn step(&self) -> PathBuf {
        self.path.join("step")
    }

    pub fn result(&self) -> PathBuf {
        self.path.join("result.json")
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|data| data.modified()).ok()
}
