//! A layer's bytes on their way to the tar reader: read, decompressed and checked on threads of their own.

use std::io::{self, BufReader, Read};
use std::ops::Deref;
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

const CHUNK: usize = 512 << 10;
/// Between two threads.
const WAITING: usize = 4;
/// After the end of the tar. Writers fill up to 10 KiB.
const MOST_TRAILING: u64 = 64 << 20;

/// Bytes for several readers. When all of them are done, their buffer is filled again: new memory costs more than reading.
#[derive(Clone, Default)]
struct Chunk {
    buffer: Arc<Vec<u8>>,
    length: usize,
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

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
    chunks: Receiver<io::Result<Chunk>>,
    chunk: Chunk,
    at: usize,
    place: String,
    layer: Layer,
    stored: JoinHandle<Option<Digest>>,
    plain: JoinHandle<Digest>,
}

impl Flow {
    /// Adds what it reads of the layer as stored to `count`.
    pub(crate) fn new(input: Box<dyn Read + Send>, layer: &Layer, place: &str, count: &Arc<AtomicU64>) -> Self {
        let (chunks_out, chunks) = sync_channel(WAITING);
        let (hashed_out, hashed) = sync_channel::<Chunk>(WAITING);
        let plain = std::thread::spawn(move || {
            let mut hasher = Sha256::new();
            hashed.iter().for_each(|chunk| hasher.update(&*chunk));
            Digest::finished(hasher)
        });
        let raw =
            Raw { input, hasher: None, count: 0, all: Arc::clone(count), most: layer.size, place: place.to_owned() };
        let stored = std::thread::spawn(move || produce(raw, &chunks_out, &hashed_out));
        Self { chunks, chunk: Chunk::default(), at: 0, place: place.to_owned(), layer: layer.clone(), stored, plain }
    }

    /// Makes the next chunk the current one; false at the end.
    fn next(&mut self) -> io::Result<bool> {
        match self.chunks.recv() {
            Ok(chunk) => {
                (self.chunk, self.at) = (chunk?, 0);
                Ok(true)
            }
            Err(_) => Ok(false),
        }
    }

    /// Reads what is left and compares the digests.
    pub(crate) fn finish(mut self) -> Result<()> {
        let mut trailing = 0;
        while self.next().reading(|| self.place.clone())? {
            trailing += self.chunk.len() as u64;
            if trailing > MOST_TRAILING {
                return Err(Error::malformed(&self.place, "goes on and on after the end of its tar"));
            }
        }
        let broken = || Error::malformed(&self.place, "could not be read to its end");
        let stored = self.stored.join().map_err(|_| broken())?;
        let plain = self.plain.join().map_err(|_| broken())?;
        // A plain tar is stored as it is.
        let stored = stored.unwrap_or_else(|| plain.clone());
        for (expected, found) in [(self.layer.digest, stored), (self.layer.diff_id, plain)] {
            if let Some(expected) = expected.filter(|expected| *expected != found) {
                return Err(Error::Digest { what: self.place, expected, found });
            }
        }
        Ok(())
    }
}

impl Read for Flow {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.chunk.len() {
            if !self.next()? {
                return Ok(0);
            }
        }
        let count = buffer.len().min(self.chunk.len() - self.at);
        buffer[..count].copy_from_slice(&self.chunk[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

impl Skip for Flow {
    fn skip(&mut self, mut count: u64) -> io::Result<()> {
        loop {
            let here = count.min((self.chunk.len() - self.at) as u64);
            self.at += usize::try_from(here).unwrap_or_default();
            count -= here;
            if count == 0 {
                return Ok(());
            }
            if !self.next()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Sends what it reads to the reader and to the hasher, until it ends or nobody listens any more. The digest is that of a
/// compressed layer as stored.
fn produce(raw: Raw, chunks: &SyncSender<io::Result<Chunk>>, hashed: &SyncSender<Chunk>) -> Option<Digest> {
    let mut decoder = match Decoder::new(raw) {
        Ok(decoder) => decoder,
        Err(error) => {
            // Nobody listens: then nobody needs to know.
            let _ = chunks.send(Err(error));
            return None;
        }
    };
    let mut buffers: Vec<Arc<Vec<u8>>> = Vec::new();
    loop {
        let spare = buffers.iter_mut().position(|buffer| Arc::get_mut(buffer).is_some());
        let spare = spare.unwrap_or_else(|| {
            buffers.push(Arc::new(vec![0; CHUNK]));
            buffers.len() - 1
        });
        // Nobody else has this one.
        let buffer = Arc::get_mut(&mut buffers[spare])?;
        let length = match fill(decoder.input(), buffer) {
            Ok(0) => return decoder.finish(),
            Ok(length) => length,
            Err(error) => {
                let _ = chunks.send(Err(error));
                return None;
            }
        };
        let chunk = Chunk { buffer: Arc::clone(&buffers[spare]), length };
        if hashed.send(chunk.clone()).is_err() || chunks.send(Ok(chunk)).is_err() {
            return None;
        }
    }
}

/// Reads until the buffer is full or the input ends.
fn fill(input: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut at = 0;
    while at < buffer.len() {
        match input.read(&mut buffer[at..]) {
            Ok(0) => break,
            Ok(count) => at += count,
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
