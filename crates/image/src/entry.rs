//! One entry of a layer, whether it stands in a tar or in a folder.

use crate::error::Result;
use crate::shared::Shared;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// As it stands in the layer; nothing is known about its honesty.
    pub(crate) path: Vec<u8>,
    pub(crate) kind: Kind,
    pub(crate) meta: Meta,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// With its length, holes included.
    File(u64),
    Folder,
    Symlink(Vec<u8>),
    /// Another name for the file that has this path.
    Hardlink(Vec<u8>),
    Block(Device),
    Char(Device),
    Fifo,
    Socket,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meta {
    /// The twelve permission bits.
    pub(crate) mode: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Seconds; what lies before 1970 or after 2106 is moved to there.
    pub(crate) mtime: u32,
    pub(crate) xattrs: Xattrs,
}

/// Names with their values, in the order of the names.
pub(crate) type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

impl Meta {
    /// Of what the image needs but no layer brings.
    pub(crate) const fn plain(mode: u16) -> Self {
        Self { mode, uid: 0, gid: 0, mtime: 0, xattrs: Vec::new() }
    }
}

/// A stretch of a file's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    Data(u64),
    Hole(u64),
}

/// A layer, entry by entry.
pub(crate) trait Entries {
    /// The next entry; what was not read of the last one's contents is passed over.
    fn next(&mut self) -> Result<Option<Entry>>;

    /// The next stretch of the current file's contents. What is left of the last one is passed over.
    fn piece(&mut self) -> Result<Option<Piece>>;

    /// Fills the buffer with bytes of the current [`Piece::Data`], which must have as many.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<()>;

    /// The same bytes where they lie, if they lie together in memory; otherwise they are still to be read.
    fn share(&mut self, _count: usize) -> Result<Option<Shared>> {
        Ok(None)
    }
}
