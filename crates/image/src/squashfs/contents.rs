//! The contents of files, in the order in which they come, each of them once.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::entry::{Entries, Piece};
use crate::error::Result;
use crate::fingerprint::{List, Prints, Short, short};
use crate::reuse::Reuse;
use crate::shared::Block;
use crate::squashfs::pool::{Event, Gone, Input, Plain, pool};
use crate::squashfs::writer::{Writer, Written};
use crate::squashfs::{BLOCK, Codec};

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
