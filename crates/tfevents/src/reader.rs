//! One event file that may still grow. Each [`Reader::poll`] reads what came since the last one.
//!
//! The file is opened only while it is read: thousands of files cost no descriptors, and a file that a copying tool
//! replaces by a longer version of itself goes on where it was. What comes of trouble:
//!
//! | what is found | what happens |
//! |---|---|
//! | the file ends within a record | normal: waits for the rest |
//! | zeros where a record should begin or end, and after it | waits, and looks again each time (see below) |
//! | a wrong sum of the data | that record is lost and counted |
//! | a wrong sum of the length | the file is damaged from there on and not read further |
//! | a record that no protobuf parser would take | lost and counted |
//! | a record larger than 64 MiB | stepped over, counted |
//! | the file is shorter than what was read | starts over |
//!
//! Network file systems may show a file's new size before its data, with zeros in between. These are the only bytes
//! ever read twice. Not noticed: a file replaced by a different one that is not shorter.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::buffer::Buffer;
use crate::event::Event;
use crate::frame::{self, Frame, HEADER};

/// No writer makes such records: TensorBoard's largest are single images and graphs of some megabytes.
const LARGEST_RECORD: u64 = 64 << 20;

#[derive(Debug, thiserror::Error)]
#[error("cannot read `{}`", path.display())]
pub struct ReadError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// Where a file's reading stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// All that the file had is read.
    #[default]
    Whole,
    /// The file ends within a record; the rest is awaited.
    Torn,
    /// The file became shorter. Nothing was read; forget what came from it, the next poll starts at its beginning.
    StartedOver,
    /// From this offset on the file is unusable. It stays so until the file becomes shorter.
    Damaged { at: u64 },
}

/// Records that were there and could not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// Their data did not have the right sum.
    pub damaged: u64,
    /// Their sum was right, their content was not.
    pub undecodable: u64,
    /// They were larger than 64 MiB.
    pub oversize: u64,
    /// Where the first of them starts.
    pub first_at: Option<u64>,
}

/// What one poll brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Polled {
    /// Read from the disk.
    pub bytes: u64,
    /// Handed to the sink.
    pub events: u64,
    pub state: State,
    /// The limit was reached before the end of the file.
    pub more: bool,
}

/// Reads one event file as it grows.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    /// Where the first record starts that was not yet handled.
    offset: u64,
    /// What was read of that record.
    tail: Vec<u8>,
    /// The file must be this long before there is anything to do.
    needed: u64,
    /// The length that the file had last.
    length: u64,
    state: State,
    lost: Lost,
}

impl Reader {
    /// Does not touch the disk; the file may come later.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let (state, lost) = Default::default();
        Self { path: path.into(), offset: 0, tail: Vec::new(), needed: 0, length: 0, state, lost }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How far the file is handled: the end of the last whole record.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    pub fn state(&self) -> State {
        self.state
    }

    pub fn lost(&self) -> Lost {
        self.lost
    }

    /// Goes back to the file's beginning, as if it had never been read.
    pub fn rewind(&mut self) {
        *self = Self::new(std::mem::take(&mut self.path));
    }

    /// Passes over all that the file has now, without reading it. Whatever comes is taken for whole records.
    pub fn skip(&mut self) {
        let length = fs::metadata(&self.path).map_or(0, |data| data.len());
        *self = Self { offset: length, needed: length + 1, length, ..Self::new(std::mem::take(&mut self.path)) };
    }

