//! The newest complete checkpoint in a working folder.
//!
//! A file counts as incomplete while a process of the run has it open for writing, and when the program was killed
//! within [`SETTLE`] of the last write. A checkpoint lost that way costs a little work; a torn one costs the run.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use globset::{GlobBuilder, GlobMatcher};

use crate::view::View;

const SETTLE: Duration = Duration::from_secs(1);

/// Finds checkpoints of one job.
#[derive(Debug, Clone)]
pub struct Finder {
    view: View,
    matcher: GlobMatcher,
    /// The folder that every match lies in.
    base: PathBuf,
}

/// Which matches are to be trusted.
#[derive(Debug, Clone, Default)]
pub struct Doubt {
    /// Open for writing when the program was killed, or now.
    pub torn: Vec<PathBuf>,
    /// The program was cut off at this moment: what it wrote just before may be half a file.
    pub cut_off: Option<SystemTime>,
}

#[derive(Debug, thiserror::Error)]
#[error("`resume.checkpoint`: {0}")]
pub struct PatternError(#[from] globset::Error);

impl Finder {
    pub fn new(view: View, pattern: &str) -> Result<Self, PatternError> {
        let matcher = GlobBuilder::new(pattern).literal_separator(true).build()?.compile_matcher();
        let literal = |part: &&str| !part.contains(['*', '?', '[', '{']);
        let folder = pattern.rsplit_once('/').map_or("", |(folder, _)| folder);
        let base: PathBuf = folder.split('/').take_while(literal).collect();
        Ok(Self { view, matcher, base })
    }

    /// The path relative to the working folder, or `None` if no match can be trusted.
    pub fn newest(&self, doubt: &Doubt) -> Option<String> {
        let mut matches = Vec::new();
        self.walk(&self.base, &mut matches);
        matches.retain(|found| found.size > 0 && !doubt.covers(found));
        matches.into_iter().max_by(Found::compare).map(|found| found.name)
    }

    /// The same for a program that was killed at some moment after its last sign of life. What it wrote last may be half
    /// a file; what it wrote before that is whole.
    pub fn newest_of_the_dead(&self, last_sign: Option<SystemTime>) -> Option<String> {
        let mut matches = Vec::new();
        self.walk(&self.base, &mut matches);
        let cut_off = matches.iter().map(|found| found.modified).chain(last_sign).max();
        self.newest(&Doubt { cut_off, ..Doubt::default() })
    }

    /// Whether this match was written at or after `since`.
    pub fn is_newer(&self, name: &str, since: SystemTime) -> bool {
        let found = self.view.follow(Path::new(name)).and_then(|path| self.look(name, path));
        found.is_some_and(|found| found.modified >= since)
    }

    /// Does not follow links out of the folder.
    fn walk(&self, folder: &Path, matches: &mut Vec<Found>) {
        // What cannot be read holds no checkpoint that could be handed on.
        for seen in self.view.list(folder).unwrap_or_default() {
            let relative = folder.join(&seen.name);
            if seen.path.symlink_metadata().is_ok_and(|data| data.is_dir()) {
                self.walk(&relative, matches);
            }
            if let Some(name) = relative.to_str().filter(|name| self.matcher.is_match(name)) {
                matches.extend(self.view.follow(&relative).and_then(|path| self.look(name, path)));
            }
        }
    }

    /// A checkpoint may be a folder of files; then the newest file inside dates it.
    fn look(&self, name: &str, path: PathBuf) -> Option<Found> {
        let data = std::fs::metadata(&path).ok()?;
        let inside = if data.is_dir() { self.newest_inside(Path::new(name)) } else { None };
        let modified = inside.or_else(|| data.modified().ok())?;
        Some(Found { name: name.to_owned(), path, modified, size: data.len() })
    }

    fn newest_inside(&self, folder: &Path) -> Option<SystemTime> {
        let files = self.view.list(folder).unwrap_or_default();
        files.iter().filter_map(|seen| seen.path.symlink_metadata().ok()?.modified().ok()).max()
    }
}

impl Doubt {
    /// Whether a file that may be part of a checkpoint may be half written.
    pub(crate) fn covers_file(&self, path: &Path) -> bool {
        let unsettled = |end: SystemTime| {
            let modified = std::fs::symlink_metadata(path).and_then(|data| data.modified());
            !modified.is_ok_and(|at| end.duration_since(at).is_ok_and(|age| age >= SETTLE))
        };
        self.torn.iter().any(|torn| torn == path) || self.cut_off.is_some_and(unsettled)
    }

    fn covers(&self, found: &Found) -> bool {
        let settled = |end: SystemTime| end.duration_since(found.modified).is_ok_and(|age| age >= SETTLE);
        self.torn.contains(&found.path) || self.cut_off.is_some_and(|end| !settled(end))
    }
}

#[derive(Debug)]
struct Found {
    name: String,
    path: PathBuf,
    modified: SystemTime,
    size: u64,
}

impl Found {
    fn compare(&self, other: &Self) -> Ordering {
        self.modified.cmp(&other.modified).then_with(|| natural(&self.name).cmp(&natural(&other.name)))
    }
}

/// `model_900` before `model_1000`: runs of digits compare by length first.
fn natural(name: &str) -> Vec<(usize, String)> {
    let mut parts: Vec<(usize, String)> = Vec::new();
    let mut in_digits = false;
    for letter in name.chars() {
        if parts.is_empty() || letter.is_ascii_digit() != in_digits {
            in_digits = letter.is_ascii_digit();
            parts.push((0, String::new()));
        }
        if let Some((length, text)) = parts.last_mut() {
            text.push(letter);
            *length = if in_digits { text.len() } else { 0 };
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn touch(folder: &Path, name: &str, age: u64) {
        let path = folder.join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, "x").unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age)).unwrap();
    }

    fn newest(folder: &Path, pattern: &str, doubt: &Doubt) -> Option<String> {
        Finder::new(View::plain(folder.to_owned()), pattern).unwrap().newest(doubt)
    }

    #[test]
    fn takes_the_newest_match_at_any_depth() {
        let work = tempfile::tempdir().unwrap();
        touch(work.path(), "logs/a/model_1.pt", 30);
        touch(work.path(), "logs/b/c/model_2.pt", 10);
        touch(work.path(), "logs/b/other.pt", 1);
        let found = newest(work.path(), "logs/**/model_*.pt", &Doubt::default());
        assert_eq!(found.as_deref(), Some("logs/b/c/model_2.pt"));
    }

    #[test]
    fn same_second_compares_numbers_as_numbers() {
        let work = tempfile::tempdir().unwrap();
        touch(work.path(), "model_900.pt", 5);
        touch(work.path(), "model_1000.pt", 5);
        assert_eq!(newest(work.path(), "model_*.pt", &Doubt::default()).as_deref(), Some("model_1000.pt"));
    }

    #[test]
    fn a_torn_or_unsettled_file_is_passed_over() {
        let work = tempfile::tempdir().unwrap();
        touch(work.path(), "m1", 60);
        touch(work.path(), "m2", 30);
        touch(work.path(), "m3", 0);
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let doubt = Doubt { torn: vec![work.path().join("m2")], cut_off: Some(end) };
        assert_eq!(newest(work.path(), "m*", &doubt).as_deref(), Some("m1"));
    }

    #[test]
    fn an_empty_file_is_no_checkpoint() {
        let work = tempfile::tempdir().unwrap();
        fs_err::write(work.path().join("m1"), "").unwrap();
        assert_eq!(newest(work.path(), "m*", &Doubt::default()), None);
    }
}
