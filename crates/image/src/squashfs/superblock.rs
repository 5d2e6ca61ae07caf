//! The first 96 bytes.

use crate::squashfs::{BLOCK, BLOCK_LOG, Codec, SUPERBLOCK};

const MAGIC: u32 = 0x7371_7368;
const DUPLICATES_REMOVED: u16 = 0x40;
const EXPORTABLE: u16 = 0x80;
const NO_XATTRS: u16 = 0x200;
/// Inodes, contents, fragments and ids.
const NOTHING_COMPRESSED: u16 = 0x1 | 0x2 | 0x8 | 0x800;
/// In the place of a table's beginning where there is no table.
const NO_TABLE: u64 = u64::MAX;

/// Where everything is, from the beginning of the squashfs.
pub(crate) struct Superblock {
    pub(crate) codec: Codec,
    pub(crate) inodes: u32,
    pub(crate) fragments: u32,
    pub(crate) ids: u16,
    /// A reference into the inode table.
    pub(crate) root: u64,
    pub(crate) end: u64,
    pub(crate) id_table: u64,
    pub(crate) xattr_table: Option<u64>,
    pub(crate) inode_table: u64,
    pub(crate) directory_table: u64,
    pub(crate) fragment_table: u64,
    pub(crate) export_table: u64,
}

impl Superblock {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut flags = DUPLICATES_REMOVED | EXPORTABLE;
        if self.xattr_table.is_none() {
            flags |= NO_XATTRS;
        }
        if self.codec == Codec::None {
            flags |= NOTHING_COMPRESSED;
        }
        // The time is 1970: the same image is the same file whenever it is made.
        let made = 0u32;
        let block = u32::try_from(BLOCK).unwrap_or_default();
        let mut bytes = Vec::with_capacity(96);
        [MAGIC, self.inodes, made, block, self.fragments].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        let halves = [self.codec.number(), BLOCK_LOG, flags, self.ids, 4, 0];
        halves.iter().for_each(|half: &u16| bytes.extend(half.to_le_bytes()));
        let xattrs = self.xattr_table.unwrap_or(NO_TABLE);
        let tables = [
            self.root,
            self.end,
            self.id_table,
            xattrs,
            self.inode_table,
            self.directory_table,
            self.fragment_table,
            self.export_table,
        ];
        tables.iter().for_each(|place| bytes.extend(place.to_le_bytes()));
        debug_assert_eq!(bytes.len() as u64, SUPERBLOCK);
        bytes
    }
}
