//! The memory that records pass through. One buffer serves any number of files in turn; it holds a record at most,
//! or [`CHUNK`] bytes, and never more than a file has to give.

use std::io::{self, Read};

/// Read at once. Small enough to stay in a core's cache between the copy and the checksum.
pub(crate) const CHUNK: usize = 256 * 1024;

/// A buffer that grew beyond this for one large record is given back afterwards.
const KEPT: usize = 4 * CHUNK;

/// Memory to read through, for use with [`crate::Reader::poll_with`].
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    /// How much memory it holds.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Starts a file with what an earlier call left unread.
    pub(crate) fn begin(&mut self, tail: &[u8]) {
        self.make_room(tail.len());
        self.start = 0;
        self.end = tail.len();
        if let Some(room) = self.bytes.get_mut(..tail.len()) {
            room.copy_from_slice(tail);
        }
    }

    #[inline]
    pub(crate) fn unread(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn consume(&mut self, size: usize) {
        self.start = self.end.min(self.start.saturating_add(size));
    }

    /// Reads until `wanted` bytes are unread or the source ends, and never past `left` new ones. Returns how many came.
    pub(crate) fn fill(&mut self, source: &mut impl Read, wanted: usize, left: u64) -> io::Result<u64> {
        self.bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let limit = self.end.saturating_add(left).min(wanted.max(CHUNK));
        self.make_room(limit);
        let before = self.end;
        while self.end < wanted {
            let Some(room) = self.bytes.get_mut(self.end..limit) else { break };
            match source.read(room) {
                Ok(0) => break,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok((self.end - before) as u64)
    }

    /// Ends a file: what was left unread, and the memory of an unusual record given back.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let tail = self.unread().to_vec();
        self.start = 0;
        self.end = 0;
        if self.bytes.capacity() > KEPT {
            self.bytes = Vec::new();
        }
        tail
    }

    fn make_room(&mut self, size: usize) {
        if let Some(more) = size.checked_sub(self.bytes.len()) {
            self.bytes.reserve_exact(more);
            self.bytes.resize(size, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_larger_than_what_is_left() {
        let mut buffer = Buffer::default();
        let source = [7_u8; 100];
        assert_eq!(buffer.fill(&mut &source[..], 1 << 40, 100).expect("memory"), 100);
        assert_eq!((buffer.unread().len(), buffer.capacity()), (100, 100));
    }

    #[test]
    fn what_is_unread_moves_to_the_front() {
        let mut buffer = Buffer::default();
        buffer.begin(b"abc");
        buffer.consume(2);
        assert_eq!(buffer.fill(&mut &b"defgh"[..], 3, 5).expect("memory"), 5);
        assert_eq!(buffer.unread(), b"cdefgh");
        assert_eq!(buffer.finish(), b"cdefgh");
        assert_eq!(buffer.unread(), b"");
    }
}