    /// Reads what is new and hands each event to `sink`. After an error the next call goes on where this one stopped.
    pub fn poll(&mut self, sink: impl FnMut(Event<'_>)) -> Result<Polled, ReadError> {
        self.poll_with(&mut Buffer::default(), sink)
    }

    /// The same through memory that serves many files and calls.
    pub fn poll_with(&mut self, buffer: &mut Buffer, sink: impl FnMut(Event<'_>)) -> Result<Polled, ReadError> {
        self.poll_some(buffer, u64::MAX, sink)
    }

    /// The same for about `limit` bytes at most: the record that reaches it is still handed over.
    pub fn poll_some(
        &mut self,
        buffer: &mut Buffer,
        limit: u64,
        sink: impl FnMut(Event<'_>),
    ) -> Result<Polled, ReadError> {
        self.read_new(buffer, limit, sink).map_err(|source| ReadError { path: self.path.clone(), source })
    }

    fn read_new(&mut self, buffer: &mut Buffer, limit: u64, sink: impl FnMut(Event<'_>)) -> io::Result<Polled> {
        let length = fs::metadata(&self.path)?.len();
        if length < self.length {
            self.rewind();
            return Ok(Polled { state: State::StartedOver, ..Polled::default() });
        }
        self.length = length;
        if matches!(self.state, State::Damaged { .. }) {
            return Ok(Polled { state: self.state, ..Polled::default() });
        }
        if length < self.needed {
            self.state = if length == self.offset { State::Whole } else { State::Torn };
            return Ok(Polled { state: self.state, ..Polled::default() });
        }
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.position()))?;
        buffer.begin(&self.tail);
        let stop = self.offset.saturating_add(limit);
        let mut pass = Pass { reader: self, file, buffer, stop, polled: Polled::default() };
        let result = pass.run(sink);
        let polled = pass.polled;
        self.tail = buffer.finish();
        result.map(|()| Polled { state: self.state, ..polled })
    }

    /// Where the next byte is read.
    fn position(&self) -> u64 {
        self.offset + self.tail.len() as u64
    }

    fn lose(&mut self, kind: impl FnOnce(&mut Lost) -> &mut u64) {
        *kind(&mut self.lost) += 1;
        self.lost.first_at.get_or_insert(self.offset);
    }
}

/// One poll under way. It reads up to the length that the file had at its start, so that it ends however fast the
/// file grows.
struct Pass<'a> {
    reader: &'a mut Reader,
    file: File,
    buffer: &'a mut Buffer,
    /// No record is begun from here on.
    stop: u64,
    polled: Polled,
}

impl Pass<'_> {
    fn run(&mut self, mut sink: impl FnMut(Event<'_>)) -> io::Result<()> {
        loop {
            if self.reader.offset >= self.stop {
                self.polled.more = self.reader.offset < self.reader.length;
                self.reader.needed = self.reader.offset + 1;
                self.reader.state = if self.polled.more { State::Torn } else { State::Whole };
                return Ok(());
            }
            match frame::first(self.buffer.unread()) {
                Frame::Record { payload, size } => {
                    match Event::parse(payload) {
                        Ok(event) => {
                            sink(event);
                            self.polled.events += 1;
                        }
                        Err(_) => self.reader.lose(|lost| &mut lost.undecodable),
                    }
                    self.pass_over(size);
                }
                Frame::Short { size } => {
                    if !self.get(size)? {
                        return Ok(());
                    }
                }
                Frame::BadData { size } => {
                    if self.is_hole(size)? {
                        self.look_again();
                        return Ok(());
                    }
                    self.reader.lose(|lost| &mut lost.damaged);
                    self.pass_over(size);
                }
                Frame::BadLength => {
                    if self.is_hole(HEADER)? {
                        self.look_again();
                    } else {
                        self.buffer.consume(usize::MAX);
                        self.reader.state = State::Damaged { at: self.reader.offset };
                    }
                    return Ok(());
                }
            }
        }
    }

    #[inline]
    fn pass_over(&mut self, size: usize) {
        self.buffer.consume(size);
        self.reader.offset += size as u64;
    }

    /// Makes the next `size` bytes available, or steps over them if they are too many. `false` if the file does not
    /// have them yet.
    fn get(&mut self, size: u64) -> io::Result<bool> {
        let Reader { offset, length, .. } = *self.reader;
        let end = offset.saturating_add(size);
        if end > length {
            self.reader.state = if offset == length { State::Whole } else { State::Torn };
            self.reader.needed = end;
            return Ok(false);
        }
        if size > LARGEST_RECORD {
            self.reader.lose(|lost| &mut lost.oversize);
            self.buffer.consume(usize::MAX);
            self.reader.offset = self.file.seek(SeekFrom::Start(end))?;
            return Ok(true);
        }
        let came = self.fill(size)?;
        if !came {
            // The file became shorter under us; the next poll will see it.
            self.reader.state = State::Torn;
        }
        Ok(came)
    }

    /// Whether zeros began within the first `size` bytes of the record at hand: its last byte and what follows, for as
    /// much as a header, or as the file has.
    fn is_hole(&mut self, size: usize) -> io::Result<bool> {
        let to = (self.reader.length - self.reader.offset).min((size + HEADER) as u64);
        self.fill(to)?;
        Ok(self.buffer.unread().iter().take(to as usize).skip(size - 1).all(|byte| *byte == 0))
    }

    /// Forgets what was read of the record at hand.
    fn look_again(&mut self) {
        self.buffer.consume(usize::MAX);
        self.reader.state = State::Torn;
        self.reader.needed = 0;
    }

    /// Whether the next `size` bytes, which the file has, could be read.
    fn fill(&mut self, size: u64) -> io::Result<bool> {
        let have = self.buffer.unread().len() as u64;
        if have < size {
            let left = self.reader.length - self.reader.offset - have;
            self.polled.bytes += self.buffer.fill(&mut self.file, size as usize, left)?;
        }
        Ok(self.buffer.unread().len() as u64 >= size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::{Stamp, Writer};

    fn stamp(step: i64) -> Stamp {
        Stamp { step, wall_time: 0.5 }
    }

    fn written() -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), 0.0).expect("memory");
        for step in 0..3 {
            writer.scalar("a", stamp(step), 1.0).expect("memory");
        }
        writer.into_inner()
    }

