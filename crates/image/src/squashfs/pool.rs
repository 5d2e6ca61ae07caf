//! Blocks are compressed by many threads and come out in the order in which they went in.
//!
//! They go in batches: to wake a thread up costs as much as it takes to compress some kilobytes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Error;
use crate::fingerprint::{Print, Short, short};
use crate::reuse::Reuse;
use crate::shared::{Block, Buffers, Shared};
use crate::squashfs::codec::{Compressor, room};
use crate::squashfs::{BLOCK, Codec};

/// A batch is complete when its blocks have so many bytes,
const BATCH: usize = 1 << 20;
/// or when so much happened in it.
const MOST_EVENTS: usize = 1024;
/// For what becomes of a batch: before its last block, it has less than [`BATCH`].
const PACKED: usize = BATCH + room(BLOCK);

/// What happens to the output, in order. `T` is a block on its way in or out.
pub(crate) enum Event<T> {
    /// A block of the file that is being written.
    Block(T),
    /// Blocks of zeros in it.
    Hole(u64),
    /// It is complete, with so many bytes.
    End(u64),
    /// A block of small files.
    Fragment(T),
}

/// A block as it comes.
pub(crate) struct Plain {
    pub(crate) block: Block,
    /// Of a list of what is in the block, from whoever has that at hand.
    pub(crate) print: Option<Print>,
}

/// What becomes of a block.
pub(crate) enum Stored {
    New(NewBlock),
    /// The same as a block of a file that came before it, by the print of that.
    Again(Print),
}

/// A block as it will be stored.
pub(crate) struct NewBlock {
    pub(crate) bytes: Shared,
    pub(crate) is_packed: bool,
    /// Of the block before it was compressed.
    pub(crate) plain: Print,
    /// BLAKE3 of `bytes`.
    pub(crate) stored: [u8; 32],
    /// An earlier image has it.
    pub(crate) is_reused: bool,
}

struct Batch<T> {
    number: u64,
    events: Vec<Event<T>>,
}

/// Nobody takes what is given: the writer has ended, and knows why.
pub(crate) struct Gone;

impl From<Gone> for Error {
    fn from(_: Gone) -> Self {
        Self::Cancelled
    }
}

/// The end where blocks go in.
pub(crate) struct Input {
    batches: SyncSender<Batch<Plain>>,
    /// One in it for each batch that has not come out.
    waiting: SyncSender<()>,
    empty: Receiver<Vec<u8>>,
    events: Vec<Event<Plain>>,
    bytes: usize,
    next: u64,
}

/// The end where they come out.
pub(crate) struct Output {
    batches: Receiver<Batch<Stored>>,
    waiting: Receiver<()>,
    early: HashMap<u64, Vec<Event<Stored>>>,
    next: u64,
}

/// Starts `threads` threads, which end when either end is dropped.
pub(crate) fn pool(codec: Codec, threads: usize, reuse: &Arc<Reuse>) -> (Input, Output) {
    // Few that wait to be compressed, so that they are still near the processor; many that wait for the disk.
    let (batches, taken) = sync_channel(threads);
    let (waiting, left) = sync_channel(32 + 2 * threads);
    let (done, come) = channel();
    let (empty_out, empty) = channel();
    let (taken, seen) = (Arc::new(Mutex::new(taken)), Arc::default());
    for _ in 0..threads {
        let (compressor, buffers) = (codec.compressor(), Buffers::new(PACKED));
        let (empty, reuse) = (empty_out.clone(), Arc::clone(reuse));
        let worker = Worker { compressor, buffers, empty, reuse, seen: Arc::clone(&seen) };
        let (taken, done) = (Arc::clone(&taken), done.clone());
        std::thread::spawn(move || worker.run(&taken, &done));
    }
    let input = Input { batches, waiting, empty, events: Vec::new(), bytes: 0, next: 0 };
    (input, Output { batches: come, waiting: left, early: HashMap::new(), next: 0 })
}

/// A thread that compresses.
struct Worker {
    compressor: Compressor,
    buffers: Buffers,
    empty: Sender<Vec<u8>>,
    reuse: Arc<Reuse>,
    seen: Arc<Seen>,
}

/// The first batch that has a block, of all files' blocks so far.
#[derive(Default)]
struct Seen(Mutex<HashMap<Short, u64>>);

impl Seen {
    /// Whether the block comes out earlier than what is added now.
    fn is_known(&self, print: &Print, batch: u64) -> bool {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(short(print)) {
            Entry::Vacant(place) => {
                place.insert(batch);
                false
            }
            // It may be that another thread is ahead with what comes later.
            Entry::Occupied(mut first) => {
                let is_known = *first.get() <= batch;
                if !is_known {
                    first.insert(batch);
                }
                is_known
            }
        }
    }
}

/// A block of which is known what it becomes, and not yet where that lies.
enum Packed {
    New(NewPacked),
    Again(Print),
}

struct NewPacked {
    /// Taken from the batch's buffer, or as it came.
    bytes: Result<usize, Shared>,
    is_packed: bool,
    plain: Print,
    stored: [u8; 32],
    is_reused: bool,
}

