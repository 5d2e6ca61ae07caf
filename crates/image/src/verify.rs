//! Bytes are compared with the digest they were promised under.

use std::io::{self, Read};

use crate::digest::Digest;
use crate::error::{Error, Result};

impl Digest {
    /// `bytes`, if they are what this digest names.
    pub fn check(&self, what: &str, bytes: &[u8]) -> Result<()> {
        let found = Self::of(bytes);
        if found == *self {
            return Ok(());
        }
        Err(Error::Digest { what: what.to_owned(), expected: self.clone(), found })
    }
}

/// Reads to the end and no further than `most`, and checks what was read.
pub(crate) fn read_checked(input: impl Read, most: u64, what: &str, digest: Option<&Digest>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read: io::Result<usize> = input.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|source| Error::Read { what: what.to_owned(), source })?;
    if bytes.len() as u64 > most {
        return Err(Error::malformed(what, format!("is larger than {most} bytes, which no image needs")));
    }
    if let Some(digest) = digest {
        digest.check(what, &bytes)?;
    }
    Ok(bytes)
}
