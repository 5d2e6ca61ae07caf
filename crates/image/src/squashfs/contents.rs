//! The contents of files, in the order in which they come, each of them once.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::entry::{Entries, Piece};
use crate::error::Result;
use crate::fingerprint::{List, Prints, Short, short};
use crate::reuse::{Reuse, Stretch};
use crate::shared::Block;
use crate::squashfs::growing::Growing;
use crate::squashfs::pool::{Event, Gone, Input, NewBlock, Output, Plain, Stored, pool};
use crate::squashfs::{BLOCK, Codec, SUPERBLOCK};

/// In a block's length: it is stored as it is.
const AS_IT_IS: u32 = 1 << 24;
static ZEROS: [u8; BLOCK] = [0; BLOCK];
/// A fragment at least this full may end before its time.
const CUT_FROM: usize = BLOCK / 2;
/// One in so many names ends it, always the same ones: after a file has changed its size, fragments soon begin with the same files
/// as before, and so stay the same.
const CUT_ONE_IN: u64 = 16;

/// Where a file's contents are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentId {
    Empty,
    /// In the fragment of that number.
    Small {
        fragment: u32,
        offset: u32,
        size: u32,
    },
    /// In [`Written::large`].
    Large(u32),
}

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

/// A block of which more comes with the next piece of its file.
#[derive(Default)]
struct Begun {
    block: Vec<u8>,
    filled: usize,
}

pub(crate) struct Contents {
    input: Input,
    writer: JoinHandle<io::Result<Written>>,
    prints: Prints,
    fragment: Vec<u8>,
    /// Of the files in it.
    listed: List,
    fragments: u32,
    large: u32,
    small: HashMap<Short, ContentId>,
}

impl Contents {
    /// Writes to `file` from `base` on, where the superblock will be.
    pub(crate) fn new(file: File, base: u64, codec: Codec, threads: usize, reuse: &Arc<Reuse>) -> Self {
        let (input, output) = pool(codec, threads, reuse);
        let prints = *reuse.prints();
        let writer = std::thread::spawn(move || Writer::new(file, base, prints)?.run(output));
        let (fragment, listed) = (Vec::with_capacity(BLOCK), prints.list());
        Self { input, writer, prints, fragment, listed, fragments: 0, large: 0, small: HashMap::new() }
    }

    /// The contents of the entry that `entries` is at. Fails also when the output cannot be written; [`Contents::finish`] knows
    /// why then.
    pub(crate) fn add(&mut self, path: &[u8], size: u64, entries: &mut dyn Entries) -> Result<ContentId> {
        match usize::try_from(size) {
            Ok(0) => Ok(ContentId::Empty),
            Ok(size) if size < BLOCK => self.add_small(path, size, entries),
            _ => self.add_large(size, entries),
        }
    }

    fn add_small(&mut self, path: &[u8], size: usize, entries: &mut dyn Entries) -> Result<ContentId> {
        let is_cut = self.fragment.len() >= CUT_FROM && name_hash(path).is_multiple_of(CUT_ONE_IN);
        if is_cut || self.fragment.len() + size > BLOCK {
            self.border()?;
        }
        let offset = self.fragment.len();
        while let Some(piece) = entries.piece()? {
            let length = match piece {
                Piece::Data(length) | Piece::Hole(length) => usize::try_from(length).unwrap_or(usize::MAX),
            };
            let at = self.fragment.len();
            // The pieces of an entry have its size together.
            let length = length.min(offset + size - at);
            match piece {
                Piece::Hole(_) => self.fragment.resize(at + length, 0),
                Piece::Data(_) => match entries.share(length)? {
                    Some(shared) => self.fragment.extend_from_slice(&shared),
                    None => {
                        self.fragment.resize(at + length, 0);
                        entries.fill(&mut self.fragment[at..])?;
                    }
                },
            }
        }
        self.fragment.resize(offset + size, 0);
        let print = self.prints.of(&self.fragment[offset..]);
        if let Some(known) = self.small.get(&short(&print)) {
            self.fragment.truncate(offset);
            return Ok(*known);
        }
        let number = |value: usize| u32::try_from(value).unwrap_or_default();
        let id = ContentId::Small { fragment: self.fragments, offset: number(offset), size: number(size) };
        self.small.insert(short(&print), id);
        self.listed.add(&print);
        Ok(id)
    }

