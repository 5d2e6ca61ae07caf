//! A file of lines that grows, read in pieces: a torn last line waits for its end, and of a file of any length only a
//! piece is held.
//!
//! No byte is read twice, but for the last few before what is new: by them a file is known that was replaced by a
//! longer one. A shorter file, or one that was written to without becoming longer, is begun anew.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use super::Read;

/// A line longer than this is no metric.
const LONGEST_LINE: usize = 1 << 20;
const PIECE: usize = 256 << 10;
/// By so many bytes a file is known again.
const SEAL: usize = 64;

#[derive(Debug)]
pub(super) struct Lines {
    path: PathBuf,
    /// Where the next byte is read.
    position: u64,
    changed: (i64, i64),
    /// The last bytes before `position`.
    seal: Vec<u8>,
    /// The unfinished last line.
    partial: Vec<u8>,
    /// The rest of this line is not wanted: it is too long.
    is_too_long: bool,
}

/// What the reader of a file's lines is told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard<'a> {
    Line(&'a [u8]),
    /// The file was replaced or emptied.
    Anew,
}

impl Lines {
    pub(super) fn new(path: PathBuf) -> Self {
        let (seal, partial) = Default::default();
        Self { path, position: 0, changed: (0, 0), seal, partial, is_too_long: false }
    }

    /// Passes over what is there. The first piece is shown all the same: a header may be in it.
    pub(super) fn skip(&mut self, mut header: impl FnMut(&[u8])) {
        let Some((file, data)) = self.open() else { return };
        let mut piece = vec![0; PIECE.min(usize::try_from(data.len()).unwrap_or(PIECE))];
        if file.read_exact_at(&mut piece, 0).is_ok() {
            header(&piece);
        }
        let start = data.len().saturating_sub(SEAL as u64);
        let mut seal = vec![0; (data.len() - start) as usize];
        if file.read_exact_at(&mut seal, start).is_err() {
            return;
        }
        // Its last line is not ours, even if it is finished later.
        self.is_too_long = seal.last().is_some_and(|last| *last != b'\n');
        (self.position, self.changed, self.seal) = (data.len(), changed(&data), seal);
    }

    pub(super) fn poll(&mut self, budget: u64, mut sink: impl FnMut(Heard<'_>)) -> Read {
        let mut read = Read::default();
        let Some((file, data)) = self.open() else { return read };
        if data.len() == self.position && changed(&data) == self.changed {
            return read;
        }
        if data.len() <= self.position || !self.is_the_same(&file) {
            if self.position > 0 {
                sink(Heard::Anew);
            }
            *self = Self::new(std::mem::take(&mut self.path));
        }
        self.changed = changed(&data);
        let mut piece = vec![0; PIECE.min(usize::try_from(data.len() - self.position).unwrap_or(PIECE))];
        while self.position < data.len() {
            if read.bytes >= budget {
                read.more = true;
                break;
            }
            let wanted = piece.len().min(usize::try_from(data.len() - self.position).unwrap_or(usize::MAX));
            let count = match piece.get_mut(..wanted).map(|room| file.read_at(room, self.position)) {
                Some(Ok(count)) if count > 0 => count,
                _ => break,
            };
            let bytes = piece.get(..count).unwrap_or_default();
            self.position += count as u64;
            read.bytes += count as u64;
            self.take(bytes, &mut sink);
        }
        read
    }

    fn open(&self) -> Option<(File, Metadata)> {
        // A pipe or a device would keep us waiting.
        std::fs::metadata(&self.path).ok().filter(Metadata::is_file)?;
        let file = File::open(&self.path).ok()?;
        let data = file.metadata().ok()?;
        Some((file, data))
    }

    fn is_the_same(&self, file: &File) -> bool {
        let mut there = vec![0; self.seal.len()];
        let at = self.position - self.seal.len() as u64;
        file.read_exact_at(&mut there, at).is_ok() && there == self.seal
    }

    fn take(&mut self, bytes: &[u8], sink: &mut impl FnMut(Heard<'_>)) {
        self.seal.extend_from_slice(bytes.get(bytes.len().saturating_sub(SEAL)..).unwrap_or_default());
        self.seal.drain(..self.seal.len().saturating_sub(SEAL));
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end);
            rest = after.get(1..).unwrap_or_default();
            if std::mem::take(&mut self.is_too_long) {
                self.partial.clear();
            } else if self.partial.is_empty() {
                sink(Heard::Line(line));
            } else {
                self.partial.extend_from_slice(line);
                sink(Heard::Line(&self.partial));
                self.partial.clear();
            }
        }
        if self.is_too_long || self.partial.len() + rest.len() > LONGEST_LINE {
            self.is_too_long = true;
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(rest);
        }
    }
}

fn changed(data: &Metadata) -> (i64, i64) {
    (data.mtime(), data.mtime_nsec())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn heard(lines: &mut Lines) -> Vec<String> {
        let mut heard = Vec::new();
        while lines
            .poll(1, |what| {
                heard.push(match what {
                    Heard::Line(line) => String::from_utf8_lossy(line).into_owned(),
                    Heard::Anew => "anew".to_owned(),
                });
            })
            .more
        {}
        heard
    }

    fn file() -> (tempfile::TempDir, PathBuf, Lines) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        (folder, path.clone(), Lines::new(path))
    }

    #[test]
    fn torn_tails_wait() {
        let (_folder, path, mut lines) = file();
        assert!(heard(&mut lines).is_empty());
        fs_err::write(&path, "one\ntw").unwrap();
        assert_eq!(heard(&mut lines), ["one"]);
        fs_err::write(&path, "one\ntwo\nthree\n").unwrap();
        assert_eq!(heard(&mut lines), ["two", "three"]);
        assert!(heard(&mut lines).is_empty());
    }

    #[test]
    fn a_replaced_file_is_begun_anew() {
        let (_folder, path, mut lines) = file();
        fs_err::write(&path, "one\ntwo\n").unwrap();
        heard(&mut lines);
        fs_err::write(&path, "1\n").unwrap();
        assert_eq!(heard(&mut lines), ["anew", "1"]);
        fs_err::write(&path, "another and longer\n").unwrap();
        assert_eq!(heard(&mut lines), ["anew", "another and longer"]);
    }

    #[test]
    fn a_longer_version_of_the_same_file_goes_on() {
        let (folder, path, mut lines) = file();
        fs_err::write(&path, "one\n").unwrap();
        heard(&mut lines);
        fs_err::write(folder.path().join("next"), "one\ntwo\n").unwrap();
        fs_err::rename(folder.path().join("next"), &path).unwrap();
        assert_eq!(heard(&mut lines), ["two"]);
    }

    #[test]
    fn what_is_skipped_is_not_heard() {
        let (_folder, path, mut lines) = file();
        fs_err::write(&path, "one\ntw").unwrap();
        let mut header = Vec::new();
        lines.skip(|bytes| header = bytes.to_vec());
        assert_eq!(header, b"one\ntw");
        assert!(heard(&mut lines).is_empty());
        fs_err::write(&path, "one\ntwo\nthree\n").unwrap();
        assert_eq!(heard(&mut lines), ["three"]);
    }

    #[test]
    fn lines_without_end_are_not_held() {
        let (_folder, path, mut lines) = file();
        fs_err::write(&path, [vec![b'x'; 3 * LONGEST_LINE], b"\nshort\n".to_vec()].concat()).unwrap();
        assert_eq!(heard(&mut lines), ["short"]);
        assert!(lines.partial.capacity() <= LONGEST_LINE);
    }
}
