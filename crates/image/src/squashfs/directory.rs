//! A folder's listing: names with the places of their inodes.

use crate::squashfs::METADATA;
use crate::squashfs::metadata::{Metadata, Reference};

/// A name, and the inode behind it.
pub(crate) struct Name<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) inode: Reference,
    pub(crate) number: u32,
    /// Of the short form, whatever the inode's own is.
    pub(crate) kind: u16,
}

/// Names share a head while their inodes are in one metadata block and their numbers are near; at most so many.
const MOST_NAMES: usize = 256;

/// Where a large folder's listing can be entered without reading it from the beginning.
pub(crate) struct Mark {
    /// From the beginning of the listing.
    pub(crate) offset: u32,
    /// Of the directory table.
    pub(crate) block: u32,
    pub(crate) name: Vec<u8>,
}

pub(crate) struct Listing {
    pub(crate) start: Reference,
    /// In bytes.
    pub(crate) size: u32,
    pub(crate) marks: Vec<Mark>,
}

/// Writes the names, which come sorted by bytes.
pub(crate) fn write(names: &[Name<'_>], table: &mut Metadata<'_>) -> Listing {
    let mut listing = Listing { start: table.reference(), size: 0, marks: Vec::new() };
    let mut last_mark = 0;
    let mut rest = names;
    while let [first, ..] = rest {
        if listing.size - last_mark >= METADATA as u32 {
            last_mark = listing.size;
            listing.marks.push(Mark {
                offset: listing.size,
                block: table.reference().block,
                name: first.name.to_vec(),
            });
        }
        let room = METADATA - (listing.size - last_mark) as usize;
        let (run, after) = rest.split_at(run(rest, room));
        let bytes = encoded(run, first);
        table.write(&bytes);
        listing.size += u32::try_from(bytes.len()).unwrap_or_default();
        rest = after;
    }
    listing
}

/// How many of the names go under one head. A run ends soon after `room` bytes, so that the next one can be marked.
fn run(names: &[Name<'_>], room: usize) -> usize {
    let first = &names[0];
    let mut bytes = 12;
    let fits = |name: &&Name<'_>| {
        let is_first = bytes == 12;
        let near = i64::from(name.number) - i64::from(first.number);
        let fits = is_first || (name.inode.block == first.inode.block && i16::try_from(near).is_ok() && bytes < room);
        bytes += 8 + name.name.len();
        fits
    };
    names.iter().take(MOST_NAMES).take_while(fits).count()
}

fn encoded(names: &[Name<'_>], first: &Name<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(12 + names.iter().map(|name| 8 + name.name.len()).sum::<usize>());
    bytes.extend(u32::try_from(names.len() - 1).unwrap_or_default().to_le_bytes());
    bytes.extend(first.inode.block.to_le_bytes());
    bytes.extend(first.number.to_le_bytes());
    for name in names {
        let near = i64::from(name.number) - i64::from(first.number);
        bytes.extend(name.inode.offset.to_le_bytes());
        bytes.extend(i16::try_from(near).unwrap_or_default().to_le_bytes());
        bytes.extend(name.kind.to_le_bytes());
        bytes.extend(u16::try_from(name.name.len() - 1).unwrap_or_default().to_le_bytes());
        bytes.extend(name.name);
    }
    bytes
}