    fn add_large(&mut self, size: u64, entries: &mut dyn Entries) -> Result<ContentId> {
        let (mut begun, mut left) = (Begun::default(), size);
        while let Some(piece) = entries.piece()? {
            left = self.add_piece(piece, left, &mut begun, entries)?;
        }
        if begun.filled > 0 {
            begun.block.truncate(begun.filled);
            self.block(Block::Own(begun.block))?;
        }
        self.input.add(Event::End(size))?;
        self.large += 1;
        Ok(ContentId::Large(self.large - 1))
    }

    /// `left` is what is left of the file, and what it tells is what is left after the piece.
    fn add_piece(&mut self, piece: Piece, mut left: u64, begun: &mut Begun, entries: &mut dyn Entries) -> Result<u64> {
        let (length, is_hole) = match piece {
            Piece::Data(length) => (length, false),
            Piece::Hole(length) => (length, true),
        };
        let after = left - length.min(left);
        while left > after {
            let whole = (left - after) / BLOCK as u64;
            if is_hole && begun.filled == 0 && whole > 0 {
                self.input.add(Event::Hole(whole))?;
                left -= whole * BLOCK as u64;
                continue;
            }
            let count = usize::try_from(left - after).unwrap_or(BLOCK).min(BLOCK - begun.filled);
            left -= count as u64;
            let is_block = begun.filled == 0 && (count == BLOCK || left == 0);
            if is_block
                && !is_hole
                && let Some(shared) = entries.share(count)?
            {
                self.block(Block::Shared(shared))?;
                continue;
            }
            if begun.filled == 0 {
                begun.block = self.input.block();
            }
            let room = &mut begun.block[begun.filled..begun.filled + count];
            if is_hole {
                room.fill(0);
            } else {
                entries.fill(room)?;
            }
            begun.filled += count;
            if begun.filled == BLOCK {
                self.block(Block::Own(std::mem::take(begun).block))?;
            }
        }
        Ok(left)
    }

    fn block(&mut self, block: Block) -> Result<(), Gone> {
        if *block == ZEROS {
            return self.input.add(Event::Hole(1));
        }
        self.input.add(Event::Block(Plain { block, print: None }))
    }

    /// What comes next shares no fragment with what came before.
    pub(crate) fn border(&mut self) -> Result<(), Gone> {
        if self.fragment.is_empty() {
            return Ok(());
        }
        let full = std::mem::replace(&mut self.fragment, self.input.room());
        self.fragments += 1;
        let print = Some(std::mem::replace(&mut self.listed, self.prints.list()).finish());
        self.input.add(Event::Fragment(Plain { block: Block::Own(full), print }))
    }

    /// Waits until all is in the output.
    pub(crate) fn finish(mut self) -> io::Result<Written> {
        // If nobody takes it, the writer has something to say.
        let _ = self.border().and_then(|()| self.input.send());
        drop(self.input);
        self.writer.join().unwrap_or_else(|_| Err(io::Error::other("the thread that writes has broken off")))
    }
}

/// FNV-1a: quick, and the same for ever.
fn name_hash(name: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = name.iter().fold(0xcbf2_9ce4_8422_2325, step);
    hash ^ (hash >> 32)
}

/// The thread that writes, in order.
struct Writer {
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
    fn new(file: File, base: u64, prints: Prints) -> io::Result<Self> {
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

    fn run(mut self, output: Output) -> io::Result<Written> {
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