impl Worker {
    fn run(mut self, taken: &Mutex<Receiver<Batch<Plain>>>, done: &Sender<Batch<Stored>>) {
        loop {
            let batch = taken.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Batch { number, events }) = batch else { return };
            let (mut buffer, mut filled) = (self.buffers.take(), 0);
            let work = |event: Event<Plain>| event.map(|plain| self.pack(number, plain, &mut buffer, &mut filled));
            let packed: Vec<_> = events.into_iter().map(work).collect();
            let mut bytes = self.buffers.lend(buffer, filled);
            let events = packed.into_iter().map(|event| event.map(|packed| packed.stored(&mut bytes))).collect();
            if done.send(Batch { number, events }).is_err() {
                return;
            }
        }
    }

    /// Adds what the block becomes to what the buffer is filled with, unless that lies somewhere already.
    fn pack(&mut self, batch: u64, plain: Plain, buffer: &mut [u8], filled: &mut usize) -> Packed {
        let Plain { block, print } = plain;
        let packed = match print {
            // A list of small files, of which each one was new.
            Some(list) => Packed::New(self.pack_new(list, &block, buffer, filled)),
            None => {
                let print = self.reuse.prints().of(&block);
                if self.seen.is_known(&print, batch) {
                    Packed::Again(print)
                } else {
                    Packed::New(self.pack_new(print, &block, buffer, filled))
                }
            }
        };
        if let Block::Own(block) = block {
            // Nobody may want it back.
            let _ = self.empty.send(block);
        }
        packed
    }

    fn pack_new(&mut self, plain: Print, block: &Block, buffer: &mut [u8], filled: &mut usize) -> NewPacked {
        let room = &mut buffer[*filled..*filled + room(BLOCK)];
        let known = self.reuse.find(&plain, &mut room[..block.len()]);
        let packed = if let Some(known) = known {
            let (bytes, is_packed, stored) = (Ok(known.length as usize), known.is_packed, known.stored);
            NewPacked { bytes, is_packed, plain, stored, is_reused: true }
        } else if let Some(length) = self.compressor.compress_into(block, room) {
            let stored = *blake3::hash(&room[..length]).as_bytes();
            NewPacked { bytes: Ok(length), is_packed: true, plain, stored, is_reused: false }
        } else {
            let stored = *blake3::hash(block).as_bytes();
            let bytes = match block {
                Block::Shared(bytes) => Err(bytes.clone()),
                Block::Own(bytes) => {
                    room[..bytes.len()].copy_from_slice(bytes);
                    Ok(bytes.len())
                }
            };
            NewPacked { bytes, is_packed: false, plain, stored, is_reused: false }
        };
        *filled += packed.bytes.as_ref().ok().unwrap_or(&0);
        packed
    }
}

impl Packed {
    /// With its bytes, which are the next of those of its batch.
    fn stored(self, batch: &mut Shared) -> Stored {
        match self {
            Self::New(NewPacked { bytes, is_packed, plain, stored, is_reused }) => {
                let bytes = bytes.map_or_else(|shared| shared, |length| batch.take(length));
                Stored::New(NewBlock { bytes, is_packed, plain, stored, is_reused })
            }
            Self::Again(print) => Stored::Again(print),
        }
    }
}

impl<T> Event<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Event<U> {
        match self {
            Self::Block(block) => Event::Block(change(block)),
            Self::Hole(count) => Event::Hole(count),
            Self::End(size) => Event::End(size),
            Self::Fragment(block) => Event::Fragment(change(block)),
        }
    }
}

impl Input {
    /// A block with anything in it, to be filled.
    pub(crate) fn block(&self) -> Vec<u8> {
        let mut block = self.empty.try_recv().unwrap_or_default();
        block.resize(BLOCK, 0);
        block
    }

    /// Room for a block, with nothing in it.
    pub(crate) fn room(&self) -> Vec<u8> {
        let mut block = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(BLOCK));
        block.clear();
        block
    }

    pub(crate) fn add(&mut self, event: Event<Plain>) -> Result<(), Gone> {
        if let Event::Block(plain) | Event::Fragment(plain) = &event {
            self.bytes += plain.block.len();
        }
        self.events.push(event);
        if self.bytes < BATCH && self.events.len() < MOST_EVENTS {
            return Ok(());
        }
        self.send()
    }

    /// What does not fill a batch waits for more, or for this. Waits itself until there is room.
    pub(crate) fn send(&mut self) -> Result<(), Gone> {
        self.waiting.send(()).map_err(|_| Gone)?;
        let (number, events) = (self.next, std::mem::take(&mut self.events));
        self.next += 1;
        self.bytes = 0;
        self.batches.send(Batch { number, events }).map_err(|_| Gone)
    }
}

impl Iterator for Output {
    type Item = Vec<Event<Stored>>;

    fn next(&mut self) -> Option<Self::Item> {
        let events = loop {
            if let Some(events) = self.early.remove(&self.next) {
                break events;
            }
            let Batch { number, events } = self.batches.recv().ok()?;
            self.early.insert(number, events);
        };
        self.next += 1;
        // There is one for each batch.
        let _ = self.waiting.recv();
        Some(events)
    }
}
