//! A finished image in pieces that stay the same from one version to the next, for those who send only what is new.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{Reading, Result};
use crate::reuse::Index;

/// What lies between two blocks (head and tables) is cut to this, at the most.
const MOST: u64 = 64 << 10;

/// A stretch of an image. All of them together are the image, in order, without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Chunk {
    /// BLAKE3 of the bytes.
    pub hash: [u8; 32],
    pub offset: u64,
    pub length: u32,
}

/// The chunks of an image, from the index beside it; what the index does not cover is read.
pub fn chunks(image: &Path) -> Result<Vec<Chunk>> {
    let index = Index::read(image)?;
    File::open(image).and_then(|file| of(&file, &index)).reading(|| image.display().to_string())
}

pub(crate) fn of(file: &File, index: &Index) -> io::Result<Vec<Chunk>> {
    let length = file.metadata()?.len();
    let mut chunks = Vec::with_capacity(index.stretches.len() + 64);
    let mut at = 0;
    for stretch in &index.stretches {
        between(file, at, stretch.offset, &mut chunks)?;
        chunks.push(Chunk { hash: stretch.stored, offset: stretch.offset, length: stretch.length });
        at = stretch.offset + u64::from(stretch.length);
    }
    between(file, at, length, &mut chunks)?;
    Ok(chunks)
}

fn between(file: &File, start: u64, end: u64, chunks: &mut Vec<Chunk>) -> io::Result<()> {
    let mut at = start;
    while at < end {
        let length = (end - at).min(MOST);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        file.read_exact_at(&mut bytes, at)?;
        let hash = *blake3::hash(&bytes).as_bytes();
        chunks.push(Chunk { hash, offset: at, length: u32::try_from(length).unwrap_or_default() });
        at += length;
    }
    Ok(())
}

/// The name of an image by its contents: BLAKE3 of its chunks' lengths and hashes.
pub fn digest(chunks: &[Chunk]) -> String {
    let mut hasher = blake3::Hasher::new();
    for chunk in chunks {
        hasher.update(&chunk.length.to_le_bytes());
        hasher.update(&chunk.hash);
    }
    hasher.finalize().to_hex().to_string()
}
