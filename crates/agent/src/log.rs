//! An attempt's log: the bytes as the program wrote them in `output.log`, and beside it `output.idx`, which says
//! when which byte came. The log stays a plain text file that any tool can read.

use std::io::{self, Read, Write};
use std::path::Path;

use trainyard_core::time::{Instant, Span};

use crate::depot::AttemptFolder;
use crate::disk::now;

/// Bytes that come within this of an index entry belong to it.
const RESOLUTION: Span = Span(100);
/// Two little-endian numbers: milliseconds since 1970, and the offset of the first byte that came then.
const ENTRY: usize = 16;

#[derive(Debug)]
pub(crate) struct LogWriter {
    log: fs_err::File,
    /// Made with the first byte: a silent program leaves no index.
    index: Option<fs_err::File>,
    index_path: std::path::PathBuf,
    offset: u64,
    last: Option<Instant>,
    lost: Lost,
}

/// Bytes that could not be written, as on a full disk. The program is not stopped for that.
#[derive(Debug, Default)]
struct Lost {
    bytes: u64,
    why: Option<String>,
}

impl LogWriter {
    pub(crate) fn create(folder: &AttemptFolder) -> io::Result<Self> {
        let log = fs_err::OpenOptions::new().append(true).create(true).open(folder.log())?;
        let offset = log.metadata()?.len();
        Ok(Self { log, index: None, index_path: folder.log_index(), offset, last: None, lost: Lost::default() })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let now = now();
        if self.last.is_none_or(|last| now.since(last) >= RESOLUTION) {
            self.last = Some(now);
            self.mark(now);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.log.write(rest) {
                Ok(count) => {
                    self.offset += count as u64;
                    rest = rest.get(count..).unwrap_or_default();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.lost.bytes += rest.len() as u64;
                    self.lost.why.get_or_insert_with(|| error.to_string());
                    return;
                }
            }
        }
    }

    /// An index that cannot be written costs `--since` its precision, not the run its log.
    fn mark(&mut self, now: Instant) {
        if self.index.is_none() {
            let opened = fs_err::OpenOptions::new().append(true).create(true).open(&self.index_path);
            self.index = opened.ok();
        }
        if let Some(index) = &mut self.index {
            let mut entry = [0; ENTRY];
            let (time, offset) = entry.split_at_mut(ENTRY / 2);
            time.copy_from_slice(&now.0.to_le_bytes());
            offset.copy_from_slice(&self.offset.to_le_bytes());
            if index.write_all(&entry).is_err() {
                self.index = None;
            }
        }
    }

    /// What went wrong, for `result.json`.
    pub(crate) fn note(&self) -> Option<String> {
        let why = self.lost.why.as_ref()?;
        Some(format!("{} bytes of log could not be written: {why}", self.lost.bytes))
    }
}

/// The offset of the first byte that came at or after `since`; the whole log when there is no index. A torn last
/// entry is not looked at.
pub fn offset_since(folder: &AttemptFolder, since: Instant) -> u64 {
    let mut entries = Vec::new();
    if fs_err::File::open(folder.log_index()).and_then(|mut file| file.read_to_end(&mut entries)).is_err() {
        return 0;
    }
    let parsed = entries.as_chunks::<ENTRY>().0.iter().map(|entry| {
        let number = |half: &[u8]| half.try_into().map_or(0, u64::from_le_bytes);
        let (time, offset) = entry.split_at(ENTRY / 2);
        (Instant(i64::try_from(number(time)).unwrap_or(i64::MAX)), number(offset))
    });
    let end = length(&folder.log());
    // The last entry before `since` may hold bytes up to its resolution later: better a line too many than one too few.
    let mut start = 0;
    for (time, offset) in parsed {
        if time + RESOLUTION >= since {
            return offset.min(end);
        }
        start = end;
    }
    start
}

pub fn length(path: &Path) -> u64 {
    fs_err::metadata(path).map_or(0, |data| data.len())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::depot::Depot;

    fn folder(root: &Path) -> AttemptFolder {
        let run = "019a0000-0000-7000-8000-000000000000".parse().unwrap();
        let folder = Depot::new(root).run(run).attempt(1);
        fs_err::create_dir_all(folder.path()).unwrap();
        folder
    }

    fn entry(time: i64, offset: u64) -> Vec<u8> {
        [time.to_le_bytes(), offset.to_le_bytes()].concat()
    }

    #[test]
    fn since_finds_the_byte_and_survives_a_torn_index() {
        let root = tempfile::tempdir().unwrap();
        let folder = folder(root.path());
        fs_err::write(folder.log(), "aaaabbbbcccc").unwrap();
        let mut index = [entry(1000, 0), entry(2000, 4), entry(3000, 8)].concat();
        index.extend([7; 5]);
        fs_err::write(folder.log_index(), index).unwrap();
        assert_eq!(offset_since(&folder, Instant(500)), 0);
        assert_eq!(offset_since(&folder, Instant(1500)), 4);
        assert_eq!(offset_since(&folder, Instant(2500)), 8);
        assert_eq!(offset_since(&folder, Instant(9000)), 12);
    }

    #[test]
    fn an_index_that_points_past_a_truncated_log_is_clamped() {
        let root = tempfile::tempdir().unwrap();
        let folder = folder(root.path());
        fs_err::write(folder.log(), "aa").unwrap();
        fs_err::write(folder.log_index(), entry(1000, 900)).unwrap();
        assert_eq!(offset_since(&folder, Instant(500)), 2);
    }

    #[test]
    fn without_an_index_everything_is_shown() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(offset_since(&folder(root.path()), Instant(500)), 0);
    }
}
