//! A snapshot to a depot: one question if it is there, else what is missing in one stream.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use trainyard_agent::block::{BLOCK, Packer, RECORD, Record, Worth, looks_compressible};
use trainyard_agent::pipe::edit;
use trainyard_agent::pipe::frame::Tag;
use trainyard_agent::pipe::message::{Answer, Request};
use trainyard_agent::snapshot::Kind;
use trainyard_core::id::Digest;

use super::ahead::in_order;
use super::{Progress, TransferError};
use crate::pipe::{Pipe, PipeError};
use crate::snapshot::Snapshot;

/// Blocks that are read and compressed ahead of the wire.
const AHEAD: usize = 32;
/// What a file takes on the disk beyond its bytes.
const FILE_COST: u64 = 4096;
/// Left over on a disk, for those who write beside us.
const MARGIN: u64 = 16 << 20;

/// What an upload sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    pub files: u64,
    /// Of these files.
    pub bytes: u64,
    /// Over the connection.
    pub wire: u64,
}

/// A snapshot that the site most likely has: only what differs from it is offered.
#[derive(Debug, Clone, Copy)]
pub struct Base<'a> {
    pub digest: &'a Digest,
    pub text: &'a [u8],
}

/// After this the snapshot is in the depot, whole. A failure leaves what arrived whole, and no snapshot.
pub fn upload(
    pipe: &mut Pipe,
    snapshot: &Snapshot,
    base: Option<Base<'_>>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Sent, TransferError> {
    let base = base.filter(|base| *base.digest != snapshot.digest);
    let known = base.map(|base| pipe.offer_edits(snapshot, base)).transpose()?.flatten();
    let (missing, free) = match known {
        Some(answer) => answer,
        None if pipe.has(&snapshot.digest)? => return Ok(Sent::default()),
        None => pipe.offer(snapshot)?,
    };
    if missing.is_empty() {
        return Ok(Sent::default());
    }
    let files = wanted(snapshot, missing);
    let bytes = files.iter().map(|file| file.size).sum();
    let need = bytes + files.len() as u64 * FILE_COST;
    if need + MARGIN > free {
        return Err(TransferError::Full { need, free });
    }
    let mut sent = Progress { bytes: 0, of: bytes, wire: 0 };
    progress(sent);
    pipe.begin(&Request::Put { snapshot: snapshot.digest.clone() })?;
    let streamed = in_order(&units(&files), AHEAD, pack, |packed| {
        let packed = packed?;
        for frame in packed.frames {
            // The site has something to say before the end: it cannot go on.
            if pipe.is_readable() {
                return Err(TransferError::Pipe(PipeError::Dropped));
            }
            sent.wire += frame.len() as u64;
            pipe.send(Tag::Body, &frame)?;
        }
        sent.bytes += packed.bytes;
        progress(sent);
        Ok(())
    });
    finish(pipe, snapshot, streamed)?;
    Ok(Sent { files: files.len() as u64, bytes, wire: sent.wire })
}

/// The stream is always brought to its end, so that the pipe can be used again.
fn finish(pipe: &mut Pipe, snapshot: &Snapshot, streamed: Result<(), TransferError>) -> Result<(), TransferError> {
    if let Err(TransferError::Pipe(PipeError::Host(_) | PipeError::TimedOut)) = &streamed {
        return streamed;
    }
    pipe.send(Tag::End, &[])?;
    let answer = pipe.closed_answer()?;
    streamed?;
    match answer {
        Answer::Stored { published: true, .. } => Ok(()),
        Answer::Stored { wrong, .. } => {
            let changed = wrong.first().and_then(|digest| snapshot.files.get(digest));
            match changed {
                Some(path) => Err(TransferError::Changed { path: path.clone() }),
                None => Err(PipeError::Refused("the depot lost files while it received others".to_owned()).into()),
            }
        }
        _ => Err(PipeError::Dropped.into()),
    }
}

impl Pipe {
    pub fn has(&mut self, snapshot: &Digest) -> Result<bool, PipeError> {
        match self.closed_ask(&Request::Has { snapshot: snapshot.clone() })? {
            Answer::Has { there } => Ok(there),
            _ => Err(PipeError::Dropped),
        }
    }