    fn reader_of(bytes: &[u8]) -> (tempfile::TempDir, Reader) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("tfevents");
        fs::write(&path, bytes).expect("a file");
        (folder, Reader::new(path))
    }

    fn poll(reader: &mut Reader) -> Polled {
        reader.poll(|_| {}).expect("readable")
    }

    #[test]
    fn an_unchanged_file_is_not_read() {
        let bytes = written();
        let (_folder, mut reader) = reader_of(&bytes);
        let first = Polled { bytes: bytes.len() as u64, events: 4, ..Polled::default() };
        assert_eq!(poll(&mut reader), first);
        assert_eq!(poll(&mut reader), Polled::default());
    }

    #[test]
    fn a_limit_is_kept_and_nothing_is_read_twice() {
        let bytes = written();
        let (_folder, mut reader) = reader_of(&bytes);
        let (mut events, mut read, mut polls) = (0, 0, 0);
        loop {
            let polled = reader.poll_some(&mut Buffer::default(), 1, |_| {}).expect("readable");
            (events, read, polls) = (events + polled.events, read + polled.bytes, polls + 1);
            if !polled.more {
                break;
            }
        }
        assert_eq!((events, read, polls, reader.state()), (4, bytes.len() as u64, 4, State::Whole));
    }

    #[test]
    fn what_is_skipped_is_never_read() {
        let bytes = written();
        let (_folder, mut reader) = reader_of(&bytes);
        reader.skip();
        assert_eq!(poll(&mut reader), Polled::default());
        fs::write(reader.path(), [&bytes[..], &bytes[..]].concat()).expect("a file");
        assert_eq!(poll(&mut reader), Polled { bytes: bytes.len() as u64, events: 4, ..Polled::default() });
    }

    #[test]
    fn a_shorter_file_starts_over() {
        let bytes = written();
        let (_folder, mut reader) = reader_of(&bytes);
        poll(&mut reader);
        fs::write(reader.path(), &bytes[..bytes.len() - 5]).expect("a file");
        assert_eq!(poll(&mut reader), Polled { state: State::StartedOver, ..Polled::default() });
        let again = poll(&mut reader);
        assert_eq!((again.events, again.state), (3, State::Torn));
    }

    #[test]
    fn a_record_beyond_the_limit_is_stepped_over() {
        let mut bytes = written();
        let sound = bytes.len() as u64;
        let mut large = Vec::new();
        frame::append(&vec![0; LARGEST_RECORD as usize], &mut large);
        bytes.extend(large);
        bytes.extend(written());
        let (_folder, mut reader) = reader_of(&bytes);
        let polled = poll(&mut reader);
        assert_eq!((polled.events, polled.state), (8, State::Whole));
        assert_eq!(reader.lost(), Lost { oversize: 1, first_at: Some(sound), ..Lost::default() });
        assert!(polled.bytes < 1 << 20, "{polled:?}");
    }

    #[test]
    fn zeros_are_awaited() {
        let bytes = written();
        for hole in 0..bytes.len() {
            let mut holed = bytes.clone();
            holed[hole..].fill(0);
            let (_folder, mut reader) = reader_of(&holed);
            let first = poll(&mut reader);
            assert_eq!((first.state, reader.lost()), (State::Torn, Lost::default()), "hole at {hole}");
            fs::write(reader.path(), &bytes).expect("a file");
            let second = poll(&mut reader);
            assert_eq!((first.events + second.events, second.state), (4, State::Whole), "hole at {hole}");
        }
    }
}
