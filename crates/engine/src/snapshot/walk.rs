//! Which files belong to a project: all but what `.gitignore`, `.yardignore` and `project.exclude` leave out.
//!
//! As in git, the rules of a repository end at its border: those of a larger one around the project's own do not
//! reach in, nor do the project's reach into a submodule. Outside any repository every `.gitignore` of the project
//! counts. `.yardignore` and `exclude` know no borders, and `.yardignore` may bring back what `.gitignore` leaves out.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::{DirEntry, WalkBuilder, WalkState};

use super::{Rules, SnapshotError};

/// So many files are found in the time that it takes several threads to begin and to end: one that has nothing to do
/// sleeps for a millisecond (`ignore` 0.4).
const FEW: usize = 400;

/// Where `yard pull` puts results in the project; never part of a snapshot.
pub const RESULTS_FOLDER: &str = "yard-results";

#[derive(Debug)]
pub(super) struct Found {
    /// Relative to the project.
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Folder,
    File(Stat),
    Link { to: PathBuf },
}

/// What tells a file that was written to from one that was not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) inode: u64,
    pub(super) device: u64,
    /// Nanoseconds since the epoch.
    pub(super) modified: i64,
    pub(super) changed: i64,
}

impl Stat {
    pub(super) fn of(data: &std::fs::Metadata) -> Self {
        let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Self {
            mode: data.mode() & 0o777,
            size: data.len(),
            inode: data.ino(),
            device: data.dev(),
            modified: nanoseconds(data.mtime(), data.mtime_nsec()),
            changed: nanoseconds(data.ctime(), data.ctime_nsec()),
        }
    }
}

impl Found {
    pub(super) fn size(&self) -> u64 {
        match &self.kind {
            Kind::File(stat) => stat.size,
            Kind::Folder | Kind::Link { .. } => 0,
        }
    }
}

/// Sorted by the bytes of the path, so that a folder comes before what is in it. Links are kept as links, empty
/// folders and hidden files are included, sockets and pipes are not.
///
/// `before` is how many files there were last time, 0 for a project that was never looked at.
pub(super) fn walk(project: &Path, rules: &Rules, before: usize) -> Result<Vec<Found>, SnapshotError> {
    let builder = builder(project, rules)?;
    let mut all = if (1..FEW).contains(&before) { alone(project, &builder)? } else { together(project, &builder)? };
    all.sort_unstable_by(|a, b| a.path.as_os_str().as_bytes().cmp(b.path.as_os_str().as_bytes()));
    Ok(all)
}

fn alone(project: &Path, builder: &WalkBuilder) -> Result<Vec<Found>, SnapshotError> {
    let mut all = Vec::new();
    for entry in builder.build() {
        all.extend(look(project, &entry.map_err(SnapshotError::Walk)?)?);
    }
    Ok(all)
}

fn together(project: &Path, builder: &WalkBuilder) -> Result<Vec<Found>, SnapshotError> {
    let (sender, receiver) = std::sync::mpsc::channel();
    builder.build_parallel().run(|| {
        let mut batch = Batch { found: Vec::new(), sender: sender.clone() };
        Box::new(move |entry| batch.take(project, entry))
    });
    drop(sender);
    let mut all = Vec::new();
    for found in receiver {
        all.append(&mut found?);
    }
    Ok(all)
}

fn builder(project: &Path, rules: &Rules) -> Result<WalkBuilder, SnapshotError> {
    let excluded = excluded(project, rules)?;
    let in_repository = project.ancestors().any(|folder| folder.join(".git").exists());
    let mut builder = WalkBuilder::new(project);
    builder.hidden(false).ignore(false).git_global(false).add_custom_ignore_filename(".yardignore");
    builder.require_git(in_repository).parents(in_repository);
    builder.filter_entry(move |entry| {
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        entry.depth() == 0 || !excluded.matched(entry.path(), is_folder).is_ignore()
    });
    Ok(builder)
}

/// Python's caches are made anew by every program that runs; with them no two snapshots would be the same.
fn excluded(project: &Path, rules: &Rules) -> Result<Gitignore, SnapshotError> {
    let always = [".git".to_owned(), format!("/{RESULTS_FOLDER}/"), "__pycache__/".to_owned()];
    let lines: Vec<String> = rules.exclude.iter().cloned().chain(always).collect();
    patterns(project, &lines).map_err(|source| SnapshotError::Pattern { key: "exclude", source })
}

pub(super) fn patterns(project: &Path, lines: &[String]) -> Result<Gitignore, ignore::Error> {
    let mut builder = GitignoreBuilder::new(project);
    for line in lines {
        builder.add_line(None, line)?;
    }
    builder.build()
}

/// What one thread has found; handed over when the thread ends.
struct Batch {
    found: Vec<Found>,
    sender: Sender<Result<Vec<Found>, SnapshotError>>,
}

impl Batch {
    fn take(&mut self, project: &Path, entry: Result<DirEntry, ignore::Error>) -> WalkState {
        let found = entry.map_err(SnapshotError::Walk).and_then(|entry| look(project, &entry));
        match found {
            Ok(found) => {
                self.found.extend(found);
                WalkState::Continue
            }
            Err(error) => {
                // Nobody listens any more when another thread has failed first.
                drop(self.sender.send(Err(error)));
                WalkState::Quit
            }
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        drop(self.sender.send(Ok(std::mem::take(&mut self.found))));
    }
}

/// `None` for what is no part of a snapshot, and for what was removed while we looked.
fn look(project: &Path, entry: &DirEntry) -> Result<Option<Found>, SnapshotError> {
    let Some(kind) = entry.file_type().filter(|_| entry.depth() > 0) else { return Ok(None) };
    let path = below(project, entry.path()).to_owned();
    let kind = if kind.is_dir() {
        Kind::Folder
    } else if kind.is_symlink() {
        match fs_err::read_link(entry.path()) {
            Ok(to) => Kind::Link { to },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SnapshotError::Read(error)),
        }
    } else if kind.is_file() {
        match entry.metadata() {
            Ok(data) => Kind::File(Stat::of(&data)),
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(SnapshotError::Walk(error)),
        }
    } else {
        return Ok(None);
    };
    Ok(Some(Found { path, kind }))
}

/// The walk begins each path with the project's as it was given, so there is nothing to compare part by part.
fn below<'a>(project: &Path, path: &'a Path) -> &'a Path {
    let whole = path.as_os_str().as_bytes();
    let rest = whole.strip_prefix(project.as_os_str().as_bytes()).unwrap_or(whole);
    Path::new(OsStr::from_bytes(rest.strip_prefix(b"/").unwrap_or(rest)))
}

fn is_gone(error: &ignore::Error) -> bool {
    error.io_error().is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}
