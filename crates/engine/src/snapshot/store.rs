//! A snapshot into a depot on this machine: blobs, then the manifest.
//!
//! What the manifest names is on the disk before the manifest is, so a power cut leaves a whole snapshot or none.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use trainyard_agent::crew::{hands, share};
use trainyard_agent::depot::Depot;
use trainyard_agent::disk::{Durability, replace};
use trainyard_agent::snapshot::{Kind, Manifest};
use trainyard_core::id::Digest;

use super::{Snapshot, SnapshotError};

/// An unused blob is left alone for an hour by those who clean; one that is used again says so long before.
const FRESH: Duration = Duration::from_secs(1200);
/// Below this a second thread costs more than it brings.
const WORTH_A_THREAD: usize = 64;
/// Up to so many new blobs are synced one by one; beyond, the whole file system at once is cheaper.
const FEW: usize = 16;
const SYNCING: usize = 8;

/// Puts what the depot does not have yet; the manifest last, so that a snapshot that is there is whole.
pub fn store(snapshot: &Snapshot, depot: &Depot) -> Result<(), SnapshotError> {
    let failed = |source| SnapshotError::Write { depot: depot.root().to_owned(), source };
    let sizes: BTreeMap<&Digest, u64> =
        snapshot.manifest.entries.iter().filter_map(|entry| size(&entry.kind)).collect();
    let files: Vec<_> = snapshot.files.iter().collect();
    let new = share(&files, hands(files.len() / WORTH_A_THREAD), |(digest, path)| {
        let size = sizes.get(digest).copied().unwrap_or_default();
        if is_there(&depot.blob(digest), size) { Ok(None) } else { put(path, digest, size, depot).map(Some) }
    })?;
    let new: Vec<PathBuf> = new.into_iter().flatten().collect();
    sync(&new, depot).map_err(failed)?;
    publish(snapshot, depot).map_err(failed)
}

/// Keeps what the snapshot was of, for those who compare runs; its contents are at a site.
pub fn remember(snapshot: &Snapshot, depot: &Depot) -> Result<(), SnapshotError> {
    publish(snapshot, depot).map_err(|source| SnapshotError::Write { depot: depot.root().to_owned(), source })
}

fn size(kind: &Kind) -> Option<(&Digest, u64)> {
    match kind {
        Kind::File { blob, size, .. } => Some((blob, *size)),
        Kind::Folder | Kind::Link { .. } => None,
    }
}

/// A blob of another length is damaged.
fn is_there(blob: &Path, size: u64) -> bool {
    let Ok(data) = std::fs::metadata(blob) else { return false };
    let is_old = data.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > FRESH));
    if is_old {
        touch(blob);
    }
    data.len() == size
}

/// Blobs are read-only files, but their owner may still set their times.
fn touch(blob: &Path) {
    if let Ok(file) = std::fs::File::open(blob) {
        // Not ours: then its owner is the one who cleans.
        drop(file.set_modified(SystemTime::now()));
    }
}

fn put(path: &Path, digest: &Digest, size: u64, depot: &Depot) -> Result<PathBuf, SnapshotError> {
    let failed = |source| SnapshotError::Write { depot: depot.root().to_owned(), source };
    let blob = depot.blob(digest);
    let folder = blob.parent().unwrap_or(depot.root());
    fs_err::create_dir_all(folder).map_err(failed)?;
    let beside = folder.join(format!("{}.{}.tmp", digest.0, std::process::id()));
    let copied = copy(path, &beside, size).and_then(|hash| {
        let same = hash.to_hex().as_str() == digest.0;
        if same {
            fs_err::rename(&beside, &blob).map_err(Trouble::Write)?
        }
        Ok(same)
    });
    if !matches!(copied, Ok(true)) {
        // What is to be said has happened before.
        drop(fs_err::remove_file(&beside));
    }
    match copied {
        Ok(true) => Ok(blob),
        Ok(false) => Err(SnapshotError::Changing { path: path.to_owned() }),
        Err(Trouble::Read(error)) if error.kind() == io::ErrorKind::NotFound => {
            Err(SnapshotError::Changing { path: path.to_owned() })
        }
        Err(Trouble::Read(error)) => Err(SnapshotError::Read(error)),
        Err(Trouble::Write(error)) => Err(failed(error)),
    }
}

const BUFFER: usize = 1 << 17;

enum Trouble {
    Read(io::Error),
    Write(io::Error),
}

fn copy(from: &Path, to: &Path, size: u64) -> Result<blake3::Hash, Trouble> {
    let mut source = fs_err::File::open(from).map_err(Trouble::Read)?.take(size);
    let mut sink = fs_err::File::create(to).map_err(Trouble::Write)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; usize::try_from(size).unwrap_or(BUFFER).clamp(1, BUFFER)];
    loop {
        let count = source.read(&mut buffer).map_err(Trouble::Read)?;
        let bytes = buffer.get(..count).unwrap_or_default();
        if bytes.is_empty() {
            break;
        }
        hasher.update(bytes);
        sink.write_all(bytes).map_err(Trouble::Write)?;
    }
    sink.set_permissions(std::fs::Permissions::from_mode(0o444)).map_err(Trouble::Write)?;
    Ok(hasher.finalize())
}

/// The new names need no syncing of their own: journals keep their order, and the manifest's name comes later.
fn sync(new: &[PathBuf], depot: &Depot) -> io::Result<()> {
    if new.len() > FEW {
        let root = std::fs::File::open(depot.root())?;
        return rustix::fs::syncfs(&root).map_err(Into::into);
    }
    // All at once: the disk then writes its journal once for several.
    share(new, new.len().min(SYNCING), |blob| fs_err::File::open(blob)?.sync_data())?;
    Ok(())
}

fn publish(snapshot: &Snapshot, depot: &Depot) -> io::Result<()> {
    if Manifest::text(depot, &snapshot.digest).is_some() {
        return Ok(());
    }
    fs_err::create_dir_all(depot.snapshots())?;
    replace(&depot.snapshot(&snapshot.digest), &snapshot.text, Durability::Synced)
}
