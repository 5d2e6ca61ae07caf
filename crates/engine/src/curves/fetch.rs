//! Metrics at a site, brought here piece by piece: what was fetched once is kept, and of a file that grew only the new
//! bytes are asked for.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use trainyard_tfevents::{Reader, State};

use super::Places;
use crate::ledger::RunRow;
use crate::pipe::{Pipe, PipeError};

/// In one answer.
const PIECE: u64 = 4 << 20;

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    Pipe(#[from] PipeError),
    #[error("cannot keep what was fetched in {}", path.display())]
    Keep { path: PathBuf, source: io::Error },
}

/// Brings what is new of a run's metrics below `cache`. A cut leaves what came; the next call goes on from there.
pub fn fetch(pipe: &mut Pipe, row: &RunRow, cache: &Path) -> Result<Places, FetchError> {
    let folder = cache.join(row.id.to_string());
    let keep = |source| FetchError::Keep { path: folder.clone(), source };
    fs_err::create_dir_all(&folder).map_err(keep)?;
    let mut files = Vec::new();
    for attempt in 1..=row.attempt {
        let there = format!("runs/{}/attempts/{attempt}/metrics.tfevents", row.id);
        let path = folder.join(format!("{attempt}.tfevents"));
        let is_over = row.ended.is_some() || attempt < row.attempt;
        let whole = path.with_extension("whole");
        if !whole.exists() {
            bring(pipe, &there, &path)?;
            if is_over {
                fs_err::write(&whole, []).map_err(keep)?;
            }
        }
        files.push(path);
    }
    Ok(Places { run: row.id, files })
}

fn bring(pipe: &mut Pipe, there: &str, path: &Path) -> Result<(), FetchError> {
    append(pipe, there, path)?;
    // A site whose disk was full may have shown us half a record that it wrote over later.
    if !is_sound(path) {
        fs_err::remove_file(path).map_err(|source| FetchError::Keep { path: path.to_owned(), source })?;
        append(pipe, there, path)?;
    }
    Ok(())
}

fn append(pipe: &mut Pipe, there: &str, path: &Path) -> Result<(), FetchError> {
    let keep = |source| FetchError::Keep { path: path.to_owned(), source };
    let mut have = std::fs::metadata(path).map_or(0, |data| data.len());
    let mut file = None;
    loop {
        let piece = pipe.read(there, have, PIECE)?;
        if piece.is_empty() {
            return Ok(());
        }
        let file = match &mut file {
            Some(file) => file,
            None => {
                let opened = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(path);
                file.insert(opened.map_err(keep)?)
            }
        };
        // At its place: another command that fetches the same writes the same there.
        file.write_all_at(&piece, have).map_err(keep)?;
        have += piece.len() as u64;
    }
}

fn is_sound(path: &Path) -> bool {
    let mut reader = Reader::new(path);
    match reader.poll(|_| {}) {
        Ok(polled) => !matches!(polled.state, State::Damaged { .. }) && reader.lost().first_at.is_none(),
        Err(error) => error.source.kind() == io::ErrorKind::NotFound,
    }
}
