//! A layer's bytes on their way to the tar reader: read, decompressed and checked on threads of their own.

use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use flate2::bufread::MultiGzDecoder;
use sha2::{Digest as _, Sha256};

use crate::digest::Digest;
use crate::error::{Error, Reading, Result};
use crate::image::Layer;
use crate::range::Skip;
use crate::shared::{Buffers, Shared};

/// So large that few blocks of files lie in two of them.
const CHUNK: usize = 1 << 20;
/// Read and hashed at a time: what was just read is still near the processor.
const STEP: usize = 128 << 10;
/// Between two threads.
const WAITING: usize = 3;
/// After the end of the tar. Writers fill up to 10 KiB.
const MOST_TRAILING: u64 = 64 << 20;

/// How a layer is stored, told by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Gzip,
    Zstd,
}

impl Packing {
    fn of(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            // A frame to be skipped, as writers of seekable archives put before the first.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::Plain,
        }
    }
}

/// The uncompressed bytes of a layer. [`Flow::finish`] says whether they were the promised ones.
pub(crate) struct Flow {
    chunks: Receiver<io::Result<Shared>>,
    chunk: Shared,
    place: String,
    layer: Layer,
    end: JoinHandle<Option<End>>,
}

/// What there is when all was read.
struct End {
    /// Of the layer as stored, and of its tar.
    stored: Digest,
    plain: Digest,
    buffers: Buffers,
}

/// What layers are read into, one after the other.
pub(crate) fn buffers() -> Buffers {
    Buffers::new(CHUNK)
}

impl Flow {
    /// Adds what it reads of the layer as stored to `count`. `buffers` come back at its end.
    pub(crate) fn new(
        input: Box<dyn Read + Send>,
        layer: &Layer,
        place: &str,
        count: &Arc<AtomicU64>,
        buffers: Buffers,
    ) -> Self {
        let (chunks_out, chunks) = sync_channel(WAITING);
        let raw =
            Raw { input, hasher: None, count: 0, all: Arc::clone(count), most: layer.size, place: place.to_owned() };
        let end = std::thread::spawn(move || match produce(raw, &chunks_out, buffers) {
            Ok(end) => end,
            Err(error) => {
                // Nobody listens: then nobody needs to know.
                let _ = chunks_out.send(Err(error));
                None
            }
        });
        Self { chunks, chunk: Shared::default(), place: place.to_owned(), layer: layer.clone(), end }
    }

