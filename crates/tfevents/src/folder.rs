//! A folder of runs, as TensorBoard's `--logdir`: each folder in it that holds event files is a run, named by its
//! path from there, and `.` is the folder itself.
//!
//! Links to files are followed. Links to folders are followed if they lead out of the tree, to each place by one link
//! only; a link within it, such as `latest`, would show a run twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::buffer::Buffer;
use crate::reader::ReadError;
use crate::run::{Gain, Run, is_event_file};
use crate::tags::{Overlap, Tag};

/// Follows all runs below a folder.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    overlap: Overlap,
    runs: BTreeMap<String, Run>,
    /// Where links lead out of the tree, and by which one we go: the same each time, or a run would get a second name.
    outside: BTreeMap<PathBuf, PathBuf>,
    buffer: Buffer,
}

impl Folder {
    /// Does not touch the disk; the folder may come later.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self::with_overlap(root, Overlap::default())
    }

    pub fn with_overlap(root: impl Into<PathBuf>, overlap: Overlap) -> Self {
        let (runs, outside, buffer) = Default::default();
        Self { root: root.into(), overlap, runs, outside, buffer }
    }

    /// The runs by name.
    pub fn runs(&self) -> impl Iterator<Item = (&str, &Run)> {
        self.runs.iter().map(|(name, run)| (name.as_str(), run))
    }

    pub fn run(&self, name: &str) -> Option<&Run> {
        self.runs.get(name)
    }

    /// All tags of all runs, each with its run's name before it, as in `eval/reward` for `reward` of the run `eval`.
    pub fn tags(&self) -> impl Iterator<Item = (String, &Tag)> {
        let name =
            |run: &str, tag: &Tag| if run == "." { tag.name().to_owned() } else { format!("{run}/{}", tag.name()) };
        self.runs().flat_map(move |(run, content)| content.tags().map(move |tag| (name(run, tag), tag)))
    }

    /// Looks for new runs and files, then reads what is new. Returns what kept folders from being looked into; the
    /// rest is read all the same.
    pub fn poll(&mut self) -> (Gain, Vec<ReadError>) {
        let troubles = self.discover();
        (self.read(), troubles)
    }

    /// Looks for new runs and files, which takes a walk through the whole tree.
    pub fn discover(&mut self) -> Vec<ReadError> {
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
        for path in walk.found {
            self.add_file(&path);
        }
        walk.troubles
    }

    /// Reads what is new in the files found so far, at the cost of one look at each file's size.
    pub fn read(&mut self) -> Gain {
        let mut gain = Gain::default();
        for run in self.runs.values_mut() {
            gain.add(run.read(&mut self.buffer));
        }
        gain
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

    fn add_file(&mut self, path: &Path) {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return };
        let run = run_name(folder.strip_prefix(&self.root).unwrap_or(folder));
        let run = self.runs.entry(run).or_insert_with(|| Run::with_overlap(folder, self.overlap));
        run.add_file(name.to_owned());
    }
}

fn run_name(relative: &Path) -> String {
    let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
    if parts.is_empty() { ".".to_owned() } else { parts.join("/") }
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
