//! The project's files at one moment: found, hashed and, for a depot on this machine, stored by content.

mod cache;
mod hash;
mod mistake;
mod store;
mod walk;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use trainyard_agent::depot::Depot;
use trainyard_agent::snapshot::{Entry, Kind, Manifest, encode};
use trainyard_core::id::Digest;

pub use mistake::{Mistake, Suspicion};
pub use store::{remember, store};
pub use walk::RESULTS_FOLDER;

/// What of the project belongs to a snapshot; `[project]` in its file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Left out, on top of the ignore files and in their syntax.
    pub exclude: Vec<String>,
    /// May be as large as it likes, in the same syntax.
    pub allow_large: Vec<String>,
}

/// The project's files at one moment: what they are, and where their contents can be read.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub digest: Digest,
    pub manifest: Manifest,
    /// The manifest as a depot keeps it: what the digest is of.
    pub text: Vec<u8>,
    /// Where each blob's content was read; the file may have changed since, so whoever reads it checks the digest.
    /// A file that has only grown still begins with the content: read as many bytes as the manifest says.
    pub files: BTreeMap<Digest, PathBuf>,
    /// Of all files, as they lie in the project.
    pub bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("`project.{key}`: {source}")]
    Pattern { key: &'static str, source: ignore::Error },
    #[error("cannot read the project")]
    Walk(#[source] ignore::Error),
    #[error("cannot read the project")]
    Read(#[source] io::Error),
    #[error("cannot write to the depot {}", depot.display())]
    Write { depot: PathBuf, source: io::Error },
    #[error(transparent)]
    Mistake(Box<Mistake>),
    #[error("{} keeps changing while it is read", path.display())]
    Changing { path: PathBuf },
}

/// Walks and hashes; writes nothing but `cache`, which holds what the files hashed to last time. A cache that cannot
/// be read or written costs time, nothing else.
pub fn scan(project: &Path, rules: &Rules, cache: &Path) -> Result<Snapshot, SnapshotError> {
    let remembered = std::fs::read(cache).unwrap_or_default();
    let known = cache::read(&remembered, project);
    let found = walk::walk(project, rules, known.len())?;
    mistake::refuse(project, &found, rules)?;
    let hashed = hash::hash_all(project, &found, &known, cache).map_err(SnapshotError::Read)?;
    let mut manifest = Manifest::default();
    manifest.entries.reserve(found.len());
    let mut files = Vec::with_capacity(found.len());
    let mut bytes = 0;
    for (file, content) in found.into_iter().zip(hashed) {
        let kind = match (file.kind, content) {
            (walk::Kind::Folder, _) => Kind::Folder,
            (walk::Kind::Link { to }, _) => Kind::Link { to: encode(&to) },
            (walk::Kind::File(stat), Some(content)) => {
                bytes += content.size;
                let blob = Digest(content.hash.to_hex().to_string());
                files.push((blob.clone(), project.join(&file.path)));
                Kind::File { blob, size: content.size, mode: stat.mode }
            }
            // Removed between the walk and the reading: a snapshot without it is as true.
            (walk::Kind::File(_), None) => continue,
        };
        manifest.entries.push(Entry { path: encode(&file.path), kind });
    }
    Ok(Snapshot::new(manifest, files.into_iter().collect(), bytes))
}

impl Snapshot {
    pub fn new(manifest: Manifest, files: BTreeMap<Digest, PathBuf>, bytes: u64) -> Self {
        let text = manifest.bytes();
        let digest = Digest(blake3::hash(&text).to_hex().to_string());
        Self { digest, manifest, text, files, bytes }
    }
}

/// A project that is being edited is looked at again this often.
const TRIES: usize = 3;

/// [`scan`] and [`store`] in one, for a depot on this machine.
pub fn take(project: &Path, rules: &Rules, cache: &Path, depot: &Depot) -> Result<Snapshot, SnapshotError> {
    let mut tries = 1;
    loop {
        let snapshot = scan(project, rules, cache)?;
        match store(&snapshot, depot) {
            Err(SnapshotError::Changing { .. }) if tries < TRIES => tries += 1,
            stored => return stored.map(|()| snapshot),
        }
    }
}
