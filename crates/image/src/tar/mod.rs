//! Tars, read from the beginning to the end, in all the dialects that image builders write: ustar, pax, GNU; long names,
//! large numbers, sparse files, extended attributes.
//!
//! It believes nothing: a length that does not fit, an unknown kind or a wrong checksum is an error that names the entry.

mod header;
mod pax;
mod sparse;

use std::collections::VecDeque;
use std::io;

use crate::entry::{Entries, Entry, Kind, Meta, Piece};
use crate::error::{Error, Reading, Result};
use crate::range::Skip;
use crate::shared::Shared;
use header::{BLOCK, Header};
use pax::Pax;

/// For names, links and attributes of one entry together.
const MOST_EXTENSION: u64 = 1 << 20;

pub(crate) struct TarReader<R> {
    input: R,
    place: String,
    global: Pax,
    /// Of the current entry.
    name: Vec<u8>,
    /// What is left of the current piece, of its pieces, and after them.
    piece: u64,
    pieces: VecDeque<Piece>,
    padding: u64,
    /// From the beginning of the tar.
    position: u64,
}

/// What came before a header and belongs to it.
#[derive(Default)]
struct Before {
    pax: Option<Pax>,
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

impl<R: Skip> TarReader<R> {
    /// `place` stands before the entry's name in errors.
    pub(crate) fn new(input: R, place: impl Into<String>) -> Self {
        let (name, pieces) = (Vec::new(), VecDeque::new());
        Self { input, place: place.into(), global: Pax::default(), name, piece: 0, pieces, padding: 0, position: 0 }
    }

    pub(crate) fn into_inner(self) -> R {
        self.input
    }

    /// Where the current entry's contents begin, before any of them were read.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    fn refused(&self, why: impl Into<String>) -> Error {
        Error::entry(&self.place, &self.name, why)
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<()> {
        let (place, name) = (&self.place, &self.name);
        self.input.read_exact(buffer).map_err(|error| ended(place, name, error))?;
        self.position += buffer.len() as u64;
        Ok(())
    }

    fn skip(&mut self, count: u64) -> Result<()> {
        let (place, name) = (&self.place, &self.name);
        self.input.skip(count).map_err(|error| ended(place, name, error))?;
        self.position += count;
        Ok(())
    }

    /// The next header that is not all zeros; nothing at the end.
    fn header(&mut self) -> Result<Option<Header>> {
        let mut bytes = [0; BLOCK];
        let first = loop {
            match self.input.read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read.reading(|| self.place.clone())?,
            }
        };
        if first == 0 {
            return Ok(None);
        }
        self.position += first as u64;
        self.read(&mut bytes[first..])?;
        if bytes == [0; BLOCK] {
            return Ok(None);
        }
        let header = Header::new(bytes);
        header.map(Some).ok_or_else(|| {
            let after = if self.name.is_empty() {
                String::new()
            } else {
                format!(" after `{}`", crate::error::shown(&self.name))
            };
            Error::malformed(&self.place, format!("is no tar{after}: a header's checksum is wrong"))
        })
    }

    fn extension(&mut self, header: &Header) -> Result<Vec<u8>> {
        let size = self.size(header.size())?;
        if size > MOST_EXTENSION {
            return Err(self.refused(format!("is followed by {size} bytes of names and attributes")));
        }
        let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
        self.read(&mut bytes)?;
        self.skip(padding(size))?;
        Ok(bytes)
    }

    fn size(&self, told: Option<i64>) -> Result<u64> {
        let size = told.and_then(|size| u64::try_from(size).ok());
        size.ok_or_else(|| self.refused("has a size that is no number"))
    }

