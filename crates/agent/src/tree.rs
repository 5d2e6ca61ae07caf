//! A snapshot's files, laid out once per depot as a tree that lies under the working folders of all runs of a large snapshot.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use trainyard_core::id::Digest;

use crate::depot::Depot;
use crate::disk::{remove_folder, unique};
use crate::lay::{LayError, lay};
use crate::snapshot::Manifest;

/// What is left half made for so long was left by an agent that was killed.
const ABANDONED: Duration = Duration::from_secs(3600);

/// The tree of a snapshot, made if it is not there. Many agents may want it at once: one makes it beside its place and
/// moves it there whole, the others wait.
pub(crate) fn make(depot: &Depot, digest: &Digest, manifest: &Manifest) -> Result<PathBuf, LayError> {
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
    let laid = fs_err::create_dir(&beside).map_err(LayError::from).and_then(|()| lay(depot, manifest, &beside));
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::snapshot::{Entry, Kind};

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
        assert!(matches!(&error, LayError::Damaged { path, .. } if path == "f00150"), "{error}");
        fs_err::remove_file(&blob).unwrap();
        let error = make(&depot, &digest, &manifest).unwrap_err();
        assert!(matches!(&error, LayError::Missing { path, .. } if path == "f00150"), "{error}");
        assert_eq!(names(&depot.trees()), [format!("{}.lock", digest.0)]);
    }
}
