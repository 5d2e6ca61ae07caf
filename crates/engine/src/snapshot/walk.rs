//! Which files belong to a project: all but what `.gitignore`, `.yardignore` and `project.exclude` leave out.

use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::SnapshotError;

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
    File { mode: u32, size: u64 },
    Link { to: PathBuf },
}

impl Found {
    pub(super) fn size(&self) -> u64 {
        match self.kind {
            Kind::File { size, .. } => size,
            Kind::Folder | Kind::Link { .. } => 0,
        }
    }
}

/// Sorted by path. Links are kept as links, empty folders and hidden files are included, sockets and pipes are not.
pub(super) fn walk(project: &Path, exclude: &[String]) -> Result<Vec<Found>, SnapshotError> {
    let excluded = patterns(project, exclude)?;
    let mut builder = WalkBuilder::new(project);
    builder.hidden(false).require_git(false).git_global(false).add_custom_ignore_filename(".yardignore");
    builder.filter_entry(move |entry| {
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        entry.depth() == 0 || !excluded.matched(entry.path(), is_folder).is_ignore()
    });
    let mut found = Vec::new();
    for entry in builder.build() {
        let entry = entry.map_err(SnapshotError::Walk)?;
        if entry.depth() > 0 {
            found.extend(look(project, &entry)?);
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn patterns(project: &Path, exclude: &[String]) -> Result<Gitignore, SnapshotError> {
    let mut builder = GitignoreBuilder::new(project);
    let always = [".git".to_owned(), format!("/{RESULTS_FOLDER}/")];
    for line in exclude.iter().chain(&always) {
        builder.add_line(None, line).map_err(SnapshotError::Pattern)?;
    }
    builder.build().map_err(SnapshotError::Pattern)
}

fn look(project: &Path, entry: &ignore::DirEntry) -> Result<Option<Found>, SnapshotError> {
    use std::os::unix::fs::MetadataExt;
    let path = entry.path().strip_prefix(project).unwrap_or(entry.path()).to_owned();
    let Some(kind) = entry.file_type() else { return Ok(None) };
    let kind = if kind.is_dir() {
        Kind::Folder
    } else if kind.is_symlink() {
        Kind::Link { to: fs_err::read_link(entry.path()).map_err(SnapshotError::Read)? }
    } else if kind.is_file() {
        let data = entry.metadata().map_err(SnapshotError::Walk)?;
        Kind::File { mode: data.mode() & 0o777, size: data.len() }
    } else {
        return Ok(None);
    };
    Ok(Some(Found { path, kind }))
}
