//! A snapshot's files, laid out in a folder: straight into a small run's working folder, or once per depot as a tree
//! that lies under the working folders of all runs of a large snapshot.

use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fs_err::os::unix::fs::OpenOptionsExt;
use trainyard_core::id::Digest;

use crate::crew::{hands, share};
use crate::depot::Depot;
use crate::disk::remove_folder;
use crate::snapshot::{Entry, Kind, Manifest, decode};

#[derive(Debug, thiserror::Error)]
pub(crate) enum TreeError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the depot has lost blob {blob}, the content of `{path}`; submit again to put it there anew")]
    Missing { blob: Digest, path: String },
    #[error("the depot's blob {blob} is damaged, the content of `{path}`; remove it and submit again")]
    Damaged { blob: Digest, path: String },
}

/// Below this a second thread costs more than it brings.
const WORTH_A_THREAD: usize = 64;
/// What is left half made for so long was left by an agent that was killed.
const ABANDONED: Duration = Duration::from_secs(3600);

/// The tree of a snapshot, made if it is not there. Many agents may want it at once: one makes it beside its place and
/// moves it there whole, the others wait.
pub(crate) fn make(depot: &Depot, digest: &Digest, manifest: &Manifest) -> Result<PathBuf, TreeError> {
    let tree = depot.tree(digest);
    if is_there(&tree) {
        return Ok(tree);
    }
    fs_err::create_dir_all(depot.trees())?;
    let lock =
        fs_err::OpenOptions::new().create(true).append(true).open(depot.trees().join(format!("{}.lock", digest.0)))?;
    // Some network disks have no locks. Then several may be made, and one of them stays.
    let _ = rustix::fs::flock(lock.file(), rustix::fs::FlockOperation::LockExclusive);
    if is_there(&tree) {
        return Ok(tree);
    }
    remove_abandoned(depot);
    let beside = depot.trees().join(format!("{}.{}.tmp", digest.0, unique()));
    let laid = fs_err::create_dir(&beside).map_err(TreeError::from).and_then(|()| lay(depot, manifest, &beside));
    let moved = laid.and_then(|()| match fs_err::rename(&beside, &tree) {
        Err(_) if is_there(&tree) => remove_folder(&beside).map_err(Into::into),
        moved => moved.map_err(Into::into),
    });
    if moved.is_err() {
        // The first error says more than a failed tidy-up would.
        drop(remove_folder(&beside));
    }
    moved.map(|()| tree)
}

/// If so, says to those who clean that it is in use.
pub(crate) fn is_there(tree: &Path) -> bool {
    let Ok(folder) = std::fs::File::open(tree) else { return false };
    // Somebody else's depot: then they are the one who cleans.
    drop(folder.set_modified(SystemTime::now()));
    true
}

/// Different on every machine that shares the disk, and for every thread.
fn unique() -> String {
    let host = fs_err::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let host: String = host.chars().take(8).collect();
    format!("{host}-{:?}-{}", rustix::thread::gettid(), std::process::id())
}

fn remove_abandoned(depot: &Depot) {
    for entry in std::fs::read_dir(depot.trees()).into_iter().flatten().flatten() {
        let is_old =
            |data: std::fs::Metadata| data.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED));
        if entry.path().extension().is_some_and(|ending| ending == "tmp") && entry.metadata().is_ok_and(is_old) {
            drop(remove_folder(&entry.path()));
        }
    }
}

/// Whether an overlay over the tree lets this user change its files.
pub(crate) fn is_ours(tree: &Path) -> bool {
    let owner = std::fs::metadata(tree).map(|data| data.uid());
    owner.is_ok_and(|owner| owner == rustix::process::geteuid().as_raw())
}

/// Into an empty folder. Every content is checked against its name on the way.
pub(crate) fn lay(depot: &Depot, manifest: &Manifest, into: &Path) -> Result<(), TreeError> {
    let mut files = Vec::new();
    // Entries are sorted, so a folder comes before what is in it.
    for entry in &manifest.entries {
        match &entry.kind {
            Kind::Folder => fs_err::create_dir(into.join(decode(&entry.path)))?,
            Kind::Link { .. } | Kind::File { .. } => files.push(entry),
        }
    }
    share(&files, hands(files.len() / WORTH_A_THREAD), |entry| lay_one(depot, entry, into))?;
    Ok(())
}

