//! Files to the other side: from where it has them, as long as they were when they were opened, with a hash at the end.

use std::fs::File;
use std::io::{self, Read, Write};

use rustix::fs::FileType;

use super::frame::{self, Tag};
use super::message::{Fetched, Wanted};
use crate::beneath::{Beneath, Facts};
use crate::block::{BLOCK, Packer, Worth, looks_compressible};
use crate::snapshot::decode;

/// Sends one block after another. A file is a [`Fetched`] with its first bytes, then more bytes, then its hash.
pub(super) fn fetch(depot: &Beneath, wanted: &[Wanted], output: &mut impl Write) -> io::Result<()> {
    let mut sender = Sender { packer: Packer::new()?, block: Vec::with_capacity(BLOCK), soft: true, output };
    for (index, file) in wanted.iter().enumerate() {
        send(depot, u32::try_from(index).unwrap_or(u32::MAX), file, &mut sender)?;
    }
    sender.flush()
}

fn send(depot: &Beneath, index: u32, wanted: &Wanted, sender: &mut Sender<'_, impl Write>) -> io::Result<()> {
    // Whatever has become of it since it was listed: gone, a folder, a link. The next pull sees that.
    let Ok(mut file) = depot.read(&decode(&wanted.path)) else { return sender.say(index, &Fetched::Gone, &[]) };
    let facts = Facts::from(rustix::fs::fstat(&file)?);
    if facts.kind != FileType::RegularFile {
        return sender.say(index, &Fetched::Gone, &[]);
    }
    let start = if has_start(&mut file, wanted, facts.size)? { wanted.have } else { 0 };
    io::Seek::seek(&mut file, io::SeekFrom::Start(start))?;
    sender.say(index, &Fetched::Begin { start, size: facts.size, mode: facts.mode, modified: facts.modified }, &[])?;
    let mut hasher = blake3::Hasher::new();
    let mut left = facts.size - start;
    let mut buffer = vec![0; BLOCK - ROOM];
    while left > 0 {
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = file.read(buffer.get_mut(..most).unwrap_or_default())?;
        if count == 0 {
            return sender.say(index, &Fetched::Gone, &[]);
        }
        let bytes = buffer.get(..count).unwrap_or_default();
        hasher.update(bytes);
        sender.say(index, &Fetched::More, bytes)?;
        left -= count as u64;
    }
    sender.say(index, &Fetched::End { digest: hasher.finalize().to_hex().to_string() }, &[])
}

/// Whether the file begins with what the other side has.
fn has_start(file: &mut File, wanted: &Wanted, size: u64) -> io::Result<bool> {
    if wanted.have == 0 || wanted.have > size {
        return Ok(false);
    }
    let mut hasher = blake3::Hasher::new();
    let read = io::copy(&mut file.take(wanted.have), &mut hasher)?;
    Ok(read == wanted.have && hasher.finalize().to_hex().as_str() == wanted.digest)
}

/// What a piece adds to its bytes, at most: its head is short JSON.
const ROOM: usize = 512;

struct Sender<'a, W> {
    packer: Packer,
    block: Vec<u8>,
    soft: bool,
    output: &'a mut W,
}

impl<W: Write> Sender<'_, W> {
    /// A piece is index, length of the head, length of the bytes, head, bytes.
    fn say(&mut self, index: u32, head: &Fetched, bytes: &[u8]) -> io::Result<()> {
        let head = serde_json::to_vec(head)?;
        let soft = bytes.is_empty() || looks_compressible(bytes);
        let full = self.block.len() + head.len() + bytes.len() + 12 > BLOCK;
        if full || (soft != self.soft && !bytes.is_empty()) {
            self.flush()?;
        }
        if !bytes.is_empty() {
            self.soft = soft;
        }
        self.block.extend_from_slice(&index.to_le_bytes());
        self.block.extend_from_slice(&u32::try_from(head.len()).unwrap_or(u32::MAX).to_le_bytes());
        self.block.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
        self.block.extend_from_slice(&head);
        self.block.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let worth = if self.soft { Worth::Compressing } else { Worth::SendingAsIs };
        let packed = self.packer.pack(0, &self.block, worth)?;
        self.block.clear();
        frame::write(self.output, Tag::Body, &packed)
    }
}

/// One piece of what was fetched.
#[derive(Debug)]
pub struct Piece<'a> {
    pub index: u32,
    pub head: Fetched,
    pub bytes: &'a [u8],
}

/// The pieces of an unpacked block.
pub fn pieces(block: &[u8]) -> impl Iterator<Item = io::Result<Piece<'_>>> {
    let mut rest = block;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let piece = first(rest);
        rest = match &piece {
            Some((_, after)) => after,
            None => &[],
        };
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "a piece arrived damaged");
        Some(piece.map(|(piece, _)| piece).ok_or_else(damaged))
    })
}

fn first(block: &[u8]) -> Option<(Piece<'_>, &[u8])> {
    let (index, rest) = block.split_first_chunk::<4>()?;
    let (head, rest) = rest.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (head, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*head)).ok()?)?;
    let (bytes, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    let head = serde_json::from_slice(head).ok()?;
    Some((Piece { index: u32::from_le_bytes(*index), head, bytes }, rest))
}
