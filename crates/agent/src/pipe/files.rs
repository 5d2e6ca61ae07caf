//! Files of the depot: written whole, read from an offset, listed without following links, removed.

use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::message::{Listed, ListedKind};
use crate::beneath::{Beneath, Facts, facts_at, names};
use crate::snapshot::{decode, encode};

/// One file in one `write` or `read_many`: settings and states, not data.
const LARGEST: u64 = 256 << 20;

pub(super) fn write(depot: &Beneath, files: &[(String, u64)], body: &mut impl Read) -> io::Result<()> {
    for (path, size) in files {
        if *size > LARGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{path} is too large to be written")));
        }
        let mut bytes = Vec::new();
        body.by_ref().take(*size).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != *size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        depot.replace(&decode(path), &bytes, 0o644)?;
    }
    Ok(())
}

/// `None` when it is not there; empty at and beyond its end.
pub(super) fn read(depot: &Beneath, path: &str, offset: u64, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut file = match depot.read(&decode(path)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    file.seek(io::SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(most.min(LARGEST)).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// One line per entry, folders before what is in them. False when there is no such folder.
pub(super) fn list(depot: &Beneath, folder: &str, out: &mut impl Write) -> io::Result<bool> {
    let top = decode(folder);
    match depot.facts(&top) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
        Ok(facts) if facts.kind != FileType::Directory => {
            // A single file or link may be asked for as well: it is its own only entry, with an empty path.
            if let Some(entry) = listed(depot, &top, Path::new(""), facts)? {
                line(out, &entry)?;
            }
            return Ok(true);
        }
        Ok(_) => {}
    }
    let mut waiting = vec![PathBuf::new()];
    while let Some(relative) = waiting.pop() {
        let open = match depot.open_folder(&top.join(&relative)) {
            // Removed or replaced since it was seen.
            Err(_) if !relative.as_os_str().is_empty() => continue,
            open => open?,
        };
        let mut entries = names(&open)?;
        entries.sort();
        for name in entries {
            let Ok(facts) = facts_at(&open, &name) else { continue };
            let path = relative.join(&name);
            if let Some(entry) = listed(depot, &top, &path, facts)? {
                line(out, &entry)?;
            }
            if facts.kind == FileType::Directory {
                waiting.push(path);
            }
        }
    }
    Ok(true)
}

fn listed(depot: &Beneath, top: &Path, relative: &Path, facts: Facts) -> io::Result<Option<Listed>> {
    let kind = match facts.kind {
        FileType::RegularFile => ListedKind::File,
        FileType::Directory => ListedKind::Folder,
        FileType::Symlink => match depot.read_link(&top.join(relative)) {
            Ok(to) => ListedKind::Link { to: encode(&to) },
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        },
        _ => return Ok(None),
    };
    let Facts { size, mode, modified, .. } = facts;
    Ok(Some(Listed { path: encode(relative), kind, size, mode, modified }))
}

fn line(out: &mut impl Write, entry: &Listed) -> io::Result<()> {
    serde_json::to_writer(&mut *out, entry)?;
    out.write_all(b"\n")
}

/// Bytes free for us, and in all.
pub(super) fn space(depot: &Beneath) -> io::Result<(u64, u64)> {
    let facts = rustix::fs::fstatvfs(depot.folder())?;
    Ok((facts.f_bavail.saturating_mul(facts.f_frsize), facts.f_blocks.saturating_mul(facts.f_frsize)))
}