    /// What is missing there, and how much is free.
    fn offer(&mut self, snapshot: &Snapshot) -> Result<Lacking, PipeError> {
        let request = Request::Offer { snapshot: snapshot.digest.clone(), size: snapshot.text.len() as u64 };
        self.ask_packed(&request, &snapshot.text)?.ok_or(PipeError::Dropped)
    }

    /// `None` if the site cannot tell it from the other snapshot.
    fn offer_edits(&mut self, snapshot: &Snapshot, base: Base<'_>) -> Result<Option<Lacking>, PipeError> {
        let edits = edit::between(base.text, &snapshot.text);
        let edits = serde_json::to_vec(&edits).map_err(|error| PipeError::Refused(error.to_string()))?;
        if edits.len() > snapshot.text.len() / 2 {
            return Ok(None);
        }
        let (snapshot, base) = (snapshot.digest.clone(), base.digest.clone());
        self.ask_packed(&Request::OfferEdits { snapshot, base, size: edits.len() as u64 }, &edits)
    }

    fn ask_packed(&mut self, request: &Request, body: &[u8]) -> Result<Option<Lacking>, PipeError> {
        let packed = zstd::bulk::compress(body, 1).map_err(|error| PipeError::Refused(error.to_string()))?;
        let (blobs, free) = match self.ask(request, &[&packed])? {
            Answer::Missing { blobs, free, .. } => (blobs, free),
            Answer::Has { there: false } => {
                self.parts(&[])?;
                return Ok(None);
            }
            _ => return Err(PipeError::Dropped),
        };
        let names = self.parts(&[blobs.saturating_mul(32)])?.concat();
        let name = |raw: &[u8; 32]| Digest(blake3::Hash::from_bytes(*raw).to_hex().to_string());
        Ok(Some((names.as_chunks::<32>().0.iter().map(name).collect(), free)))
    }
}

/// What a site does not have, and how much is free there.
type Lacking = (HashSet<Digest>, u64);

struct Wanted<'a> {
    digest: [u8; 32],
    path: &'a Path,
    size: u64,
}

/// In the order of the paths, which is about the order on the disk.
fn wanted(snapshot: &Snapshot, mut missing: HashSet<Digest>) -> Vec<Wanted<'_>> {
    let mut files = Vec::with_capacity(missing.len());
    for entry in &snapshot.manifest.entries {
        if let Kind::File { blob, size, .. } = &entry.kind
            && missing.remove(blob)
            && let Ok(digest) = blake3::Hash::from_hex(&blob.0)
            && let Some(path) = snapshot.files.get(blob)
        {
            files.push(Wanted { digest: *digest.as_bytes(), path, size: *size });
        }
    }
    files
}

/// What one thread packs at a time.
enum Unit<'a> {
    Small { number: usize, files: &'a [Wanted<'a>] },
    Piece { file: &'a Wanted<'a>, offset: u64, length: usize },
}

