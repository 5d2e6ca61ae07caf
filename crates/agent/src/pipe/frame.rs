//! Bytes on the wire: a tag, a length, that many bytes. A message is one head, any number of body frames, and an end.
//!
//! Lengths are bounded and memory is taken as bytes arrive: a hostile peer causes an error, not an allocation.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;

/// A head is text: names, not contents.
pub const HEAD_MOST: usize = 16 << 20;
/// A body frame holds one block of at most 1 MiB before compression, and a little for its own header.
pub const BODY_MOST: usize = (1 << 20) + (64 << 10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    Head,
    Body,
    End,
    /// Instead of the end: the sender could not go on, and says why.
    Failed,
}

impl Tag {
    const fn byte(self) -> u8 {
        match self {
            Self::Head => 1,
            Self::Body => 2,
            Self::End => 3,
            Self::Failed => 4,
        }
    }

    fn of(byte: u8) -> Option<Self> {
        [Self::Head, Self::Body, Self::End, Self::Failed].into_iter().find(|tag| tag.byte() == byte)
    }

    const fn most(self) -> usize {
        match self {
            Self::Head => HEAD_MOST,
            Self::Body => BODY_MOST,
            Self::End => 0,
            Self::Failed => 64 << 10,
        }
    }
}

/// Lets a pipe hold several blocks, so that neither end waits for the other at each of them. Whoever may not have as
/// much keeps what there is.
pub fn widen(pipe: impl AsFd) {
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, 1 << 20);
}

pub fn write(out: &mut impl Write, tag: Tag, bytes: &[u8]) -> io::Result<()> {
    out.write_all(&header(tag, bytes.len())?)?;
    out.write_all(bytes)
}

/// What stands before the bytes of a frame.
pub fn header(tag: Tag, length: usize) -> io::Result<[u8; 5]> {
    if length > tag.most() {
        return Err(wrong("a message is too long to be sent"));
    }
    let length = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    let [a, b, c, d] = length;
    Ok([tag.byte(), a, b, c, d])
}

/// `None` when the input ends between two frames; an end within one is an error.
pub fn read(input: &mut impl Read) -> io::Result<Option<(Tag, Vec<u8>)>> {
    let mut first = [0; 1];
    if input.read(&mut first)? == 0 {
        return Ok(None);
    }
    let tag = Tag::of(first[0]).ok_or_else(|| wrong("what arrives is not the agent's language"))?;
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > tag.most() {
        return Err(wrong("what arrives is longer than it may be"));
    }
    // A block at once, without a copy in between; what is longer as it arrives.
    let mut bytes = vec![0; length.min(1 << 20)];
    input.read_exact(&mut bytes)?;
    let rest = (length - bytes.len()) as u64;
    input.take(rest).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((tag, bytes)))
}

/// The body frames of one message. Whoever stops early calls [`Body::skip`].
pub struct Body<'a, R> {
    input: &'a mut R,
    rest: Vec<u8>,
    used: usize,
    ended: bool,
}

impl<'a, R: Read> Body<'a, R> {
    pub fn new(input: &'a mut R) -> Self {
        Self { input, rest: Vec::new(), used: 0, ended: false }
    }

    /// The next frame as it was sent; `None` at the end.
    pub fn frame(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.ended {
            return Ok(None);
        }
        match read(self.input)? {
            Some((Tag::Body, bytes)) => Ok(Some(bytes)),
            Some((Tag::End, _)) => {
                self.ended = true;
                Ok(None)
            }
            Some((Tag::Failed, why)) => {
                self.ended = true;
                Err(io::Error::other(String::from_utf8_lossy(&why).into_owned()))
            }
            Some((Tag::Head, _)) => Err(wrong("a message began before the last one ended")),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Reads to the end of the message, for a body that nobody wants.
    pub fn skip(&mut self) -> io::Result<()> {
        while self.frame()?.is_some() {}
        Ok(())
    }
}

impl<R: Read> Read for Body<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.used == self.rest.len() {
            match self.frame()? {
                Some(bytes) => (self.rest, self.used) = (bytes, 0),
                None => return Ok(0),
            }
        }
        let waiting = self.rest.get(self.used..).unwrap_or_default();
        let count = waiting.len().min(out.len());
        let (Some(to), Some(from)) = (out.get_mut(..count), waiting.get(..count)) else { return Ok(0) };
        to.copy_from_slice(from);
        self.used += count;
        Ok(count)
    }
}

fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn frames_come_back() {
        let mut wire = Vec::new();
        write(&mut wire, Tag::Body, b"ab").unwrap();
        write(&mut wire, Tag::Body, b"").unwrap();
        write(&mut wire, Tag::Body, b"c").unwrap();
        write(&mut wire, Tag::End, b"").unwrap();
        let mut text = String::new();
        Body::new(&mut wire.as_slice()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "abc");
    }

    #[test]
    fn hostile_lengths_and_tags_are_errors() {
        let long = [2, 255, 255, 255, 255];
        assert_eq!(read(&mut long.as_slice()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let unknown = [9, 0, 0, 0, 0];
        assert_eq!(read(&mut unknown.as_slice()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let cut = [1, 9, 0, 0, 0, b'x'];
        assert_eq!(read(&mut cut.as_slice()).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(read(&mut [].as_slice()).unwrap().is_none());
    }
}
