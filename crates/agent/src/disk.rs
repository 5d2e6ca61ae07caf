//! Files that others may read: whole or not there at all.

use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Whether a write may be forgotten by the disk when the power fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// On the disk before this returns.
    Synced,
    /// Safe against the end of any process, not against a power cut; for what is written often and can be made again.
    Cached,
}

/// Writes beside the file, then renames over it: a reader sees the old text or the new, never a part. A failure
/// leaves the old file as it was.
pub fn replace(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = path.with_file_name(name);
    let written = write_new(&beside, bytes, durability).and_then(|()| fs_err::rename(&beside, path));
    if written.is_err() {
        // The first error says more than a failed tidy-up would.
        drop(fs_err::remove_file(&beside));
    }
    written
}

fn write_new(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    use io::Write;
    let mut file = fs_err::File::create(path)?;
    file.write_all(bytes)?;
    match durability {
        Durability::Synced => file.sync_data(),
        Durability::Cached => Ok(()),
    }
}

pub fn replace_json(path: &Path, value: &impl Serialize, durability: Durability) -> io::Result<()> {
    replace(path, &serde_json::to_vec(value)?, durability)
}

/// `None` when the file is absent, empty, torn or from a version that wrote other fields: after a power cut all of
/// these mean the same, that nothing can be learned from it.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let bytes = fs_err::read(path).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Removes a folder with all that is in it, also what programs have made unreadable or read-only for themselves. One
/// that is not there is fine.
pub fn remove_folder(folder: &Path) -> io::Result<()> {
    let removed = match fs_err::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(folder);
            fs_err::remove_dir_all(folder)
        }
        removed => removed,
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn open_up(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    // Not ours: the removal will say so.
    drop(std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)));
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Part of a name that nobody else makes: another each time, in each process, on each machine that shares the disk.
pub(crate) fn unique() -> String {
    static MARK: OnceLock<String> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mark = MARK.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        blake3::hash(format!("{host} {}", now.as_nanos()).as_bytes()).to_hex().chars().take(12).collect()
    });
    format!("{}-{}-{mark}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The wall clock, in the form the rest of the house uses.
pub fn now() -> trainyard_core::time::Instant {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    trainyard_core::time::Instant(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
