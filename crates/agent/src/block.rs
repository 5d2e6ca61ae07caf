//! Blocks of a transfer: records packed together, compressed when that helps. Each is complete in itself, so that
//! both ends can use all their cores.
//!
//! On the wire: lane, form, length unpacked, bytes. Blocks of one lane are unpacked in order, for files that do not
//! fit into one block.

use std::io;

/// Unpacked. Large enough to compress well, small enough for many at once.
pub const BLOCK: usize = 512 << 10;
/// What a record adds to its bytes.
pub const RECORD: usize = 32 + 8 + 8 + 4;

const HEADER: usize = 6;
const RAW: u8 = 0;
const ZSTD: u8 = 1;

/// A piece of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    pub digest: [u8; 32],
    /// Bytes of the whole blob.
    pub total: u64,
    pub offset: u64,
    pub bytes: &'a [u8],
}

impl Record<'_> {
    pub fn append(&self, block: &mut Vec<u8>) {
        block.extend_from_slice(&self.digest);
        block.extend_from_slice(&self.total.to_le_bytes());
        block.extend_from_slice(&self.offset.to_le_bytes());
        block.extend_from_slice(&u32::try_from(self.bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
        block.extend_from_slice(self.bytes);
    }
}

/// The records of an unpacked block.
pub fn records(block: &[u8]) -> impl Iterator<Item = io::Result<Record<'_>>> {
    let mut rest = block;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let record = first(rest);
        rest = match &record {
            Some((_, after)) => after,
            None => &[],
        };
        Some(record.map(|(record, _)| record).ok_or_else(damaged))
    })
}

fn first(block: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let (digest, rest) = block.split_first_chunk::<32>()?;
    let (total, rest) = rest.split_first_chunk::<8>()?;
    let (offset, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (bytes, rest) = rest.split_at_checked(length)?;
    let (total, offset) = (u64::from_le_bytes(*total), u64::from_le_bytes(*offset));
    Some((Record { digest: *digest, total, offset, bytes }, rest))
}

/// Whether it is worth the time: bytes that are all equally frequent are compressed or encrypted already.
pub fn looks_compressible(bytes: &[u8]) -> bool {
    const SAMPLE: usize = 1024;
    let middle = bytes.len().saturating_sub(SAMPLE) / 2;
    let sample = bytes.get(middle..).unwrap_or_default();
    let sample = sample.get(..SAMPLE).unwrap_or(sample);
    if sample.len() < 512 {
        return true;
    }
    let mut counts = [0_u32; 256];
    for byte in sample {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    // For noise this is about the length squared over 256, plus the length; text has several times as much.
    let squares: u64 = counts.iter().map(|count| u64::from(*count).pow(2)).sum();
    let length = sample.len() as u64;
    squares > (length * length / 256 + length) * 5 / 4
}

/// Packs blocks; keeps its memory from one to the next.
pub struct Packer {
    compressor: zstd::bulk::Compressor<'static>,
    small: Vec<u8>,
}

impl Packer {
    pub fn new() -> io::Result<Self> {
        Ok(Self { compressor: zstd::bulk::Compressor::new(1)?, small: Vec::new() })
    }

    pub fn pack(&mut self, lane: u8, block: &[u8], worth: Worth) -> io::Result<Vec<u8>> {
        let is_small = worth == Worth::Compressing && self.compress(block);
        let (form, bytes) = if is_small { (ZSTD, self.small.as_slice()) } else { (RAW, block) };
        let mut packed = Vec::with_capacity(HEADER + bytes.len());
        packed.extend_from_slice(&[lane, form]);
        packed.extend_from_slice(&u32::try_from(block.len()).unwrap_or(u32::MAX).to_le_bytes());
        packed.extend_from_slice(bytes);
        Ok(packed)
    }

    /// Whether it got smaller; where it does not even fit, it did not.
    fn compress(&mut self, block: &[u8]) -> bool {
        self.small.clear();
        self.small.reserve(block.len());
        let size = self.compressor.compress_to_buffer(block, &mut self.small);
        size.is_ok_and(|size| size < block.len() - block.len() / 16)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worth {
    Compressing,
    SendingAsIs,
}

pub fn lane(packed: &[u8]) -> u8 {
    packed.first().copied().unwrap_or(0)
}

/// Unpacks blocks, with at most [`BLOCK`] bytes each whatever they claim; keeps its memory from one to the next.
pub struct Unpacker {
    decompressor: zstd::bulk::Decompressor<'static>,
    block: Vec<u8>,
}

impl Unpacker {
    pub fn new() -> io::Result<Self> {
        Ok(Self { decompressor: zstd::bulk::Decompressor::new()?, block: Vec::new() })
    }

    pub fn unpack<'a>(&'a mut self, packed: &'a [u8]) -> io::Result<&'a [u8]> {
        let (&[_, form, a, b, c, d], bytes) = packed.split_first_chunk::<HEADER>().ok_or_else(damaged)?;
        let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        if length > BLOCK + RECORD {
            return Err(damaged());
        }
        let block = match form {
            RAW => bytes,
            ZSTD => {
                self.block.clear();
                self.block.reserve_exact(length);
                self.decompressor.decompress_to_buffer(bytes, &mut self.block).map_err(|_| damaged())?;
                self.block.as_slice()
            }
            _ => return Err(damaged()),
        };
        if block.len() == length { Ok(block) } else { Err(damaged()) }
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a block arrived damaged")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use proptest::prelude::*;

    fn noise(length: usize) -> Vec<u8> {
        let mut out = vec![0; length];
        blake3::Hasher::new().finalize_xof().fill(&mut out);
        out
    }

    #[test]
    fn noise_is_told_from_text() {
        let text = include_bytes!("block.rs");
        assert!(looks_compressible(text) && looks_compressible(b"short") && looks_compressible(&[0; 9000]));
        for length in [600, 4096, 100_000] {
            assert!(!looks_compressible(&noise(length)), "{length}");
        }
    }

    proptest! {
        #[test]
        fn blocks_come_back(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20)) {
            let mut block = Vec::new();
            for part in &parts {
                Record { digest: [7; 32], total: 9, offset: 3, bytes: part }.append(&mut block);
            }
            for worth in [Worth::Compressing, Worth::SendingAsIs] {
                let packed = Packer::new().unwrap().pack(5, &block, worth).unwrap();
                prop_assert_eq!(lane(&packed), 5);
                let mut unpacker = Unpacker::new().unwrap();
                let found: Vec<Vec<u8>> = records(unpacker.unpack(&packed).unwrap()).map(|record| record.unwrap().bytes.to_vec()).collect();
                prop_assert_eq!(&found, &parts);
            }
        }

        #[test]
        fn hostile_blocks_are_errors(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut unpacker = Unpacker::new().unwrap();
            if let Ok(block) = unpacker.unpack(&bytes) {
                prop_assert!(block.len() <= BLOCK + RECORD);
                prop_assert!(records(block).count() < 1000);
            }
        }
    }
}
