//! What a run's program would see of its outputs, for whoever brings them home: marks of removed files are not told.

use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use trainyard_core::id::RunId;

use super::message::{Listed, ListedKind, Output};
use crate::depot::Depot;
use crate::snapshot::{decode, encode};
use crate::view::View;

/// One line per entry, folders before what is in them.
pub(super) fn list(
    depot: &Depot,
    run: RunId,
    paths: &[String],
    out: &mut impl Write,
    missing: &mut Vec<String>,
) -> io::Result<()> {
    let view = View::of(depot, run);
    for given in paths {
        let path = decode(given.trim_end_matches('/'));
        match view.find(&path) {
            Some(lies) => tell(&view, path, lies, out)?,
            None => missing.push(given.clone()),
        }
    }
    Ok(())
}

fn tell(view: &View, path: PathBuf, lies: PathBuf, out: &mut impl Write) -> io::Result<()> {
    let mut waiting = vec![(path, lies)];
    while let Some((path, lies)) = waiting.pop() {
        // A program at work may have removed it since.
        let Some(listed) = listed(&path, &lies) else { continue };
        let is_folder = listed.kind == ListedKind::Folder;
        serde_json::to_writer(&mut *out, &Output { listed, lies: encode(&lies) })?;
        out.write_all(b"\n")?;
        if is_folder {
            let inside = view.list(&path)?;
            waiting.extend(inside.into_iter().rev().map(|seen| (path.join(seen.name), seen.path)));
        }
    }
    Ok(())
}

/// `None` for what is no file, folder or link.
fn listed(path: &Path, lies: &Path) -> Option<Listed> {
    let data = std::fs::symlink_metadata(lies).ok()?;
    let kind = if data.is_dir() {
        ListedKind::Folder
    } else if data.is_symlink() {
        ListedKind::Link { to: encode(&std::fs::read_link(lies).ok()?) }
    } else if data.is_file() {
        ListedKind::File
    } else {
        return None;
    };
    let modified = data.mtime().saturating_mul(1_000_000_000).saturating_add(data.mtime_nsec());
    Some(Listed { path: encode(path), kind, size: data.len(), mode: data.mode() & 0o7777, modified })
}
