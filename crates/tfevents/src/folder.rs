//! A folder of runs, as TensorBoard's `--logdir`: each folder in it that holds event files is a run, named by its
//! path from there, and `.` is the folder itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::buffer::Buffer;
use crate::reader::ReadError;
use crate::run::{Gain, Run};
use crate::tags::{Overlap, Tag};
use crate::tree::Tree;

/// Follows all runs below a folder.
#[derive(Debug)]
pub struct Folder {
    tree: Tree,
    overlap: Overlap,
    runs: BTreeMap<String, Run>,
    buffer: Buffer,
}

impl Folder {
    /// Does not touch the disk; the folder may come later.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self::with_overlap(root, Overlap::default())
    }

    pub fn with_overlap(root: impl Into<PathBuf>, overlap: Overlap) -> Self {
        let (runs, buffer) = Default::default();
        Self { tree: Tree::new(root), overlap, runs, buffer }
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
        let (found, troubles) = self.tree.discover();
        for path in found {
            self.add_file(&path);
        }
        troubles
    }

    /// Reads what is new in the files found so far, at the cost of one look at each file's size.
    pub fn read(&mut self) -> Gain {
        let mut gain = Gain::default();
        for run in self.runs.values_mut() {
            gain.add(run.read(&mut self.buffer));
        }
        gain
    }

    fn add_file(&mut self, path: &Path) {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return };
        let run = run_name(folder.strip_prefix(self.tree.root()).unwrap_or(folder));
        let run = self.runs.entry(run).or_insert_with(|| Run::with_overlap(folder, self.overlap));
        run.add_file(name.to_owned());
    }
}

fn run_name(relative: &Path) -> String {
    let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
    if parts.is_empty() { ".".to_owned() } else { parts.join("/") }
}
