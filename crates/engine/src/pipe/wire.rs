//! What carries the bytes: a child that speaks with us, or letters to a Ray cluster.

use std::io::{self, Read, Write};
use std::time::Duration;

use crate::host::Session;
use crate::ray::Letters;

#[derive(Debug)]
pub(super) enum Wire {
    Child(Session),
    Letters(Box<Letters>),
}

impl Wire {
    /// The longest silence.
    pub(super) fn limit(&self) -> Duration {
        match self {
            Self::Child(session) => session.limit,
            Self::Letters(letters) => letters.limit,
        }
    }

    pub(super) fn set_limit(&mut self, limit: Duration) {
        match self {
            Self::Child(session) => session.limit = limit,
            Self::Letters(letters) => letters.limit = limit,
        }
    }

    /// Whether there is something to read before all was said.
    pub(super) fn is_readable(&self) -> bool {
        match self {
            Self::Child(session) => session.is_readable(),
            Self::Letters(_) => false,
        }
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Child(session) => session.read(buffer),
            Self::Letters(letters) => letters.read(buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Child(session) => session.write(bytes),
            Self::Letters(letters) => letters.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Child(session) => session.flush(),
            Self::Letters(letters) => letters.flush(),
        }
    }
}
