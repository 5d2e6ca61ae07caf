//! The thread that writes blocks to the output, in order, and takes note of where they are. A file that came before, block for
//! block, is not written again.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::fingerprint::{List, Prints, Short, short};
use crate::reuse::Stretch;
use crate::squashfs::growing::Growing;
use crate::squashfs::pool::{Event, NewBlock, Output, Stored};
use crate::squashfs::{BLOCK, SUPERBLOCK};

/// In a block's length: it is stored as it is.
const AS_IT_IS: u32 = 1 << 24;

/// A file in blocks of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) size: u64,
    /// From the beginning of the squashfs.
    pub(crate) start: u64,
    /// Of each block the stored length; 0 is a block of zeros that is not stored.
    pub(crate) blocks: Arc<[u32]>,
    /// Bytes in blocks that are not stored.
    pub(crate) sparse: u64,
}

/// All contents, once they are in the output.
pub(crate) struct Written {
    pub(crate) file: File,
    pub(crate) large: Vec<Content>,
    /// Start and stored length.
    pub(crate) fragments: Vec<(u64, u32)>,
    /// Every block in the output.
    pub(crate) stretches: Vec<Stretch>,
    /// In the output, after the last block.
    pub(crate) end: u64,
    /// Blocks that were compressed before.
    pub(crate) reused: u64,
}

pub(crate) struct Writer {
    file: Growing,
    large: Vec<Content>,
    fragments: Vec<(u64, u32)>,
    stretches: Vec<Stretch>,
    /// The first of each block of large files, by its place in `stretches`.
    places: HashMap<Short, usize>,
    reused: u64,
    base: u64,
    prints: Prints,
    known: HashMap<Short, Content>,
    /// The large file that is being written.
    open: Open,
}

/// A large file before its end.
struct Open {
    /// Where its first block is, and how many stretches there were before it.
    start: u64,
    stretches: usize,
    blocks: Vec<u32>,
    sparse: u64,
    listed: List,
    /// Its last blocks, if they came before: they are written when it is certain that the file as a whole did not.
    owed: Vec<Stretch>,
}

impl Writer {
    pub(crate) fn new(file: File, base: u64, prints: Prints) -> io::Result<Self> {
        let start = base + SUPERBLOCK;
        let (listed, blocks, owed) = (prints.list(), Vec::new(), Vec::new());
        Ok(Self {
            file: Growing::new(file, start)?,
            large: Vec::new(),
            fragments: Vec::new(),
            stretches: Vec::new(),
            places: HashMap::new(),
            reused: 0,
            base,
            prints,
            known: HashMap::new(),
            open: Open { start, stretches: 0, blocks, sparse: 0, listed, owed },
        })
    }

    /// Ends when everything is in the file.
    pub(crate) fn run(mut self, output: Output) -> io::Result<Written> {
        for event in output.flatten() {
            match event {
                Event::Block(block) => self.block(block)?,
                Event::Hole(count) => {
                    let blocks = &mut self.open.blocks;
                    blocks.resize(blocks.len() + usize::try_from(count).unwrap_or_default(), 0);
                    self.open.sparse += count * BLOCK as u64;
                }
                Event::End(size) => self.end(size)?,
                // The print of a list, which no block has, is never known.
                Event::Fragment(Stored::Again(_)) => return Err(lost()),
                Event::Fragment(Stored::New(block)) => {
                    let start = self.file.end() - self.base;
                    let length = self.store(block)?.word();
                    self.fragments.push((start, length));
                    self.open = self.after();
                }
            }
        }
        let Self { file, large, fragments, stretches, reused, .. } = self;
        let end = file.end();
        Ok(Written { file: file.finish()?, large, fragments, stretches, end, reused })
    }

    /// A file that begins here.
    fn after(&self) -> Open {
        let (start, stretches, listed) = (self.file.end(), self.stretches.len(), self.prints.list());
        Open { start, stretches, blocks: Vec::new(), sparse: 0, listed, owed: Vec::new() }
    }

    fn block(&mut self, block: Stored) -> io::Result<()> {
        let plain = match &block {
            Stored::New(block) => block.plain,
            Stored::Again(plain) => *plain,
        };
        self.open.listed.add_number(self.open.blocks.len() as u64);
        self.open.listed.add(&plain);
        let stretch = match block {
            Stored::New(block) => {
                self.pay()?;
                let place = self.stretches.len();
                self.places.entry(short(&plain)).or_insert(place);
                self.store(block)?
            }
            Stored::Again(plain) => {
                let first = self.places.get(&short(&plain)).and_then(|place| self.stretches.get(*place));
                let first = *first.ok_or_else(lost)?;
                self.open.owed.push(first);
                first
            }
        };
        self.open.blocks.push(stretch.word());
        Ok(())
    }

    fn store(&mut self, block: NewBlock) -> io::Result<Stretch> {
        let NewBlock { bytes, is_packed, plain, stored, is_reused } = block;
        self.reused += u64::from(is_reused);
        let (offset, length) = (self.file.end(), u32::try_from(bytes.len()).unwrap_or_default());
        self.file.add(bytes)?;
        let stretch = Stretch { plain, stored, offset, length, is_packed };
        self.stretches.push(stretch);
        Ok(stretch)
    }

    /// Writes what is owed.
    fn pay(&mut self) -> io::Result<()> {
        for first in std::mem::take(&mut self.open.owed) {
            let offset = self.file.end();
            self.file.add_again(first.offset, first.length)?;
            self.stretches.push(Stretch { offset, ..first });
        }
        Ok(())
    }

    /// A file that is there already is taken back.
    fn end(&mut self, size: u64) -> io::Result<()> {
        self.open.listed.add_number(size);
        let print = short(&std::mem::replace(&mut self.open.listed, self.prints.list()).finish());
        let content = if let Some(known) = self.known.get(&print) {
            self.stretches.truncate(self.open.stretches);
            self.file.back_to(self.open.start)?;
            known.clone()
        } else {
            self.pay()?;
            let Open { start, sparse, .. } = self.open;
            let blocks = std::mem::take(&mut self.open.blocks).into();
            let content = Content { size, start: start - self.base, blocks, sparse };
            self.known.insert(print, content.clone());
            content
        };
        self.open = self.after();
        self.large.push(content);
        Ok(())
    }
}

impl Stretch {
    /// As inodes and the fragments' table have it.
    fn word(&self) -> u32 {
        if self.is_packed { self.length } else { self.length | AS_IT_IS }
    }
}

fn lost() -> io::Error {
    io::Error::other("a block was taken for one that came before it, and none did")
}