/// One entry, whose folder is there.
pub(crate) fn lay_one(depot: &Depot, entry: &Entry, into: &Path) -> Result<(), TreeError> {
    let to = into.join(decode(&entry.path));
    match &entry.kind {
        Kind::Folder => Ok(fs_err::create_dir(to)?),
        Kind::Link { to: target } => Ok(fs_err::os::unix::fs::symlink(decode(target), to)?),
        Kind::File { blob, mode, size } => {
            let from = match fs_err::File::open(depot.blob(blob)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(TreeError::Missing { blob: blob.clone(), path: entry.path.clone() });
                }
                opened => opened?,
            };
            let to = fs_err::OpenOptions::new().write(true).create_new(true).mode(mode | 0o200).open(to)?;
            let hash = copy(from, to, *size)?;
            let intact = hash.to_hex().as_str() == blob.0;
            if intact { Ok(()) } else { Err(TreeError::Damaged { blob: blob.clone(), path: entry.path.clone() }) }
        }
    }
}

const BUFFER: usize = 1 << 16;

/// Shares the blocks where the file system can, and reads them all the same.
fn copy(mut from: fs_err::File, mut to: fs_err::File, size: u64) -> io::Result<blake3::Hash> {
    let shared = size > 0 && rustix::fs::ioctl_ficlone(to.file(), from.file()).is_ok();
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; usize::try_from(size).unwrap_or(BUFFER).clamp(1, BUFFER)];
    loop {
        let count = from.read(&mut buffer)?;
        let bytes = buffer.get(..count).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(hasher.finalize());
        }
        hasher.update(bytes);
        if !shared {
            to.write_all(bytes)?;
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn depot(root: &Path, files: usize) -> (Depot, Manifest) {
        let depot = Depot::new(root);
        let mut manifest = Manifest::default();
        for n in 0..files {
            let text = format!("content {n}");
            let blob = Digest(blake3::hash(text.as_bytes()).to_hex().to_string());
            let path = depot.blob(&blob);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, &text).unwrap();
            let kind = Kind::File { blob, size: text.len() as u64, mode: 0o644 };
            manifest.entries.push(Entry { path: format!("f{n:05}"), kind });
        }
        (depot, manifest)
    }

    fn blob_of(manifest: &Manifest, depot: &Depot, index: usize) -> PathBuf {
        let Kind::File { blob, .. } = &manifest.entries[index].kind else { panic!() };
        depot.blob(blob)
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn many_who_want_the_same_tree_get_one() {
        let root = tempfile::tempdir().unwrap();
        let (depot, manifest) = depot(root.path(), 300);
        let digest = manifest.digest();
        let wants = [(); 20];
        std::thread::scope(|scope| {
            for () in wants {
                scope.spawn(|| assert_eq!(make(&depot, &digest, &manifest).unwrap(), depot.tree(&digest)));
            }
        });
        assert_eq!(names(&depot.trees()), [digest.0.clone(), format!("{}.lock", digest.0)]);
        assert_eq!(names(&depot.tree(&digest)).len(), 300);
    }

    #[test]
    fn what_a_killed_agent_left_is_not_taken_for_a_tree() {
        let root = tempfile::tempdir().unwrap();
        let (depot, manifest) = depot(root.path(), 3);
        let digest = manifest.digest();
        let half = depot.trees().join(format!("{}.gone.tmp", digest.0));
        let other = depot.trees().join("other.busy.tmp");
        for folder in [&half, &other] {
            fs_err::create_dir_all(folder).unwrap();
            fs_err::write(folder.join("f00000"), "half").unwrap();
        }
        let long_ago = SystemTime::now() - ABANDONED - Duration::from_secs(60);
        std::fs::File::open(&half).unwrap().set_modified(long_ago).unwrap();
        let tree = make(&depot, &digest, &manifest).unwrap();
        assert_eq!(fs_err::read_to_string(tree.join("f00000")).unwrap(), "content 0");
        assert!(!half.exists(), "removed");
        assert!(other.exists(), "somebody may be making it");
    }

    #[test]
    fn a_damaged_blob_is_named_with_its_file_and_nothing_stays() {
        let root = tempfile::tempdir().unwrap();
        let (depot, manifest) = depot(root.path(), 200);
        let digest = manifest.digest();
        let blob = blob_of(&manifest, &depot, 150);
        // Of the same length: only the content can tell.
        fs_err::write(&blob, "CONTENT 150").unwrap();
        let error = make(&depot, &digest, &manifest).unwrap_err();
        assert!(matches!(&error, TreeError::Damaged { path, .. } if path == "f00150"), "{error}");
        fs_err::remove_file(&blob).unwrap();
        let error = make(&depot, &digest, &manifest).unwrap_err();
        assert!(matches!(&error, TreeError::Missing { path, .. } if path == "f00150"), "{error}");
        assert_eq!(names(&depot.trees()), [format!("{}.lock", digest.0)]);
    }
}
