//! The working folder of a run, made from its snapshot by copying. Never by hard links: programs write into
//! their own source folders.

use std::io;
use std::path::{Path, PathBuf};

use fs_err::os::unix::fs::OpenOptionsExt;

use crate::depot::{AttemptFolder, RunFolder};
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

/// The first attempt makes the folder, later ones find it with what the earlier ones left.
pub(crate) fn prepare(order: &Order) -> Result<PathBuf, WorkError> {
    let digest = match &order.source {
        Source::InPlace(folder) if folder.is_dir() => return Ok(folder.clone()),
        Source::InPlace(folder) => return Err(WorkError::ProjectGone(folder.clone())),
        Source::Snapshot(digest) => digest,
    };
    let folder = order.depot.run(order.run);
    let work = folder.work();
    if is_whole(order, &folder) {
        return Ok(work);
    }
    let manifest = Manifest::read(&order.depot, digest)?;
    match fs_err::create_dir(&work) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs_err::remove_dir_all(&work)?;
            fs_err::create_dir(&work)?;
        }
        made => made?,
    }
    for entry in &manifest.entries {
        lay(order, &entry.kind, &work.join(decode(&entry.path)))?;
    }
    Ok(work)
}

/// An attempt makes its log when the working folder is ready, heartbeat and result later: where no earlier one has left
/// any of these, what is there was left half made by an agent that was killed. A log alone would be weak evidence,
/// since people remove large ones.
fn is_whole(order: &Order, folder: &RunFolder) -> bool {
    let got_ready =
        |attempt: AttemptFolder| [attempt.log(), attempt.status(), attempt.result()].iter().any(|left| left.exists());
    (1..order.attempt).any(|earlier| got_ready(folder.attempt(earlier))) && folder.work().is_dir()
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
