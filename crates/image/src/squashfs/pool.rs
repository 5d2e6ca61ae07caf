//! Blocks are compressed by many threads and come out in the order in which they went in.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Error;
use crate::reuse::Reuse;
use crate::shared::Block;
use crate::squashfs::{BLOCK, Codec};

/// A block as it will be stored.
pub(crate) struct Stored {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_packed: bool,
    /// Of the block before it was compressed (BLAKE3, or what somebody knew it by) and after (BLAKE3).
    pub(crate) plain: [u8; 32],
    pub(crate) stored: [u8; 32],
    /// It was compressed before.
    pub(crate) is_reused: bool,
}

/// What happens to the output, in order.
pub(crate) enum Event {
    /// A block of the file that is being written.
    Block(Stored),
    /// Blocks of zeros in it.
    Hole(u64),
    /// It is complete, with so many bytes.
    End(u64),
    /// A block of small files.
    Fragment(Stored),
}

#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    Block,
    Fragment,
}

struct Job {
    number: u64,
    purpose: Purpose,
    block: Block,
    plain: Option<[u8; 32]>,
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
    jobs: SyncSender<Job>,
    events: Sender<(u64, Event)>,
    /// One in it for each event that has not come out.
    waiting: SyncSender<()>,
    empty: Receiver<Vec<u8>>,
    next: u64,
}

/// The end where they come out.
pub(crate) struct Output {
    events: Receiver<(u64, Event)>,
    waiting: Receiver<()>,
    early: std::collections::HashMap<u64, Event>,
    next: u64,
}

/// Starts `threads` threads, which end when either end is dropped.
pub(crate) fn pool(codec: Codec, threads: usize, reuse: &Arc<Reuse>) -> (Input, Output) {
    let window = 32 + 8 * threads;
    let (jobs, taken) = sync_channel::<Job>(window);
    let (events, come) = channel();
    let (waiting, left) = sync_channel(window);
    let (empty_out, empty) = channel();
    let taken = Arc::new(Mutex::new(taken));
    for _ in 0..threads {
        let (taken, events, empty, reuse) = (Arc::clone(&taken), events.clone(), empty_out.clone(), Arc::clone(reuse));
        std::thread::spawn(move || work(codec, &taken, &events, &empty, &reuse));
    }
    let input = Input { jobs, events, waiting, empty, next: 0 };
    (input, Output { events: come, waiting: left, early: std::collections::HashMap::new(), next: 0 })
}

fn work(
    codec: Codec,
    taken: &Mutex<Receiver<Job>>,
    events: &Sender<(u64, Event)>,
    empty: &Sender<Vec<u8>>,
    reuse: &Reuse,
) {
    let mut compressor = codec.compressor();
    loop {
        let job = taken.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { number, purpose, block, plain }) = job else { return };
        let plain = plain.unwrap_or_else(|| *blake3::hash(&block).as_bytes());
        let stored = match reuse.find(&plain) {
            Some((bytes, stretch)) => {
                Stored { bytes, is_packed: stretch.is_packed, plain, stored: stretch.stored, is_reused: true }
            }
            None => match compressor.compress(&block) {
                Some(packed) => {
                    let stored = *blake3::hash(packed).as_bytes();
                    Stored { bytes: packed.to_vec(), is_packed: true, plain, stored, is_reused: false }
                }
                None => {
                    let stored = *blake3::hash(&block).as_bytes();
                    Stored { bytes: block.to_vec(), is_packed: false, plain, stored, is_reused: false }
                }
            },
        };
        if let Block::Own(block) = block {
            // Nobody may want it back.
            let _ = empty.send(block);
        }
        let event = match purpose {
            Purpose::Block => Event::Block(stored),
            Purpose::Fragment => Event::Fragment(stored),
        };
        if events.send((number, event)).is_err() {
            return;
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

    /// `plain` is a hash that only this block has, for whoever has one at hand.
    pub(crate) fn compress(&mut self, purpose: Purpose, block: Block, plain: Option<[u8; 32]>) -> Result<(), Gone> {
        let number = self.number()?;
        self.jobs.send(Job { number, purpose, block, plain }).map_err(|_| Gone)
    }

    pub(crate) fn tell(&mut self, event: Event) -> Result<(), Gone> {
        let number = self.number()?;
        self.events.send((number, event)).map_err(|_| Gone)
    }

    /// Waits until there is room for another event.
    fn number(&mut self) -> Result<u64, Gone> {
        self.waiting.send(()).map_err(|_| Gone)?;
        let number = self.next;
        self.next += 1;
        Ok(number)
    }
}

impl Iterator for Output {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let event = loop {
            if let Some(event) = self.early.remove(&self.next) {
                break event;
            }
            let (number, event) = self.events.recv().ok()?;
            self.early.insert(number, event);
        };
        self.next += 1;
        // There is one for each event.
        let _ = self.waiting.recv();
        Some(event)
    }
}
