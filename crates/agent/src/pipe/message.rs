//! What is said: heads of requests and answers, as JSON. Contents follow in the body.
//!
//! Paths are relative to the depot, or absolute below it, in the text form of [`crate::snapshot::encode`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use trainyard_core::id::{Digest, RunId};

use crate::depot::ImageName;
use crate::post::Posted;
use crate::tail;

/// Both ends must agree; an agent of another number is not spoken to.
pub const PROTOCOL: u32 = 2;

/// The agent's first line, after the marker that it was started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub protocol: u32,
    pub version: String,
    /// Absolute, as the site knows it.
    pub depot: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Request {
    /// The body is the program's input.
    Run {
        argv: Vec<String>,
        env: BTreeMap<String, String>,
        milliseconds: u64,
    },
    /// Hands a parcel to SLURM, once, however often it is asked. The body holds parcel, script and secrets, of these
    /// sizes.
    Post {
        parcel: String,
        /// SLURM's name of it.
        name: String,
        /// Must be here.
        snapshot: Option<Digest>,
        sizes: [u64; 3],
    },
    /// The body holds the contents one after another.
    Write {
        files: Vec<(String, u64)>,
    },
    Read {
        path: String,
        offset: u64,
        most: u64,
    },
    /// Files longer than `most` are cut.
    ReadMany {
        paths: Vec<String>,
        most: u64,
    },
    List {
        folder: String,
    },
    Space,
    Remove {
        paths: Vec<String>,
    },
    /// Whether the snapshot is here, whole.
    Has {
        snapshot: Digest,
    },
    /// The body is the manifest under zstd, `size` bytes unpacked. A snapshot of which nothing is missing is published.
    Offer {
        snapshot: Digest,
        size: u64,
    },
    /// The same, but the body holds the [`super::edit::Edit`]s that make the manifest of that of `base`. Where those do not
    /// lead to it, the answer is that it is not there.
    OfferEdits {
        snapshot: Digest,
        base: Digest,
        size: u64,
    },
    /// The body holds blocks. Afterwards the snapshot that was offered is published if nothing of it is missing.
    Put {
        snapshot: Digest,
    },
    /// Whether the image is here, whole.
    HasImage {
        image: ImageName,
    },
    /// The body holds the list of the image's chunks; see [`super::image`]. What other images here have of it is put in its
    /// place before the answer ends.
    OfferImage {
        image: ImageName,
    },
    /// The body holds chunks. Afterwards the image that was offered is published if nothing of it is missing.
    PutImage {
        image: ImageName,
    },
    /// Logs of runs, `most` bytes of each.
    Logs {
        wanted: Vec<tail::Wanted>,
        most: u64,
    },
    /// What a program would see of these paths in its working folder.
    Outputs {
        run: RunId,
        paths: Vec<String>,
    },
    /// The answer holds blocks of pieces; see [`super::fetch`].
    Fetch {
        files: Vec<Wanted>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    Done,
    /// The body holds the output, then the errors.
    Ran {
        status: Status,
        stdout: u64,
        stderr: u64,
        cut: bool,
    },
    Posted {
        posted: Posted,
    },
    /// The body holds the contents one after another; none for what is not there.
    Files {
        sizes: Vec<Option<u64>>,
    },
    /// The body holds one [`Listed`] per line. Not there at all: `there` is false.
    Tree {
        there: bool,
    },
    Space {
        free: u64,
        total: u64,
    },
    Has {
        there: bool,
    },
    /// The body holds the portions one after another.
    Logs {
        read: Vec<ReadLog>,
    },
    /// The body holds one [`Output`] per line.
    Outputs {
        missing: Vec<String>,
    },
    /// The body holds the digests of what is missing, 32 bytes each.
    Missing {
        blobs: u64,
        bytes: u64,
        free: u64,
    },
    /// The body holds [`super::image::News`], one in each frame; the last ones say what is missing.
    Assembling,
    /// `wrong` are blobs whose bytes were not what their name says: they changed since they were named.
    Stored {
        published: bool,
        wrong: Vec<Digest>,
    },
    Fetching,
    Refused {
        why: String,
    },
}

/// A file that the other side wants, and how much of it is there already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    pub path: String,
    pub have: u64,
    /// Of these bytes; if the file does not begin with them it is sent from its start.
    pub digest: String,
}

/// What is said of a file that is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fetched {
    Begin {
        start: u64,
        size: u64,
        mode: u32,
        modified: i64,
    },
    More,
    /// Of the bytes that were sent.
    End {
        digest: String,
    },
    /// It is no file any more, or became shorter.
    Gone,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    Exited(i32),
    Killed(i32),
    /// It and all of its process group were killed at the limit.
    TimedOut,
    /// Such as a program that is not there.
    NotStarted(String),
}

/// One entry of a tree; its path is relative to the folder that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub path: String,
    pub kind: ListedKind,
    pub size: u64,
    pub mode: u32,
    /// Nanoseconds since 1970.
    pub modified: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListedKind {
    File,
    Folder,
    Link { to: String },
}

/// One run's log: attempts and sizes of the portions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadLog {
    pub portions: Vec<(u32, u64)>,
    pub next: tail::Position,
    pub is_all: bool,
}

/// A file, folder or link of a working folder; its path is relative to that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    #[serde(flatten)]
    pub listed: Listed,
    /// Where it really lies.
    pub lies: String,
}

/// A digest that may become part of a path: 64 digits of lower-case hex and nothing else.
pub fn is_digest(digest: &Digest) -> bool {
    digest.0.len() == 64 && digest.0.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
