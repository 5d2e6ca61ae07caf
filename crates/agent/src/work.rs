//! The working folder of a run, made from its snapshot by copying. Never by hard links: programs write into
//! their own source folders.

use std::io;
use std::path::{Path, PathBuf};

use fs_err::os::unix::fs::OpenOptionsExt;

use crate::order::{Order, Source};
use crate::snapshot::{Kind, Manifest, SnapshotError, decode};

#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkError {
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the project folder {} is gone", .0.display())]
    ProjectGone(PathBuf),
}

/// The first attempt makes the folder, later ones find it with what the earlier ones left. A folder half made by an
/// agent that was killed does not count, since it only gets its name when it is whole.
pub(crate) fn prepare(order: &Order) -> Result<PathBuf, WorkError> {
    let digest = match &order.source {
        Source::InPlace(folder) if folder.is_dir() => return Ok(folder.clone()),
        Source::InPlace(folder) => return Err(WorkError::ProjectGone(folder.clone())),
        Source::Snapshot(digest) => digest,
    };
    let folder = order.depot.run(order.run);
    let work = folder.work();
    if work.is_dir() {
        return Ok(work);
    }
    let manifest = Manifest::read(&order.depot, digest)?;
    if manifest.entries.is_empty() {
        fs_err::create_dir(&work)?;
        return Ok(work);
    }
    let unfinished = folder.path().join(format!("work.{}.tmp", std::process::id()));
    if unfinished.exists() {
        fs_err::remove_dir_all(&unfinished)?;
    }
    fs_err::create_dir(&unfinished)?;
    for entry in &manifest.entries {
        lay(order, &entry.kind, &unfinished.join(decode(&entry.path)))?;
    }
    fs_err::rename(&unfinished, &work)?;
    Ok(work)
}

/// Entries are sorted, so a folder comes before what is in it.
fn lay(order: &Order, kind: &Kind, path: &Path) -> io::Result<()> {
    match kind {
        Kind::Folder => fs_err::create_dir(path),
        Kind::Link { to } => fs_err::os::unix::fs::symlink(decode(to), path),
        Kind::File { blob, mode, size } => {
            let mut from = fs_err::File::open(order.depot.blob(blob))?;
            let mut to = fs_err::OpenOptions::new().write(true).create_new(true).mode(mode | 0o200).open(path)?;
            // Shares the blocks where the file system can.
            let copied = io::copy(from.file_mut(), to.file_mut())?;
            if copied != *size {
                // A blob that a power cut left short.
                return Err(io::Error::new(io::ErrorKind::InvalidData, format!("blob {blob} is damaged")));
            }
            Ok(())
        }
    }
}
