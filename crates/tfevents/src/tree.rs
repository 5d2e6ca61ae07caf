//! Finds the event files below a folder.
//!
//! Links to files are followed. Links to folders are followed if they lead out of the tree, to each place by one link
//! only; a link within it, such as `latest`, would show a run twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::reader::ReadError;
use crate::run::is_event_file;

/// A folder in which event files come to be.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    known: BTreeSet<PathBuf>,
    /// Where links lead out of the tree, and by which one we go: the same each time, or a run would get a second name.
    outside: BTreeMap<PathBuf, PathBuf>,
}

impl Tree {
    /// Does not touch the disk; the folder may come later.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let (known, outside) = Default::default();
        Self { root: root.into(), known, outside }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The files that were not there the last time, in the order of their paths, and what kept folders from being
    /// looked into.
    pub fn discover(&mut self) -> (Vec<PathBuf>, Vec<ReadError>) {
        let mut walk = Walk::default();
        match fs::canonicalize(&self.root) {
            Ok(root) => {
                walk.tree(&self.root);
                while let Some(link) = walk.links.pop_first() {
                    if self.is_way_out(&link, &root) {
                        walk.tree(&link);
                    }
                }
            }
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => {}
            Err(source) => walk.troubles.push(ReadError { path: self.root.clone(), source }),
        }
        let mut new: Vec<PathBuf> = walk.found.into_iter().filter(|path| !self.known.contains(path)).collect();
        new.sort();
        self.known.extend(new.iter().cloned());
        (new, walk.troubles)
    }

    /// Whether a link leads to a place that is neither in the tree nor around it, nor reached by another link.
    fn is_way_out(&mut self, link: &Path, root: &Path) -> bool {
        let Ok(target) = fs::canonicalize(link) else { return false };
        if let Some(way) = self.outside.get(&target) {
            return way == link;
        }
        let overlaps = |place: &Path| place.starts_with(&target) || target.starts_with(place);
        let is_new = !overlaps(root) && !self.outside.keys().any(|place| overlaps(place));
        if is_new {
            self.outside.insert(target, link.to_owned());
        }
        is_new
    }
}

/// What is found in a tree. Links to folders are noted, not followed.
#[derive(Default)]
struct Walk {
    found: Vec<PathBuf>,
    links: BTreeSet<PathBuf>,
    troubles: Vec<ReadError>,
}

impl Walk {
    fn tree(&mut self, top: &Path) {
        let mut open = vec![top.to_owned()];
        while let Some(folder) = open.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(source) => {
                    self.troubles.push(ReadError { path: folder, source });
                    continue;
                }
            };
            // An entry that vanished while it was listed is no trouble.
            for entry in entries.flatten() {
                let path = entry.path();
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => open.push(path),
                    Ok(kind) if is_event_file(&entry.file_name()) && (kind.is_file() || path.is_file()) => {
                        self.found.push(path);
                    }
                    Ok(kind) if kind.is_symlink() && path.is_dir() => drop(self.links.insert(path)),
                    _ => {}
                }
            }
        }
    }
}
