//! A working folder as its program sees it, for those who look at it from outside.
//!
//! Where the files of the snapshot lie under the working folder (see [`crate::work`]), the folder itself holds only what
//! the program has changed: new files, and marks for those it has removed. Overlayfs marks a removed file by a device
//! of number 0:0, and a folder that hides the one below by an attribute.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use trainyard_core::id::{Digest, RunId};

use crate::depot::{Depot, RunFolder};
use crate::disk::read_json;

/// What a run folder says about its working folder; there is no such note about one that holds all its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layered {
    /// The snapshot whose tree lies below.
    pub(crate) tree: Digest,
}

impl Layered {
    pub(crate) fn read(folder: &RunFolder) -> Option<Self> {
        read_json(&folder.layers())
    }
}

#[derive(Debug, Clone)]
pub struct View {
    upper: PathBuf,
    lower: Option<PathBuf>,
}

/// A file or folder the program would see.
#[derive(Debug, Clone)]
pub struct Seen {
    pub name: OsString,
    /// Where it really lies.
    pub path: PathBuf,
}

/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;

impl View {
    /// The working folder of a run.
    pub fn of(depot: &Depot, run: RunId) -> Self {
        let folder = depot.run(run);
        let lower = Layered::read(&folder).map(|layered| depot.tree(&layered.tree));
        Self { upper: folder.work(), lower }
    }

    /// A folder that is what it seems.
    pub fn plain(folder: PathBuf) -> Self {
        Self { upper: folder, lower: None }
    }

    pub(crate) fn layered(upper: PathBuf, lower: PathBuf) -> Self {
        Self { upper, lower: Some(lower) }
    }

    /// Where the program finds its files, whatever lies where.
    pub fn folder(&self) -> &Path {
        &self.upper
    }

    /// Where a file or link of the working folder really lies; `None` if the program would not find it.
    pub fn find(&self, path: &Path) -> Option<PathBuf> {
        self.walk(path, MOST_LINKS)
    }

    /// The same, and if it is a link, what it leads to.
    pub fn follow(&self, path: &Path) -> Option<PathBuf> {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            let found = self.find(&path)?;
            let Ok(target) = std::fs::read_link(&found) else { return Some(found) };
            let target = path.parent().unwrap_or(Path::new("")).join(target);
            match self.inside(&target) {
                Some(inside) => path = inside,
                None => return std::fs::canonicalize(self.upper.join(target)).ok(),
            }
        }
        None
    }

    /// What a folder holds, sorted by name; nothing if there is no such folder.
    pub fn list(&self, folder: &Path) -> io::Result<Vec<Seen>> {
        let mut seen: BTreeMap<OsString, Option<PathBuf>> = BTreeMap::new();
        let (below, above) = (self.below(folder), self.upper.join(folder));
        for side in below.iter().chain([&above]) {
            let entries = match fs_err::read_dir(side) {
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    continue;
                }
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                let is_there = entry.metadata().is_ok_and(|data| !is_whiteout(&data));
                seen.insert(entry.file_name(), is_there.then(|| entry.path()));
            }
        }
        Ok(seen.into_iter().filter_map(|(name, path)| Some(Seen { name, path: path? })).collect())
    }

    /// The folder of the lower layer that shows through, if any.
    fn below(&self, folder: &Path) -> Option<PathBuf> {
        let lower = self.lower.as_ref()?;
        let hides = |part: &Path| {
            let part = self.upper.join(part);
            std::fs::symlink_metadata(&part).is_ok_and(|data| !data.is_dir() || is_opaque(&part))
        };
        let hidden = folder.ancestors().filter(|part| !part.as_os_str().is_empty()).any(hides);
        (!hidden).then(|| lower.join(folder))
    }

    fn walk(&self, path: &Path, links: usize) -> Option<PathBuf> {
        if self.lower.is_none() {
            let path = self.upper.join(path);
            return std::fs::symlink_metadata(&path).is_ok_and(|data| !is_whiteout(&data)).then_some(path);
        }
        let mut folder = PathBuf::new();
        let mut parts = self.inside(path)?.iter().map(OsString::from).collect::<Vec<_>>().into_iter();
        while let Some(part) = parts.next() {
            let found = self.one(&folder.join(&part))?;
            if parts.len() == 0 {
                return Some(found);
            }
            match std::fs::read_link(&found) {
                Err(_) => folder.push(part),
                Ok(target) => {
                    let rest: PathBuf = parts.collect();
                    let target = folder.join(target).join(rest);
                    return match self.inside(&target) {
                        Some(inside) => self.walk(&inside, links.checked_sub(1)?),
                        None => Some(self.upper.join(target)).filter(|path| std::fs::symlink_metadata(path).is_ok()),
                    };
                }
            }
        }
        Some(self.upper.clone())
    }

    /// Whether a path of the lower layer, whose folders are no links, is what the program sees.
    pub(crate) fn shows_through(&self, path: &Path) -> bool {
        let covered = std::fs::symlink_metadata(self.upper.join(path)).is_ok();
        !covered && self.below(path.parent().unwrap_or(Path::new(""))).is_some()
    }

    /// A path whose folders are no links.
    fn one(&self, path: &Path) -> Option<PathBuf> {
        let upper = self.upper.join(path);
        match std::fs::symlink_metadata(&upper) {
            Ok(data) => (!is_whiteout(&data)).then_some(upper),
            Err(_) => {
                let parent = self.below(path.parent().unwrap_or(Path::new("")))?;
                let lower = parent.join(path.file_name()?);
                std::fs::symlink_metadata(&lower).is_ok().then_some(lower)
            }
        }
    }

    /// The path from the working folder, without `.` and `..`; `None` if it leads out.
    fn inside(&self, path: &Path) -> Option<PathBuf> {
        let path = if path.is_absolute() { path.strip_prefix(&self.upper).ok()? } else { path };
        let mut inside = PathBuf::new();
        for part in path.components() {
            match part {
                Component::Normal(name) => inside.push(name),
                Component::CurDir => {}
                Component::ParentDir if inside.pop() => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
            }
        }
        Some(inside)
    }
}

