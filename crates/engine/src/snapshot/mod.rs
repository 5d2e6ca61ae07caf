//! The project's files at one moment, put into a depot by content.

mod store;
mod walk;

use std::io;
use std::path::{Path, PathBuf};

use trainyard_agent::depot::Depot;
use trainyard_agent::disk::{Durability, replace};
use trainyard_agent::snapshot::{Entry, Kind, Manifest};
use trainyard_core::id::Digest;

pub use walk::RESULTS_FOLDER;

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("`project.exclude`: {0}")]
    Pattern(ignore::Error),
    #[error("cannot read the project")]
    Walk(#[source] ignore::Error),
    #[error("cannot read the project")]
    Read(#[source] io::Error),
    #[error("cannot write to the depot {}", depot.display())]
    Write { depot: PathBuf, source: io::Error },
    #[error("the project has {files} files, {megabytes} MB, most of it in {}", largest.display())]
    TooLarge { files: usize, megabytes: u64, largest: PathBuf },
}

/// The project's files at one moment, not yet in any depot.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub digest: Digest,
    pub manifest: Manifest,
    /// Where each content can be read.
    pub files: std::collections::BTreeMap<Digest, PathBuf>,
    pub bytes: u64,
}

/// A project beyond this is more likely a mistake (a virtual environment, checkpoints) than code.
const MOST_FILES: usize = 20_000;
const MOST_BYTES: u64 = 500_000_000;

/// Puts what the depot does not have yet; the manifest last, so that a snapshot that is there is whole.
pub fn take(project: &Path, exclude: &[String], depot: &Depot) -> Result<Digest, SnapshotError> {
    let files = walk::walk(project, exclude)?;
    refuse_mistakes(project, &files)?;
    let mut manifest = Manifest::default();
    for file in files {
        let kind = match file.kind {
            walk::Kind::Folder => Kind::Folder,
            walk::Kind::Link { to } => Kind::Link { to: trainyard_agent::snapshot::encode(&to) },
            walk::Kind::File { mode, .. } => {
                let (blob, size) = store::put(&project.join(&file.path), depot)?;
                Kind::File { blob, size, mode }
            }
        };
        manifest.entries.push(Entry { path: trainyard_agent::snapshot::encode(&file.path), kind });
    }
    publish(&manifest, depot)
}

fn publish(manifest: &Manifest, depot: &Depot) -> Result<Digest, SnapshotError> {
    let digest = manifest.digest();
    let path = depot.snapshot(&digest);
    if Manifest::read(depot, &digest).is_ok() {
        return Ok(digest);
    }
    let written =
        fs_err::create_dir_all(depot.snapshots()).and_then(|()| replace(&path, &manifest.bytes(), Durability::Synced));
    written.map_err(|source| SnapshotError::Write { depot: depot.root().to_owned(), source })?;
    Ok(digest)
}

fn refuse_mistakes(project: &Path, files: &[walk::Found]) -> Result<(), SnapshotError> {
    let bytes: u64 = files.iter().map(walk::Found::size).sum();
    if files.len() <= MOST_FILES && bytes <= MOST_BYTES {
        return Ok(());
    }
    let mut folders: std::collections::BTreeMap<&std::ffi::OsStr, u64> = std::collections::BTreeMap::new();
    for file in files {
        if let Some(first) = file.path.iter().next() {
            // Files weigh something too: a folder of many empty ones is as much a mistake.
            *folders.entry(first).or_default() += file.size() + 10_000;
        }
    }
    let largest =
        folders.into_iter().max_by_key(|(_, weight)| *weight).map_or(project.to_owned(), |(name, _)| name.into());
    Err(SnapshotError::TooLarge { files: files.len(), megabytes: bytes / 1_000_000, largest })
}
