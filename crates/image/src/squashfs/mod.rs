//! Writes squashfs 4.0.
//!
//! A squashfs file is, in this order: a *superblock* that says where everything else is; the contents of files in *blocks* of
//! 128 KiB, each compressed by itself, the files smaller than a block packed together in *fragments*; and six tables, in metadata
//! blocks of 8 KiB that are compressed too: the *inodes* (what a file is), the *directories* (what it is called), the
//! fragments, the inodes by number (for NFS), the *ids* of owners, and extended attributes.
//!
//! [`Contents`] takes the contents, file after file, and compresses them on all cores. [`write_tables`] writes the rest for a tree.
//! There is no clock and no chance in it: the same files in the same order give the same bytes, however many threads there are.

mod codec;
mod contents;
mod directory;
mod growing;
mod inode;
mod metadata;
mod pool;
mod superblock;
mod tables;
mod writer;
mod xattr;

pub use codec::Codec;
pub(crate) use contents::{ContentId, Contents};
pub(crate) use tables::write_tables;
pub(crate) use writer::Written;

pub(crate) const BLOCK: usize = 128 << 10;
pub(crate) const BLOCK_LOG: u16 = 17;
/// What a metadata block holds before it is compressed.
pub(crate) const METADATA: usize = 8192;
/// The superblock's length; contents begin after it.
pub(crate) const SUPERBLOCK: u64 = 96;
/// In the place of a number where there is none.
pub(crate) const NONE: u32 = u32::MAX;
