//! What a file is: kind, owner, mode, and where its contents are. In a short form where that is enough.

use crate::entry::Device;
use crate::squashfs::directory::Listing;
use crate::squashfs::writer::Content;
use crate::squashfs::{BLOCK, NONE};

/// What all inodes have.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(crate) mode: u16,
    /// Into the table of ids.
    pub(crate) uid: u16,
    pub(crate) gid: u16,
    pub(crate) mtime: u32,
    pub(crate) number: u32,
    pub(crate) links: u32,
    pub(crate) xattrs: Option<u32>,
}

/// What an inode is about.
pub(crate) enum Inode<'a> {
    Folder { listing: &'a Listing, parent: u32 },
    Empty,
    Small { fragment: u32, offset: u32, size: u32 },
    Large(&'a Content),
    Symlink(&'a [u8]),
    Block(Device),
    Char(Device),
    Fifo,
    Socket,
}

impl Inode<'_> {
    /// The number of the short form; the long form's is 7 more.
    pub(crate) fn kind(&self) -> u16 {
        match self {
            Self::Folder { .. } => 1,
            Self::Empty | Self::Small { .. } | Self::Large(_) => 2,
            Self::Symlink(_) => 3,
            Self::Block(_) => 4,
            Self::Char(_) => 5,
            Self::Fifo => 6,
            Self::Socket => 7,
        }
    }

    pub(crate) fn encode(&self, head: &Head) -> Vec<u8> {
        let mut out = Bytes(Vec::with_capacity(64));
        let is_long = self.is_long(head);
        out.half(self.kind() + if is_long { 7 } else { 0 });
        [head.mode, head.uid, head.gid].iter().for_each(|half| out.half(*half));
        out.word(head.mtime);
        out.word(head.number);
        match self {
            Self::Folder { listing, parent } => folder(&mut out, head, listing, *parent, is_long),
            Self::Empty => {
                file(&mut out, head, &File { start: 0, size: 0, sparse: 0, fragment: (NONE, 0), blocks: &[] }, is_long)
            }
            Self::Small { fragment, offset, size } => {
                let fragment = (*fragment, *offset);
                file(
                    &mut out,
                    head,
                    &File { start: 0, size: u64::from(*size), sparse: 0, fragment, blocks: &[] },
                    is_long,
                );
            }
            Self::Large(Content { size, start, blocks, sparse }) => {
                let about = File { start: *start, size: *size, sparse: *sparse, fragment: (NONE, 0), blocks };
                file(&mut out, head, &about, is_long);
            }
            Self::Symlink(target) => {
                out.word(head.links);
                out.word(u32::try_from(target.len()).unwrap_or_default());
                out.0.extend(*target);
                out.xattrs(head, is_long);
            }
            Self::Block(device) | Self::Char(device) => {
                out.word(head.links);
                out.word((device.minor & 0xff) | device.major << 8 | (device.minor & !0xff) << 12);
                out.xattrs(head, is_long);
            }
            Self::Fifo | Self::Socket => {
                out.word(head.links);
                out.xattrs(head, is_long);
            }
        }
        out.0
    }

    fn is_long(&self, head: &Head) -> bool {
        let special = match self {
            Self::Folder { listing, .. } => listing.size + 3 > u32::from(u16::MAX) || !listing.marks.is_empty(),
            Self::Large(content) => {
                let most = u64::from(u32::MAX);
                content.start > most || content.size > most || content.sparse > 0 || head.links > 1
            }
            Self::Empty | Self::Small { .. } => head.links > 1,
            _ => false,
        };
        special || head.xattrs.is_some()
    }
}

struct File<'a> {
    start: u64,
    size: u64,
    sparse: u64,
    fragment: (u32, u32),
    blocks: &'a [u32],
}

fn file(out: &mut Bytes, head: &Head, about: &File<'_>, is_long: bool) {
    let (fragment, offset) = about.fragment;
    debug_assert!(fragment == NONE || about.size < BLOCK as u64);
    if is_long {
        [about.start, about.size, about.sparse].iter().for_each(|long| out.0.extend(long.to_le_bytes()));
        [head.links, fragment, offset, head.xattrs.unwrap_or(NONE)].iter().for_each(|word| out.word(*word));
    } else {
        let short = |value: u64| u32::try_from(value).unwrap_or_default();
        [short(about.start), fragment, offset, short(about.size)].iter().for_each(|word| out.word(*word));
    }
    about.blocks.iter().for_each(|length| out.word(*length));
}

/// Listings count `.` and `..` as three bytes.
fn folder(out: &mut Bytes, head: &Head, listing: &Listing, parent: u32, is_long: bool) {
    let (block, offset, size) = (listing.start.block, listing.start.offset, listing.size + 3);
    if !is_long {
        out.word(block);
        out.word(head.links);
        out.half(u16::try_from(size).unwrap_or_default());
        out.half(offset);
        out.word(parent);
        return;
    }
    [head.links, size, block, parent].iter().for_each(|word| out.word(*word));
    out.half(u16::try_from(listing.marks.len()).unwrap_or_default());
    out.half(offset);
    out.word(head.xattrs.unwrap_or(NONE));
    for mark in &listing.marks {
        [mark.offset, mark.block, u32::try_from(mark.name.len() - 1).unwrap_or_default()]
            .iter()
            .for_each(|word| out.word(*word));
        out.0.extend(&mark.name);
    }
}

struct Bytes(Vec<u8>);

impl Bytes {
    fn half(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    fn word(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn xattrs(&mut self, head: &Head, is_long: bool) {
        if is_long {
            self.word(head.xattrs.unwrap_or(NONE));
        }
    }
}
