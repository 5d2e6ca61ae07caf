//! Bytes that were written once and are looked at by several threads, where they lie.

use std::ops::{Deref, Range};
use std::sync::Arc;

/// Part of a buffer. When nobody has a part of it any more, its owner fills it again: new memory costs more than reading.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shared {
    buffer: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl Shared {
    /// The first `count` bytes or as many as there are, which are taken off from this.
    pub(crate) fn take(&mut self, count: usize) -> Self {
        let cut = self.range.start + count.min(self.len());
        let taken = Self { buffer: Arc::clone(&self.buffer), range: self.range.start..cut };
        self.range.start = cut;
        taken
    }

    /// Goes on `count` bytes later, or at the end.
    pub(crate) fn skip(&mut self, count: usize) {
        self.range.start += count.min(self.len());
    }
}

impl Deref for Shared {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

/// Buffers of one size, lent out by their owner.
#[derive(Debug)]
pub(crate) struct Buffers {
    size: usize,
    lent: Vec<Arc<Vec<u8>>>,
}

impl Buffers {
    pub(crate) fn new(size: usize) -> Self {
        Self { size, lent: Vec::new() }
    }

    /// One that nobody has a part of any more, with anything in it.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let back = self.lent.iter().position(|buffer| Arc::strong_count(buffer) == 1);
        let back = back.and_then(|at| Arc::into_inner(self.lent.swap_remove(at)));
        back.unwrap_or_else(|| vec![0; self.size])
    }

    /// Takes back one of which nothing was lent out.
    pub(crate) fn put_back(&mut self, buffer: Vec<u8>) {
        self.lent.push(Arc::new(buffer));
    }

    /// Lends out its first `length` bytes; there must be as many.
    pub(crate) fn lend(&mut self, buffer: Vec<u8>, length: usize) -> Shared {
        let buffer = Arc::new(buffer);
        self.lent.push(Arc::clone(&buffer));
        Shared { buffer, range: 0..length }
    }
}

/// A block of a file: a copy, or where it lies.
pub(crate) enum Block {
    Own(Vec<u8>),
    Shared(Shared),
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}
