//! Converted images on this machine, each with a note of what it is.
//!
//! `<key>.sif`, its index, and `<key>.json`. An image without a note is one that a power cut left; it is made again.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use trainyard_agent::depot::ImageName;
use trainyard_agent::disk::{Durability, read_json, replace_json};
use trainyard_agent::reclaim::{is_old, size};
use trainyard_core::time::Instant;
use trainyard_image::index_path;

use super::Form;
use super::workplace::dead;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Of the image and the way it was converted.
    pub key: String,
    pub name: ImageName,
    pub size: u64,
    pub form: Form,
    pub profile: String,
    pub from: String,
    pub made: Instant,
}

impl Kept {
    pub fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.{}", self.key, self.form.ending()))
    }

    fn note(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.json", self.key))
    }

    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        replace_json(&self.note(folder), self, Durability::Synced)
    }

    /// Whoever cleans sees that it is in use.
    pub(super) fn touch(&self, folder: &Path) {
        if let Ok(file) = std::fs::File::open(self.note(folder)) {
            drop(file.set_modified(SystemTime::now()));
        }
    }

    fn is_whole(&self, folder: &Path) -> bool {
        let is_name = self.key.len() == 64 && self.key.bytes().all(|byte| byte.is_ascii_hexdigit());
        let data = is_name.then(|| std::fs::metadata(self.path(folder)).ok()).flatten();
        data.is_some_and(|data| data.len() == self.size) && index_path(&self.path(folder)).exists()
    }
}

/// The next who wants the image makes it anew.
pub(super) fn forget(image: &Path) {
    // One that is gone is forgotten.
    drop(std::fs::remove_file(image.with_extension("json")));
}

/// Those that are whole, the newest first.
pub fn kept(folder: &Path) -> Vec<Kept> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let notes = entries.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let mut found: Vec<Kept> =
        notes.filter_map(|path| read_json::<Kept>(&path)).filter(|kept| kept.is_whole(folder)).collect();
    found.sort_by_key(|kept| std::cmp::Reverse(kept.made));
    found
}

/// The newest of each profile and form.
pub fn newest(folder: &Path) -> Vec<Kept> {
    let mut seen = Vec::new();
    let is_newest = |kept: &Kept| {
        let kind = (kept.profile.clone(), kept.from.clone(), kept.form);
        let is_new = !seen.contains(&kind);
        seen.extend(is_new.then_some(kind));
        is_new
    };
    kept(folder).into_iter().filter(is_newest).collect()
}

/// Files of images that no run needs (`used` are paths of theirs) and that are not the newest of their profile, and folders in which
/// images were made when their makers were killed. What was touched in the last hour may be on its way.
pub fn unneeded(folder: &Path, used: &BTreeSet<PathBuf>) -> Vec<(PathBuf, u64)> {
    let newest: BTreeSet<String> = newest(folder).into_iter().map(|kept| kept.key).collect();
    let used: BTreeSet<&str> = used.iter().filter_map(|path| stem(path)).collect();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)));
    let is_needed = |path: &Path| stem(path).is_some_and(|key| newest.contains(key) || used.contains(key));
    let files = files
        .filter(|(path, data)| data.is_file() && is_old(data) && !is_needed(path))
        .map(|(path, data)| (path, data.len()));
    let left = dead(folder).filter(|(path, _)| std::fs::metadata(path).is_ok_and(|data| is_old(&data)));
    files.chain(left.map(|(path, _)| (path.clone(), size(&path)))).collect()
}

/// The key that a file's name begins with.
fn stem(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.split('.').next()
}