fn units<'a>(files: &'a [Wanted<'a>]) -> Vec<Unit<'a>> {
    const ROOM: usize = BLOCK - RECORD;
    let mut units = Vec::new();
    let mut rest = files;
    while let Some((first, after)) = rest.split_first() {
        if first.size > ROOM as u64 {
            let mut offset = 0;
            while offset < first.size {
                let length = usize::try_from(first.size - offset).unwrap_or(ROOM).min(ROOM);
                units.push(Unit::Piece { file: first, offset, length });
                offset += length as u64;
            }
            rest = after;
            continue;
        }
        let mut full = 0;
        let fits = |file: &&Wanted<'_>| {
            full += file.size + RECORD as u64;
            full <= BLOCK as u64
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (files, after) = rest.split_at(count);
        units.push(Unit::Small { number: units.len(), files });
        rest = after;
    }
    units
}

struct Packed {
    frames: Vec<Vec<u8>>,
    bytes: u64,
}

/// What a thread keeps from one unit to the next: memory that was used just now costs nothing.
struct Bench {
    packer: Packer,
    content: Vec<u8>,
    soft: Vec<u8>,
    hard: Vec<u8>,
}

fn pack(unit: &Unit<'_>) -> Result<Packed, TransferError> {
    thread_local! {
        static BENCH: std::cell::RefCell<Option<Bench>> = const { std::cell::RefCell::new(None) };
    }
    BENCH.with_borrow_mut(|bench| match bench {
        Some(bench) => bench.pack(unit),
        None => bench.insert(Bench::new()?).pack(unit),
    })
}

impl Bench {
    fn new() -> Result<Self, TransferError> {
        let packer = Packer::new().map_err(unpacked)?;
        Ok(Self { packer, content: Vec::new(), soft: Vec::new(), hard: Vec::new() })
    }

    fn pack(&mut self, unit: &Unit<'_>) -> Result<Packed, TransferError> {
        self.soft.clear();
        self.hard.clear();
        let (lanes, bytes) = match unit {
            Unit::Small { number, files } => {
                for file in *files {
                    read_whole(file, &mut self.content)?;
                    self.put(file, 0);
                }
                let [lane, ..] = number.to_le_bytes();
                ([lane, lane.wrapping_add(1)], files.iter().map(|file| file.size).sum())
            }
            Unit::Piece { file, offset, length } => {
                read_piece(file, *offset, *length, &mut self.content)?;
                self.put(file, *offset);
                let [lane, ..] = file.digest;
                ([lane, lane], *length as u64)
            }
        };
        let mut frames = Vec::with_capacity(2);
        let blocks = [(&self.soft, Worth::Compressing), (&self.hard, Worth::SendingAsIs)];
        for ((block, worth), lane) in blocks.into_iter().zip(lanes) {
            if !block.is_empty() {
                frames.push(self.packer.pack(lane, block, worth).map_err(unpacked)?);
            }
        }
        Ok(Packed { frames, bytes })
    }

    fn put(&mut self, file: &Wanted<'_>, offset: u64) {
        let block = if looks_compressible(&self.content) { &mut self.soft } else { &mut self.hard };
        Record { digest: file.digest, total: file.size, offset, bytes: &self.content }.append(block);
    }
}

fn unpacked(source: io::Error) -> TransferError {
    TransferError::Read { path: "the compressor".into(), source }
}

/// Another length than at the scan is a change; other bytes of the same length are seen at the site.
fn read_whole(file: &Wanted<'_>, bytes: &mut Vec<u8>) -> Result<(), TransferError> {
    // One byte more than there should be shows that the file has grown.
    bytes.resize(usize::try_from(file.size).unwrap_or(BLOCK) + 1, 0);
    let read = File::open(file.path).and_then(|mut open| fill(&mut open, bytes));
    match read {
        Ok(count) if count as u64 == file.size => {
            bytes.truncate(count);
            Ok(())
        }
        Ok(_) => Err(changed(file)),
        Err(error) => Err(unreadable(file, error)),
    }
}

/// As many bytes as there are, or as fit.
fn fill(file: &mut File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while let Some(rest) = bytes.get_mut(count..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

fn read_piece(file: &Wanted<'_>, offset: u64, length: usize, bytes: &mut Vec<u8>) -> Result<(), TransferError> {
    bytes.resize(length, 0);
    let open = File::open(file.path).map_err(|error| unreadable(file, error))?;
    match open.read_exact_at(bytes, offset) {
        Ok(()) if open.metadata().is_ok_and(|data| data.len() == file.size) => Ok(()),
        Ok(()) => Err(changed(file)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(changed(file)),
        Err(error) => Err(unreadable(file, error)),
    }
}

fn changed(file: &Wanted<'_>) -> TransferError {
    TransferError::Changed { path: file.path.to_owned() }
}

fn unreadable(file: &Wanted<'_>, source: io::Error) -> TransferError {
    if source.kind() == io::ErrorKind::NotFound {
        return changed(file);
    }
    TransferError::Read { path: file.path.to_owned(), source }
}
