//! What can go wrong, and where.

use std::io;
use std::path::PathBuf;

use crate::digest::Digest;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {what}")]
    Read { what: String, source: io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// Somebody's archive has something in it that no image may have.
    #[error("{place}: the entry `{entry}` {why}")]
    Entry { place: String, entry: String, why: String },
    /// An archive, manifest or configuration that is not what it should be.
    #[error("{place} {why}")]
    Malformed { place: String, why: String },
    #[error("{what} is damaged: its contents have the digest {found}, {expected} was promised")]
    Digest { what: String, expected: Digest, found: Digest },
    #[error("the image has no variant for {wanted}; it has {there}")]
    Platform { wanted: String, there: String },
    /// What a source outside of this crate, or one that talks to others, has to say.
    #[error(transparent)]
    Source(Box<dyn std::error::Error + Send + Sync>),
    /// The caller's progress function asked for an end.
    #[error("the conversion was cancelled")]
    Cancelled,
}

impl Error {
    pub(crate) fn malformed(place: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Malformed { place: place.into(), why: why.into() }
    }

    pub(crate) fn entry(place: &str, entry: &[u8], why: impl Into<String>) -> Self {
        Self::Entry { place: place.to_owned(), entry: shown(entry), why: why.into() }
    }
}

/// A name out of a foreign archive as it can stand in a message: one line, printable, not endless.
pub(crate) fn shown(name: &[u8]) -> String {
    const MOST: usize = 160;
    let text = String::from_utf8_lossy(name);
    let mut short: String = text.chars().take(MOST).flat_map(char::escape_debug).collect();
    if text.chars().nth(MOST).is_some() {
        short.push('…');
    }
    short
}

impl Error {
    /// Our own error travels through `Read` inside of an I/O error; here it comes out again.
    pub(crate) fn reading(error: io::Error, what: impl FnOnce() -> String) -> Self {
        error.downcast::<Self>().unwrap_or_else(|source| Self::Read { what: what(), source })
    }
}

/// `Error::Read` from an I/O error.
pub(crate) trait Reading<T> {
    fn reading(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Reading<T> for io::Result<T> {
    fn reading(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::reading(error, what))
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}