    fn entry(&mut self, header: &Header, before: Before) -> Result<Entry> {
        let pax = before.pax.unwrap_or_default();
        let path = pax.get("GNU.sparse.name").or_else(|| pax.get("path")).map(<[u8]>::to_vec);
        let path = path.or(before.name).unwrap_or_else(|| header.path());
        self.name.clone_from(&path);
        let link = pax.get("linkpath").map(<[u8]>::to_vec).or(before.link).unwrap_or_else(|| header.link());
        let stored = match pax.number("size") {
            Some(size) => size.ok_or_else(|| self.refused("has a size that is no number"))?,
            None => self.size(header.size())?,
        };
        let kind = self.kind(header, &pax, &path, link, stored)?;
        let meta = self.meta(header, &pax)?;
        Ok(Entry { path, kind, meta })
    }

    fn kind(&mut self, header: &Header, pax: &Pax, path: &[u8], link: Vec<u8>, stored: u64) -> Result<Kind> {
        let device =
            || header.device().ok_or_else(|| self.refused("is a device with a number that the kernel does not know"));
        Ok(match header.kind() {
            b'0' | b'\0' | b'7' if path.ends_with(b"/") => Kind::Folder,
            b'0' | b'\0' | b'7' => Kind::File(self.contents(pax, stored)?),
            b'S' => Kind::File(self.old_sparse(header, stored)?),
            b'1' => Kind::Hardlink(link),
            b'2' => Kind::Symlink(link),
            b'3' => Kind::Char(device()?),
            b'4' => Kind::Block(device()?),
            b'5' => Kind::Folder,
            b'6' => Kind::Fifo,
            other => return Err(self.refused(format!("is of the unknown kind `{}`", char::from(other).escape_debug()))),
        })
    }

    fn meta(&self, header: &Header, pax: &Pax) -> Result<Meta> {
        let id = |key: &str, plain: Option<i64>| {
            let told = pax.number(key).or_else(|| self.global.number(key));
            let value = told.unwrap_or_else(|| plain.and_then(|id| u64::try_from(id).ok()));
            let value = value.and_then(|id| u32::try_from(id).ok()).filter(|id| *id != u32::MAX);
            value.ok_or_else(|| self.refused(format!("has a {key} that no system has")))
        };
        let mtime = pax.seconds("mtime").or_else(|| self.global.seconds("mtime")).unwrap_or_else(|| header.mtime());
        let mtime = mtime.ok_or_else(|| self.refused("has a time that is no number"))?;
        let mode = header.mode().ok_or_else(|| self.refused("has a mode that is no number"))?;
        Ok(Meta {
            mode: u16::try_from(mode & 0o7777).unwrap_or_default(),
            uid: id("uid", header.uid())?,
            gid: id("gid", header.gid())?,
            mtime: u32::try_from(mtime.clamp(0, i64::from(u32::MAX))).unwrap_or_default(),
            xattrs: pax.xattrs(),
        })
    }

    /// Takes note of where the contents lie, and tells their length.
    fn contents(&mut self, pax: &Pax, stored: u64) -> Result<u64> {
        let size = pax.number("GNU.sparse.realsize").or_else(|| pax.number("GNU.sparse.size"));
        let Some(size) = size else {
            self.expect([Piece::Data(stored)], stored);
            return Ok(stored);
        };
        let size = size.ok_or_else(|| self.refused("has a size that is no number"))?;
        let begin = self.position;
        let stretches = if pax.get("GNU.sparse.major") == Some(b"1") {
            self.map(stored)?
        } else {
            let listed = pax.get("GNU.sparse.map").map(sparse::listed);
            let pairs = listed.unwrap_or_else(|| pax.pairs("GNU.sparse.offset", "GNU.sparse.numbytes"));
            pairs.ok_or_else(|| self.refused("has a list of holes that is none"))?
        };
        self.sparse(&stretches, size, stored - (self.position - begin))
    }

    /// The map of format 1.0, which stands before the data in whole blocks.
    fn map(&mut self, stored: u64) -> Result<Vec<(u64, u64)>> {
        let mut map = sparse::MapReader::default();
        let mut block = [0; BLOCK];
        for _ in 0..stored / BLOCK as u64 {
            self.read(&mut block)?;
            match map.block(&block) {
                Some(true) => return Ok(map.stretches()),
                Some(false) => {}
                None => break,
            }
        }
        Err(self.refused("has a list of holes that is none"))
    }

