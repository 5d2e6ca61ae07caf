//! The output while it grows: written in large pieces, and brought to the disk meanwhile, so that its end waits for little.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::shared::{Buffers, Shared};

/// Written at once.
const PIECE: usize = 1 << 20;
/// Between two looks at whether the disk has time.
const SYNC_EVERY: u64 = 32 << 20;

/// A file to whose end blocks are added.
pub(crate) struct Growing {
    file: File,
    waiting: Vec<Shared>,
    bytes: usize,
    /// Where the first of them goes.
    start: u64,
    unsynced: u64,
    wanted: SyncSender<()>,
    syncing: JoinHandle<io::Result<()>>,
}

impl Growing {
    /// Goes on at `start`.
    pub(crate) fn new(file: File, start: u64) -> io::Result<Self> {
        let other = file.try_clone()?;
        // Nothing waits in it: who cannot sync now is asked again later.
        let (wanted, asked) = sync_channel(0);
        let syncing = std::thread::spawn(move || asked.iter().try_for_each(|()| other.sync_data()));
        Ok(Self { file, waiting: Vec::new(), bytes: 0, start, unsynced: 0, wanted, syncing })
    }

    /// Where the next block goes.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes as u64
    }

    pub(crate) fn add(&mut self, block: Shared) -> io::Result<()> {
        self.bytes += block.len();
        self.waiting.push(block);
        if self.bytes < PIECE {
            return Ok(());
        }
        self.unsynced += self.bytes as u64;
        self.flush()?;
        if self.unsynced >= SYNC_EVERY && self.wanted.try_send(()).is_ok() {
            self.unsynced = 0;
        }
        Ok(())
    }

    /// Adds what was added before, once more.
    pub(crate) fn add_again(&mut self, offset: u64, length: u32) -> io::Result<()> {
        let length = length as usize;
        if offset + length as u64 > self.start {
            self.flush()?;
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, offset)?;
        self.add(Buffers::new(length).lend(bytes, length))
    }

    /// Goes on at an earlier place.
    pub(crate) fn back_to(&mut self, end: u64) -> io::Result<()> {
        if end < self.end() {
            self.flush()?;
            self.start = end;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut slices: Vec<IoSlice<'_>> = self.waiting.iter().map(|block| IoSlice::new(block)).collect();
        let mut rest = slices.as_mut_slice();
        while !rest.is_empty() {
            match rustix::io::pwritev(&self.file, rest, self.start) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    IoSlice::advance_slices(&mut rest, count);
                    self.start += count as u64;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.waiting.clear();
        self.bytes = 0;
        Ok(())
    }

    /// The file, when all is written. That it could not be synced is told only once, to whoever asked.
    pub(crate) fn finish(mut self) -> io::Result<File> {
        self.flush()?;
        drop(self.wanted);
        self.syncing.join().map_err(|_| io::Error::other("the thread that syncs has broken off"))??;
        Ok(self.file)
    }
}
