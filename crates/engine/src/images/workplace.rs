//! A folder for all that is written while an image is made. It goes with whoever made it: at once where that can be, and after a
//! kill or a power cut with the next who makes an image, or cleans.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

const PREFIX: &str = ".work-";

pub(super) struct Workplace {
    path: PathBuf,
    /// Until it or its process is gone, nobody else takes the folder for a dead one's.
    _held: Option<File>,
}

impl Workplace {
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        for (path, held) in dead(folder) {
            // What cannot be removed is in nobody's way.
            drop(std::fs::remove_dir_all(path));
            drop(held);
        }
        loop {
            let path = folder.join(format!("{PREFIX}{}", uuid::Uuid::now_v7().simple()));
            fs_err::create_dir(&path)?;
            match hold(&path) {
                // Somebody found it before it was held, and takes it for a dead one's.
                Err(Errno::WOULDBLOCK | Errno::NOENT) => {}
                // A disk that knows no locks: then nobody finds dead ones there either.
                held => return Ok(Self { path, _held: held.ok() }),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.path));
    }
}

/// Those whose makers are gone, each held so that nobody else takes it.
pub(super) fn dead(folder: &Path) -> impl Iterator<Item = (PathBuf, File)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    ours.filter_map(|entry| Some((entry.path(), hold(&entry.path()).ok()?)))
}

fn hold(path: &Path) -> Result<File, Errno> {
    let file = File::open(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOENT))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    // It may have been removed by whoever held it a moment ago.
    if path.exists() { Ok(file) } else { Err(Errno::NOENT) }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn who_is_at_work_keeps_it_and_what_the_dead_left_goes() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join(".work-left");
        std::fs::create_dir(&left).unwrap();
        std::fs::write(left.join("image.sif"), "half").unwrap();
        let one = Workplace::new(folder.path()).unwrap();
        assert!(!left.exists());
        let other = Workplace::new(folder.path()).unwrap();
        assert!(one.path().exists() && other.path().exists());
        assert_eq!(dead(folder.path()).count(), 0);
        drop((one, other));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
