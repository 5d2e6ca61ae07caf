//! Which contents are the same, told from their fingerprints: HighwayHash under a key that only this user's own files have.
//!
//! It takes a third of the time of a hash that everybody could compute, and is as sure while nobody who makes images knows the
//! key: who does not know it cannot make contents of the same fingerprint as others. So a key is drawn by chance, stands in indexes
//! that are for their owner alone, and nothing of it ever gets into an image or to another machine.

use std::io;

use highway::{HighwayHash, HighwayHasher, Key};

/// Bytes of a [`Prints`] where it is kept.
pub(crate) const KEPT: usize = 64;

pub(crate) type Print = [u8; 32];

/// Enough of a print to tell the contents of one image apart.
pub(crate) type Short = [u8; 16];

pub(crate) fn short(print: &Print) -> Short {
    let mut short = Short::default();
    short.copy_from_slice(&print[..16]);
    short
}

/// What takes fingerprints; two of them see the same only if one was kept and read again as the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prints {
    bytes: [u64; 4],
    /// Another key, so that no bytes have the print of a list.
    list: [u64; 4],
}

impl Prints {
    /// As no other was and will be.
    pub(crate) fn new() -> io::Result<Self> {
        let mut key = [0; KEPT];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        Ok(Self::read(&key))
    }

    pub(crate) fn read(kept: &[u8; KEPT]) -> Self {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(kept.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let [a, b, c, d, e, f, g, h] = words;
        Self { bytes: [a, b, c, d], list: [e, f, g, h] }
    }

    pub(crate) fn keep(&self) -> Vec<u8> {
        self.bytes.iter().chain(&self.list).flat_map(|word| word.to_le_bytes()).collect()
    }

    pub(crate) fn of(&self, bytes: &[u8]) -> Print {
        print(HighwayHasher::new(Key(self.bytes)).hash256(bytes))
    }

    pub(crate) fn list(&self) -> List {
        List { hasher: HighwayHasher::new(Key(self.list)) }
    }
}

fn print(words: [u64; 4]) -> Print {
    let mut print = Print::default();
    for (bytes, word) in print.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    print
}

/// The fingerprint of several, in their order.
pub(crate) struct List {
    hasher: HighwayHasher,
}

impl List {
    pub(crate) fn add(&mut self, print: &Print) {
        self.hasher.append(print);
    }

    pub(crate) fn add_number(&mut self, number: u64) {
        self.hasher.append(&number.to_le_bytes());
    }

    pub(crate) fn finish(self) -> Print {
        print(self.hasher.finalize256())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_kept_key_sees_the_same_and_no_other_does() {
        let prints = Prints::new().unwrap();
        let kept: [u8; KEPT] = prints.keep().try_into().unwrap();
        assert_eq!(Prints::read(&kept).of(b"some"), prints.of(b"some"));
        assert_ne!(Prints::new().unwrap().of(b"some"), prints.of(b"some"));
    }

    #[test]
    fn contents_cannot_pass_for_a_list() {
        let prints = Prints::new().unwrap();
        let (one, two) = (prints.of(b"one"), prints.of(b"two"));
        let listed = |all: [&Print; 2]| {
            let mut list = prints.list();
            all.into_iter().for_each(|print| list.add(print));
            list.finish()
        };
        assert_ne!(listed([&one, &two]), prints.of(&[one, two].concat()));
        assert_ne!(listed([&one, &two]), listed([&two, &one]));
    }
}