    fn old_sparse(&mut self, header: &Header, stored: u64) -> Result<u64> {
        let unreadable = "has a list of holes that is none";
        let (mut stretches, mut more, size) = header.sparse().ok_or_else(|| self.refused(unreadable))?;
        let mut block = [0; BLOCK];
        while more && stretches.len() <= sparse::MOST_STRETCHES {
            self.read(&mut block)?;
            stretches.extend(header::stretches(&block[..504]).ok_or_else(|| self.refused(unreadable))?);
            more = block[504] != 0;
        }
        self.sparse(&stretches, size, stored)
    }

    fn sparse(&mut self, stretches: &[(u64, u64)], size: u64, stored: u64) -> Result<u64> {
        let pieces = sparse::pieces(stretches, size, stored);
        let pieces = pieces.ok_or_else(|| self.refused("has holes that do not fit its size"))?;
        self.expect(pieces, stored);
        Ok(size)
    }

    fn expect(&mut self, pieces: impl IntoIterator<Item = Piece>, stored: u64) {
        self.pieces.clear();
        self.pieces.extend(pieces);
        self.padding = padding(stored);
    }

    /// Passes over what nobody read.
    fn leave(&mut self) -> Result<()> {
        let data = |piece: &Piece| if let Piece::Data(length) = piece { *length } else { 0 };
        let left = self.pieces.drain(..).map(|piece| data(&piece)).fold(self.piece, u64::saturating_add);
        let padding = std::mem::take(&mut self.padding);
        self.piece = 0;
        self.skip(left.saturating_add(padding))
    }
}

fn padding(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK as u64
}

fn ended(place: &str, name: &[u8], error: io::Error) -> Error {
    if error.kind() != io::ErrorKind::UnexpectedEof {
        return Error::reading(error, || place.to_owned());
    }
    if name.is_empty() {
        return Error::malformed(place, "is no tar: it ends in its first header");
    }
    Error::entry(place, name, "is cut off: the archive ends before it does")
}

impl<R: Skip> Entries for TarReader<R> {
    fn next(&mut self) -> Result<Option<Entry>> {
        self.leave()?;
        let mut before = Before::default();
        loop {
            let Some(header) = self.header()? else { return Ok(None) };
            let kind = header.kind();
            if !matches!(kind, b'x' | b'g' | b'L' | b'K') {
                return self.entry(&header, before).map(Some);
            }
            let bytes = self.extension(&header)?;
            let until_zero = || bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
            match kind {
                b'L' => before.name = Some(until_zero()),
                b'K' => before.link = Some(until_zero()),
                _ => {
                    let pax = Pax::parse(&bytes)
                        .ok_or_else(|| self.refused("is followed by an extended header that is none"))?;
                    if kind == b'x' { before.pax = Some(pax) } else { self.global = pax.global() }
                }
            }
        }
    }

    fn piece(&mut self) -> Result<Option<Piece>> {
        let left = std::mem::take(&mut self.piece);
        self.skip(left)?;
        let piece = self.pieces.pop_front();
        if let Some(Piece::Data(length)) = piece {
            self.piece = length;
        }
        Ok(piece)
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<()> {
        debug_assert!(buffer.len() as u64 <= self.piece);
        self.read(buffer)?;
        self.piece -= buffer.len() as u64;
        Ok(())
    }

    fn share(&mut self, count: usize) -> Result<Option<Shared>> {
        debug_assert!(count as u64 <= self.piece);
        let (place, name) = (&self.place, &self.name);
        let shared = self.input.share(count).map_err(|error| ended(place, name, error))?;
        if shared.is_some() {
            self.position += count as u64;
            self.piece -= count as u64;
        }
        Ok(shared)
    }
}
