//! The depot's folders: the only place that knows their names.
//!
//! ```text
//! depot/
//!   blobs/ab/cdef…            file contents by BLAKE3, read-only
//!   packs/<name>.pack, .index  many small ones in one file; see [`crate::pack`]
//!   snapshots/<hash>          manifest: path, mode, link target, blob
//!   bin/yard-<hash>           the agent
//!   parcels/<parcel id>/      parcel.json: one submission to a site, and the script that starts it
//!   images/<hash>.sif         an image that runs use; `.chunks` beside it says of what it is made
//!   images/<hash>.sif.part    one that is arriving
//!   trees/<hash>/             a large snapshot's files, laid out once for all runs
//!   cache/<user id>/…         folders of images that are kept from run to run
//!   runs/<run id>/
//!     state.json              the run as its site knows it; see [`crate::site`]
//!     cancel                  there when somebody wants the run cancelled
//!     work/                   the working folder, kept through all attempts
//!     layers.json             says that a tree lies under the working folder
//!     layer/                  what programs have changed in their image, where that is kept
//!     attempts/<n>/           claim.json, output.log, output.idx, status.json, result.json,
//!                             metrics.tfevents, reported.jsonl
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
        self.blobs().join(Self::blob_name(digest))
    }

    /// Of a blob, in the folder of all blobs.
    pub fn blob_name(digest: &Digest) -> PathBuf {
        let (front, rest) = digest.0.split_at_checked(2).unwrap_or((&digest.0, ""));
        PathBuf::from(format!("{front}/{rest}"))
    }

    pub fn packs(&self) -> PathBuf {
        self.root.join("packs")
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

    pub fn images(&self) -> PathBuf {
        self.root.join("images")
    }

    pub fn image(&self, name: &ImageName) -> PathBuf {
        self.images().join(name.to_string())
    }

    pub fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    pub fn run(&self, run: RunId) -> RunFolder {
        RunFolder { path: self.root.join("runs").join(run.to_string()) }
    }
}

/// An image's file name in any depot: what it holds, and for whom it is made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageName {
    digest: String,
    ending: String,
}

impl ImageName {
    const ENDINGS: [&'static str; 3] = ["sif", "sqsh", "tar"];

    /// `None` for what is no name of an image: it may become part of a path.
    pub fn parse(text: &str) -> Option<Self> {
        let (digest, ending) = text.split_once('.')?;
        let ending = Self::ENDINGS.into_iter().find(|known| *known == ending)?.to_owned();
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (digest.len() == 64 && digest.bytes().all(is_hex)).then(|| Self { digest: digest.to_owned(), ending })
    }

    /// The image that a file of the depot belongs to: its own name, or that of what lies beside it.
    pub fn of_file(name: &str) -> Option<Self> {
        Self::parse(name.trim_end_matches(".part").trim_end_matches(".chunks"))
    }

    /// Of a path, wherever the depot is.
    pub fn of_path(path: &str) -> Option<Self> {
        let (folder, name) = path.rsplit_once('/')?;
        folder.ends_with("/images").then(|| Self::parse(name)).flatten()
    }

    pub fn digest(&self) -> &str {
        &self.digest
    }
}

impl std::fmt::Display for ImageName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{}", self.digest, self.ending)
    }
}

impl TryFrom<String> for ImageName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is no name of an image"))
    }
}

impl From<ImageName> for String {
    fn from(name: ImageName) -> Self {
        name.to_string()
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

    /// Every point of every metric, as a TensorBoard event file.
    pub fn metrics(&self) -> PathBuf {
        self.path.join("metrics.tfevents")
    }

    /// Where the program may write metrics by itself; see [`crate::metrics`].
    pub(crate) fn reported(&self) -> PathBuf {
        self.path.join("reported.jsonl")
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
