//! A run that begins where another one is: the newest checkpoint of that run is copied into its working folder, under
//! the same name. Both live in the same depot.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use trainyard_core::id::RunId;

use crate::checkpoint::{Doubt, Finder, PatternError};
use crate::depot::{Depot, RunFolder};
use crate::disk::read_json;
use crate::order::{AttemptResult, Order};
use crate::view::View;
use crate::work;

/// A program that is training may remove an old checkpoint while it is being copied.
const TRIES: usize = 5;
/// How long a checkpoint that is just being written is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
pub(crate) enum HeirError {
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error("cannot copy the checkpoint of run {of}: {source}")]
    Copy { of: RunId, source: io::Error },
}

/// The checkpoint this attempt begins with, relative to the working folder, if it is the one that inherits.
pub(crate) fn inherit(order: &Order, into: &View) -> Result<Option<String>, HeirError> {
    let Some((of, pattern)) = order.from.zip(order.job.resume.checkpoint.as_ref()) else { return Ok(None) };
    if work::has_run(order) {
        return Ok(None);
    }
    let finder = Finder::new(View::of(&order.depot, of), pattern)?;
    let mut last = None;
    for _ in 0..TRIES {
        let Some(name) = await_newest(&order.depot, of, &finder) else { return Ok(None) };
        match copy(&View::of(&order.depot, of), Path::new(&name), into.folder()) {
            Ok(()) => return Ok(Some(name)),
            Err(error) => last = Some(error),
        }
        discard(&into.folder().join(&name));
    }
    let source = last.unwrap_or_else(|| io::Error::from(io::ErrorKind::NotFound));
    Err(HeirError::Copy { of, source })
}

/// Half a checkpoint is none.
fn discard(copied: &Path) {
    // What cannot be removed is told by the error that led here.
    let _ = if copied.is_dir() { fs_err::remove_dir_all(copied) } else { fs_err::remove_file(copied) };
}

/// Files that were written a moment ago may still be written to; a little later they are not.
fn await_newest(depot: &Depot, of: RunId, finder: &Finder) -> Option<String> {
    let until = Instant::now() + PATIENCE;
    loop {
        let found = newest(depot, of, finder);
        let is_coming = found.is_none() && finder.newest(&Doubt::default()).is_some();
        if !is_coming || Instant::now() >= until {
            return found;
        }
        std::thread::sleep(PAUSE);
    }
}

/// What its last attempt ended with; while it still runs, what has not been touched for a moment.
fn newest(depot: &Depot, of: RunId, finder: &Finder) -> Option<String> {
    let ended = last_result(&depot.run(of)).and_then(|result| result.checkpoint);
    ended.or_else(|| finder.newest_of_the_dead(Some(SystemTime::now())))
}

fn last_result(folder: &RunFolder) -> Option<AttemptResult> {
    let last = (1..).take_while(|number| folder.attempt(*number).path().is_dir()).last()?;
    read_json(&folder.attempt(last).result())
}

fn copy(from: &View, name: &Path, into: &Path) -> io::Result<()> {
    let gone = || io::Error::new(io::ErrorKind::NotFound, format!("{} is gone", name.display()));
    let source = from.follow(name).ok_or_else(gone)?;
    let target = into.join(name);
    if !source.is_dir() {
        if let Some(parent) = target.parent() {
            fs_err::create_dir_all(parent)?;
        }
        if !source.is_file() {
            let why = format!("{} is neither a file nor a folder", name.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        return fs_err::copy(source, target).map(drop);
    }
    fs_err::create_dir_all(&target)?;
    from.list(name)?.into_iter().try_for_each(|seen| copy(from, &name.join(seen.name), into))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_folder_is_copied_with_all_it_holds() {
        let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs_err::create_dir_all(from.path().join("ckpt/a")).unwrap();
        fs_err::write(from.path().join("ckpt/a/weights"), "w").unwrap();
        fs_err::write(from.path().join("ckpt/meta"), "m").unwrap();
        copy(&View::plain(from.path().to_owned()), Path::new("ckpt"), into.path()).unwrap();
        assert_eq!(fs_err::read_to_string(into.path().join("ckpt/a/weights")).unwrap(), "w");
        assert_eq!(fs_err::read_to_string(into.path().join("ckpt/meta")).unwrap(), "m");
    }
}
