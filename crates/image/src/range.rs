//! Part of a file, and inputs of which parts can be passed over.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::shared::Shared;

/// Part of a file that is read without moving anybody else's position in it.
#[derive(Debug, Clone)]
pub struct FileRange {
    file: Arc<File>,
    position: u64,
    end: u64,
}

impl FileRange {
    pub fn new(file: Arc<File>, offset: u64, length: u64) -> Self {
        Self { file, position: offset, end: offset.saturating_add(length) }
    }

    /// The whole of a file.
    pub fn whole(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self::new(Arc::new(file), 0, length))
    }

    pub fn left(&self) -> u64 {
        self.end - self.position
    }

    /// Goes on `count` bytes later, or at the end.
    pub fn skip(&mut self, count: u64) {
        self.position += count.min(self.left());
    }
}

impl Read for FileRange {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(usize::try_from(self.left()).unwrap_or(usize::MAX));
        let count = self.file.read_at(&mut buffer[..most], self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

/// Bytes that can be passed over, which some inputs do without reading them.
pub(crate) trait Skip: Read {
    /// Fails at the end of the input, if that comes first.
    fn skip(&mut self, count: u64) -> io::Result<()>;

    /// The next `count` bytes where they lie, if they lie together in memory; otherwise they are still to be read.
    fn share(&mut self, _count: usize) -> io::Result<Option<Shared>> {
        Ok(None)
    }
}

impl Skip for FileRange {
    fn skip(&mut self, count: u64) -> io::Result<()> {
        if count > self.left() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::skip(self, count);
        Ok(())
    }
}
