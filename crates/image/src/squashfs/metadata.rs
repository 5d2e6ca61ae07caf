//! Tables in metadata blocks: 8 KiB of a table each, compressed, behind two bytes that tell their length.

use crate::squashfs::METADATA;
use crate::squashfs::codec::Compressor;

/// In a block's length: it is stored as it is.
const AS_IT_IS: u16 = 1 << 15;

/// Where something is in a table: the block's place in the compressed table, and the offset in what the block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reference {
    pub(crate) block: u32,
    pub(crate) offset: u16,
}

impl Reference {
    /// As inode tables and the superblock have it.
    pub(crate) fn number(self) -> u64 {
        u64::from(self.block) << 16 | u64::from(self.offset)
    }
}

/// A table as it grows.
pub(crate) struct Metadata<'a> {
    compressor: &'a mut Compressor,
    /// Compressed blocks, and where each begins.
    pub(crate) bytes: Vec<u8>,
    pub(crate) starts: Vec<u64>,
    open: Vec<u8>,
}

impl<'a> Metadata<'a> {
    pub(crate) fn new(compressor: &'a mut Compressor) -> Self {
        Self { compressor, bytes: Vec::new(), starts: Vec::new(), open: Vec::with_capacity(METADATA) }
    }

    /// Where the next byte will be.
    pub(crate) fn reference(&self) -> Reference {
        let block = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        Reference { block, offset: u16::try_from(self.open.len()).unwrap_or_default() }
    }

    pub(crate) fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(METADATA - self.open.len()));
            self.open.extend(now);
            bytes = later;
            if self.open.len() == METADATA {
                self.close();
            }
        }
    }

    fn close(&mut self) {
        if self.open.is_empty() {
            return;
        }
        self.starts.push(self.bytes.len() as u64);
        let (stored, flag) = match self.compressor.compress(&self.open) {
            Some(packed) => (packed, 0),
            None => (self.open.as_slice(), AS_IT_IS),
        };
        let length = u16::try_from(stored.len()).unwrap_or_default() | flag;
        self.bytes.extend(length.to_le_bytes());
        self.bytes.extend(stored);
        self.open.clear();
    }

    /// The compressed table, and where its blocks begin in it.
    pub(crate) fn finish(mut self) -> (Vec<u8>, Vec<u64>) {
        self.close();
        (self.bytes, self.starts)
    }
}
