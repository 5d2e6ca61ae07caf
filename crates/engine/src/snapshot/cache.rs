//! What the files of a project hashed to last time: one file per project, replaced as a whole. A damaged one is as
//! good as none.
//!
//! Layout: magic, length and bytes of the project's path, then per file: path length (u32), path, size, inode, device,
//! mtime, ctime (u64 each) and the hash; BLAKE3 of all that at the end. Numbers are little-endian. Sorted by path.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use trainyard_agent::disk::{Durability, replace};

use super::walk::Stat;

const MAGIC: &[u8; 8] = b"yardidx1";

/// A file as it was when it was hashed.
#[derive(Debug)]
pub(super) struct Known<'a> {
    pub(super) path: &'a [u8],
    /// Size, inode, device, mtime, ctime.
    numbers: [u64; 5],
    pub(super) hash: blake3::Hash,
}

impl Known<'_> {
    pub(super) fn is_about(&self, stat: &Stat) -> bool {
        self.numbers == numbers(stat)
    }
}

fn numbers(stat: &Stat) -> [u64; 5] {
    [stat.size, stat.inode, stat.device, stat.modified.cast_unsigned(), stat.changed.cast_unsigned()]
}

/// Sorted by path; empty when `bytes` are no cache, or one that is damaged or of another project.
pub(super) fn read<'a>(bytes: &'a [u8], project: &Path) -> Vec<Known<'a>> {
    parse(bytes, project).unwrap_or_default()
}

fn parse<'a>(bytes: &'a [u8], project: &Path) -> Option<Vec<Known<'a>>> {
    let (body, sum) = bytes.split_last_chunk::<{ blake3::OUT_LEN }>()?;
    if blake3::hash(body) != *sum {
        return None;
    }
    let mut rest = body.strip_prefix(MAGIC)?;
    if text(&mut rest)? != project.as_os_str().as_bytes() {
        return None;
    }
    let mut known = Vec::new();
    while !rest.is_empty() {
        let path = text(&mut rest)?;
        let mut numbers = [0; 5];
        for number in &mut numbers {
            let (bytes, after) = rest.split_first_chunk()?;
            *number = u64::from_le_bytes(*bytes);
            rest = after;
        }
        let (hash, after) = rest.split_first_chunk::<{ blake3::OUT_LEN }>()?;
        rest = after;
        known.push(Known { path, numbers, hash: blake3::Hash::from_bytes(*hash) });
    }
    Some(known)
}

fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk()?;
    let (text, after) = after.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    *rest = after;
    Some(text)
}

pub(super) fn save<'a>(
    at: &Path,
    project: &Path,
    entries: impl Iterator<Item = (&'a Path, Stat, blake3::Hash)>,
) -> io::Result<()> {
    let mut bytes = MAGIC.to_vec();
    put_text(&mut bytes, project)?;
    for (path, stat, hash) in entries {
        put_text(&mut bytes, path)?;
        for number in numbers(&stat) {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(hash.as_bytes());
    }
    let sum = blake3::hash(&bytes);
    bytes.extend(sum.as_bytes());
    if let Some(folder) = at.parent() {
        fs_err::create_dir_all(folder)?;
    }
    replace(at, &bytes, Durability::Cached)
}

fn put_text(bytes: &mut Vec<u8>, path: &Path) -> io::Result<()> {
    let text = path.as_os_str().as_bytes();
    bytes.extend(u32::try_from(text.len()).map_err(io::Error::other)?.to_le_bytes());
    bytes.extend(text);
    Ok(())
}