    /// Goes to the next chunk if nothing is left of this one; false at the end.
    fn advance(&mut self) -> io::Result<bool> {
        while self.chunk.is_empty() {
            match self.chunks.recv() {
                Ok(chunk) => self.chunk = chunk?,
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Reads what is left and compares the digests.
    pub(crate) fn finish(mut self) -> Result<Buffers> {
        let mut trailing = 0;
        self.chunk = Shared::default();
        while self.advance().reading(|| self.place.clone())? {
            trailing += self.chunk.len() as u64;
            if trailing > MOST_TRAILING {
                return Err(Error::malformed(&self.place, "goes on and on after the end of its tar"));
            }
            self.chunk = Shared::default();
        }
        let broken = || Error::malformed(&self.place, "could not be read to its end");
        let End { stored, plain, buffers } = self.end.join().ok().flatten().ok_or_else(broken)?;
        for (expected, found) in [(self.layer.digest, stored), (self.layer.diff_id, plain)] {
            if let Some(expected) = expected.filter(|expected| *expected != found) {
                return Err(Error::Digest { what: self.place, expected, found });
            }
        }
        Ok(buffers)
    }
}

impl Read for Flow {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.advance()? {
            return Ok(0);
        }
        let count = buffer.len().min(self.chunk.len());
        buffer[..count].copy_from_slice(&self.chunk[..count]);
        self.chunk.skip(count);
        Ok(count)
    }
}

impl Skip for Flow {
    fn skip(&mut self, mut count: u64) -> io::Result<()> {
        while count > 0 {
            if !self.advance()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let here = usize::try_from(count).unwrap_or(usize::MAX).min(self.chunk.len());
            self.chunk.skip(here);
            count -= here as u64;
        }
        Ok(())
    }

    fn share(&mut self, count: usize) -> io::Result<Option<Shared>> {
        self.advance()?;
        Ok((count <= self.chunk.len()).then(|| self.chunk.take(count)))
    }
}

/// Sends what it reads, until it ends or nobody listens any more.
fn produce(raw: Raw, chunks: &SyncSender<io::Result<Shared>>, mut buffers: Buffers) -> io::Result<Option<End>> {
    let mut decoder = Decoder::new(raw)?;
    let mut hashing = Hashing::new(&decoder);
    loop {
        let mut buffer = buffers.take();
        let length = fill(decoder.input(), &mut buffer, &mut hashing)?;
        if length == 0 {
            let stored = decoder.finish();
            buffers.put_back(buffer);
            let end = |plain: Digest| End { stored: stored.unwrap_or_else(|| plain.clone()), plain, buffers };
            return Ok(hashing.finish().map(end));
        }
        let chunk = buffers.lend(buffer, length);
        if !hashing.chunk(&chunk) || chunks.send(Ok(chunk)).is_err() {
            return Ok(None);
        }
    }
}

/// The digest of a tar: where it is only read, by whoever reads it; where it is decompressed, which takes longer than hashing, on
/// a thread of its own.
enum Hashing {
    Here(Sha256),
    There { chunks: SyncSender<Shared>, digest: JoinHandle<Digest> },
}

impl Hashing {
    fn new(decoder: &Decoder) -> Self {
        if let Decoder::Plain(_) = decoder {
            return Self::Here(Sha256::new());
        }
        let (chunks, sent) = sync_channel::<Shared>(WAITING);
        let digest = std::thread::spawn(move || {
            let mut hasher = Sha256::new();
            sent.iter().for_each(|chunk| hasher.update(&*chunk));
            Digest::finished(hasher)
        });
        Self::There { chunks, digest }
    }

    /// Each step.
    fn step(&mut self, bytes: &[u8]) {
        if let Self::Here(hasher) = self {
            hasher.update(bytes);
        }
    }

    /// And each chunk of steps; false when the other thread has broken off.
    fn chunk(&self, chunk: &Shared) -> bool {
        match self {
            Self::Here(_) => true,
            Self::There { chunks, .. } => chunks.send(chunk.clone()).is_ok(),
        }
    }

    fn finish(self) -> Option<Digest> {
        match self {
            Self::Here(hasher) => Some(Digest::finished(hasher)),
            Self::There { chunks, digest } => {
                drop(chunks);
                digest.join().ok()
            }
        }
    }
}

/// Reads until the buffer is full or the input ends.
fn fill(input: &mut dyn Read, buffer: &mut [u8], hashing: &mut Hashing) -> io::Result<usize> {
    let mut at = 0;
    while at < buffer.len() {
        let until = buffer.len().min(at + STEP);
        match input.read(&mut buffer[at..until]) {
            Ok(0) => break,
            Ok(count) => {
                hashing.step(&buffer[at..at + count]);
                at += count;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(at)
}

/// Counts and hashes the bytes of a blob as they are stored.
struct Raw {
    input: Box<dyn Read + Send>,
    hasher: Option<Sha256>,
    count: u64,
    all: Arc<AtomicU64>,
    most: Option<u64>,
    place: String,
}

impl Read for Raw {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.count += count as u64;
        self.all.fetch_add(count as u64, Ordering::Relaxed);
        let told = self.most.unwrap_or(u64::MAX);
        if self.count > told || (count == 0 && self.most.is_some_and(|told| self.count < told)) {
            let why = format!("has another size than the {told} bytes that its manifest promises");
            return Err(Error::malformed(&self.place, why).into());
        }
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&buffer[..count]);
        }
        Ok(count)
    }
}

type Front = io::Chain<io::Cursor<Vec<u8>>, Raw>;

enum Decoder {
    Plain(Box<Front>),
    Gzip(Box<MultiGzDecoder<BufReader<Front>>>),
    Zstd(Box<zstd::Decoder<'static, BufReader<Front>>>),
}

impl Decoder {
    fn new(mut raw: Raw) -> io::Result<Self> {
        let mut start = Vec::new();
        raw.by_ref().take(4).read_to_end(&mut start)?;
        let packing = Packing::of(&start);
        raw.hasher = (packing != Packing::Plain).then(|| Sha256::new_with_prefix(&start));
        let front = io::Cursor::new(start).chain(raw);
        Ok(match packing {
            Packing::Plain => Self::Plain(Box::new(front)),
            Packing::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(BufReader::with_capacity(CHUNK, front)))),
            Packing::Zstd => Self::Zstd(Box::new(zstd::Decoder::with_buffer(BufReader::with_capacity(CHUNK, front))?)),
        })
    }

    fn input(&mut self) -> &mut dyn Read {
        match self {
            Self::Plain(input) => input,
            Self::Gzip(input) => input,
            Self::Zstd(input) => input,
        }
    }

    fn finish(self) -> Option<Digest> {
        let front = match self {
            Self::Plain(front) => *front,
            Self::Gzip(decoder) => decoder.into_inner().into_inner(),
            Self::Zstd(decoder) => decoder.finish().into_inner(),
        };
        front.into_inner().1.hasher.map(Digest::finished)
    }
}
