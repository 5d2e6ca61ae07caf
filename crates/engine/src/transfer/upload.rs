//! A snapshot to a depot: one question if it is there, else what is missing in one stream.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use trainyard_agent::pipe::block::{BLOCK, Packer, RECORD, Record, Worth, looks_compressible};
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

/// After this the snapshot is in the depot, whole. A failure leaves what arrived whole, and no snapshot.
pub fn upload(pipe: &mut Pipe, snapshot: &Snapshot, progress: &mut dyn FnMut(Progress)) -> Result<Sent, TransferError> {
    if pipe.has(&snapshot.digest)? {
        return Ok(Sent::default());
    }
    let manifest = snapshot.manifest.bytes();
    let (missing, free) = pipe.offer(&snapshot.digest, &manifest)?;
    if missing.is_empty() {
        return Ok(Sent::default());
    }
    let files = wanted(snapshot, &missing);
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
    fn offer(&mut self, snapshot: &Digest, manifest: &[u8]) -> Result<(BTreeSet<Digest>, u64), PipeError> {
        let packed = zstd::bulk::compress(manifest, 1).map_err(|error| PipeError::Refused(error.to_string()))?;
        let request = Request::Offer { snapshot: snapshot.clone(), size: manifest.len() as u64 };
        let Answer::Missing { blobs, free, .. } = self.ask(&request, &[&packed])? else {
            return Err(PipeError::Dropped);
        };
        let names = self.parts(&[blobs.saturating_mul(32)])?.concat();
        let name = |raw: &[u8; 32]| Digest(blake3::Hash::from_bytes(*raw).to_hex().to_string());
        Ok((names.as_chunks::<32>().0.iter().map(name).collect(), free))
    }
}

struct Wanted<'a> {
    digest: [u8; 32],
    path: &'a Path,
    size: u64,
}

/// In the order of the paths, which is about the order on the disk.
fn wanted<'a>(snapshot: &'a Snapshot, missing: &BTreeSet<Digest>) -> Vec<Wanted<'a>> {
    let mut left: BTreeMap<&Digest, &Path> = snapshot
        .files
        .iter()
        .filter(|(digest, _)| missing.contains(digest))
        .map(|(digest, path)| (digest, path.as_path()))
        .collect();
    let mut files = Vec::with_capacity(left.len());
    for entry in &snapshot.manifest.entries {
        if let Kind::File { blob, size, .. } = &entry.kind
            && let Some(path) = left.remove(blob)
            && let Ok(digest) = blake3::Hash::from_hex(&blob.0)
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

fn pack(unit: &Unit<'_>) -> Result<Packed, TransferError> {
    thread_local! {
        static PACKER: std::cell::RefCell<Option<Packer>> = const { std::cell::RefCell::new(None) };
    }
    let packing = |source| TransferError::Read { path: "the compressor".into(), source };
    PACKER.with_borrow_mut(|packer| {
        let packer = match packer {
            Some(packer) => packer,
            None => packer.insert(Packer::new().map_err(packing)?),
        };
        let mut frames = Vec::with_capacity(2);
        let mut keep = |lane, block: &[u8], worth| -> Result<(), TransferError> {
            if !block.is_empty() {
                frames.push(packer.pack(lane, block, worth).map_err(packing)?);
            }
            Ok(())
        };
        match unit {
            Unit::Small { number, files } => {
                let (mut soft, mut hard) = (Vec::with_capacity(BLOCK), Vec::new());
                for file in *files {
                    let bytes = read_whole(file)?;
                    let block = if looks_compressible(&bytes) { &mut soft } else { &mut hard };
                    Record { digest: file.digest, total: file.size, offset: 0, bytes: &bytes }.append(block);
                }
                let [lane, ..] = number.to_le_bytes();
                keep(lane, &soft, Worth::Compressing)?;
                keep(lane.wrapping_add(1), &hard, Worth::SendingAsIs)?;
                Ok(Packed { frames, bytes: files.iter().map(|file| file.size).sum() })
            }
            Unit::Piece { file, offset, length } => {
                let bytes = read_piece(file, *offset, *length)?;
                let worth = if looks_compressible(&bytes) { Worth::Compressing } else { Worth::SendingAsIs };
                let mut block = Vec::with_capacity(bytes.len() + RECORD);
                Record { digest: file.digest, total: file.size, offset: *offset, bytes: &bytes }.append(&mut block);
                let [lane, ..] = file.digest;
                keep(lane, &block, worth)?;
                Ok(Packed { frames, bytes: bytes.len() as u64 })
            }
        }
    })
}

/// Another length than at the scan is a change; other bytes of the same length are seen at the site.
fn read_whole(file: &Wanted<'_>) -> Result<Vec<u8>, TransferError> {
    let mut bytes = Vec::with_capacity(usize::try_from(file.size).unwrap_or(0) + 1);
    let read = File::open(file.path).and_then(|open| open.take(file.size + 1).read_to_end(&mut bytes));
    match read {
        Ok(_) if bytes.len() as u64 == file.size => Ok(bytes),
        Ok(_) => Err(changed(file)),
        Err(error) => Err(unreadable(file, error)),
    }
}

fn read_piece(file: &Wanted<'_>, offset: u64, length: usize) -> Result<Vec<u8>, TransferError> {
    let mut bytes = vec![0; length];
    let open = File::open(file.path).map_err(|error| unreadable(file, error))?;
    match open.read_exact_at(&mut bytes, offset) {
        Ok(()) if open.metadata().is_ok_and(|data| data.len() == file.size) => Ok(bytes),
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