/// The mark of a removed file.
pub(crate) fn is_whiteout(data: &Metadata) -> bool {
    data.file_type().is_char_device() && data.rdev() == 0
}

pub(crate) const OPAQUE: &str = "user.overlay.opaque";

/// A folder that was removed and made anew shows nothing of the one below.
fn is_opaque(folder: &Path) -> bool {
    let mut value = [0_u8; 1];
    rustix::fs::lgetxattr(folder, OPAQUE, &mut value).is_ok_and(|length| length == 1) && &value == b"y"
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn links_lead_through_both_layers() {
        let root = tempfile::tempdir().unwrap();
        let (upper, lower) = (root.path().join("u"), root.path().join("l"));
        for path in ["u/out", "l/src", "l/out"] {
            fs_err::create_dir_all(root.path().join(path)).unwrap();
        }
        fs_err::write(upper.join("out/new"), "").unwrap();
        fs_err::write(lower.join("out/old"), "").unwrap();
        fs_err::write(lower.join("src/code"), "").unwrap();
        fs_err::os::unix::fs::symlink("out", lower.join("logs")).unwrap();
        fs_err::os::unix::fs::symlink("../src/code", upper.join("out/link")).unwrap();
        fs_err::os::unix::fs::symlink("/nowhere", upper.join("dead")).unwrap();
        fs_err::os::unix::fs::symlink("loop", upper.join("loop")).unwrap();
        let view = View { upper: upper.clone(), lower: Some(lower.clone()) };
        assert_eq!(view.find(Path::new("logs/new")), Some(upper.join("out/new")), "a link below, a file above");
        assert_eq!(view.find(Path::new("logs/old")), Some(lower.join("out/old")));
        assert_eq!(view.follow(Path::new("out/link")), Some(lower.join("src/code")), "and the other way round");
        assert_eq!(view.find(Path::new("dead")), Some(upper.join("dead")));
        assert_eq!(view.follow(Path::new("dead")), None);
        assert_eq!(view.follow(Path::new("loop")), None);
        assert_eq!(view.find(Path::new("loop/x")), None);
        let names: Vec<_> = view.list(Path::new("out")).unwrap().into_iter().map(|seen| seen.name).collect();
        assert_eq!(names, ["link", "new", "old"]);
    }
}
