//! Files from one disk to another, so that whoever looks there sees each of them whole.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::Stamp;
use crate::disk::remove_folder;

/// All files and links below a part of a folder, by their names from the folder on.
pub(super) fn stamps(folder: &Path, part: &Path) -> BTreeMap<PathBuf, Stamp> {
    let mut found = BTreeMap::new();
    collect(folder, part, &mut found);
    found
}

fn collect(folder: &Path, part: &Path, found: &mut BTreeMap<PathBuf, Stamp>) {
    let path = folder.join(part);
    // What cannot be read now is looked at the next time.
    let Ok(data) = std::fs::symlink_metadata(&path) else { return };
    if data.is_dir() {
        for entry in std::fs::read_dir(&path).into_iter().flatten().flatten() {
            collect(folder, &part.join(entry.file_name()), found);
        }
    } else if (data.is_file() || data.is_symlink())
        && let Ok(modified) = data.modified()
    {
        found.insert(part.to_owned(), Stamp { size: data.len(), modified });
    }
}

pub(super) fn size(folder: &Path) -> u64 {
    stamps(folder, Path::new("")).values().map(|stamp| stamp.size).sum()
}

/// One file or link, by way of `beside`, which lies on the same disk as `to`.
pub(super) fn one(from: &Path, to: &Path, beside: &Path) -> io::Result<()> {
    copy(from, beside)?;
    if let Some(folder) = to.parent() {
        fs_err::create_dir_all(folder)?;
    }
    fs_err::rename(beside, to)
}

/// These files of a folder, all at once: what was there is exchanged for them.
pub(super) fn folder(from: &Path, to: &Path, name: &Path, files: &[&PathBuf], incoming: &Path) -> io::Result<()> {
    let beside = incoming.join("folder");
    remove_folder(&beside)?;
    for file in files {
        let inside = beside.join(file.strip_prefix(name).unwrap_or(file));
        if let Some(above) = inside.parent() {
            fs_err::create_dir_all(above)?;
        }
        copy(&from.join(file), &inside)?;
    }
    let to = to.join(name);
    if let Some(above) = to.parent() {
        fs_err::create_dir_all(above)?;
    }
    if std::fs::symlink_metadata(&to).is_err() {
        return fs_err::rename(&beside, &to);
    }
    if renameat_with(CWD, &beside, CWD, &to, RenameFlags::EXCHANGE).is_err() {
        // Not every network disk can do that at once. In between there is none, which is better than half a one.
        let old = incoming.join("old");
        remove_folder(&old)?;
        fs_err::rename(&to, &old)?;
        fs_err::rename(&beside, &to)?;
        remove_folder(&old)?;
    }
    remove_folder(&beside)
}

/// Fails as interrupted when the file changed meanwhile.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let before = std::fs::symlink_metadata(from)?;
    match std::fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    if before.is_symlink() {
        return fs_err::os::unix::fs::symlink(fs_err::read_link(from)?, to);
    }
    fs_err::copy(from, to)?;
    let copied = fs_err::OpenOptions::new().append(true).open(to);
    // One that may not be written is as good; only its time is lost.
    if let Ok(copied) = copied {
        copied.file().set_modified(before.modified()?)?;
        copied.file().sync_all()?;
    }
    let after = std::fs::symlink_metadata(from)?;
    if after.len() == before.len() && after.modified()? == before.modified()? {
        return Ok(());
    }
    fs_err::remove_file(to)?;
    Err(io::ErrorKind::Interrupted.into())
}
