//! A run's log across its attempts, read on from where it was left. The same reading serves the person on this machine
//! and, over the pipe, the one who is far away.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};
use trainyard_core::id::RunId;
use trainyard_core::time::{Instant, Span};

use crate::depot::{AttemptFolder, Depot, RunFolder};
use crate::disk::now;
use crate::log::{length, offset_since};

/// Where reading goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    pub attempt: u32,
    pub offset: u64,
}

/// Where reading begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// What was written longer ago is left out. A span, since clocks differ.
    pub since: Option<Span>,
    /// Only this many of the last lines.
    pub lines: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum From {
    Start(Start),
    At(Position),
}

/// What somebody wants of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    pub run: RunId,
    /// No other attempt.
    pub only: Option<u32>,
    /// The newest attempt that is known of; later ones are found.
    pub newest: u32,
    pub from: From,
}

/// Bytes of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Portion {
    pub attempt: u32,
    pub bytes: Vec<u8>,
}

/// What was there to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    pub portions: Vec<Portion>,
    pub next: Position,
    /// Nothing more was there at this moment.
    pub is_all: bool,
}

/// At most `most` bytes. A log that is not there is empty.
pub fn read(depot: &Depot, wanted: &Wanted, most: u64) -> Reading {
    let folder = depot.run(wanted.run);
    let mut at = match &wanted.from {
        From::At(position) => *position,
        From::Start(start) => begin(&folder, wanted, start),
    };
    let (mut portions, mut left) = (Vec::new(), most);
    loop {
        let attempt = folder.attempt(at.attempt);
        // Asked before reading: an attempt that has a successor has written all it ever will.
        let is_last = wanted.only.is_some() || !(at.attempt < wanted.newest || begun(&folder, at.attempt + 1));
        let bytes = read_from(&attempt, at.offset, left);
        at.offset += bytes.len() as u64;
        left -= bytes.len() as u64;
        if !bytes.is_empty() {
            portions.push(Portion { attempt: at.attempt, bytes });
        }
        if left == 0 || is_last {
            return Reading { portions, next: at, is_all: left > 0 };
        }
        at = Position { attempt: at.attempt + 1, offset: 0 };
    }
}

fn begun(folder: &RunFolder, attempt: u32) -> bool {
    folder.attempt(attempt).claim().exists()
}

fn begin(folder: &RunFolder, wanted: &Wanted, start: &Start) -> Position {
    let first = wanted.only.unwrap_or(1);
    let mut last = wanted.only.unwrap_or(wanted.newest.max(1));
    while wanted.only.is_none() && begun(folder, last + 1) {
        last += 1;
    }
    let earliest = match start.since {
        Some(span) => since(folder, first, last, Instant(now().0.saturating_sub_unsigned(span.0))),
        None => Position { attempt: first, offset: 0 },
    };
    start.lines.map_or(earliest, |lines| before_last_lines(folder, earliest, last, lines))
}

fn since(folder: &RunFolder, first: u32, last: u32, at: Instant) -> Position {
    let place = |attempt: u32| {
        let folder = folder.attempt(attempt);
        let offset = offset_since(&folder, at);
        (Position { attempt, offset }, offset < length(&folder.log()))
    };
    let found = (first..last).map(place).find(|(_, has_some)| *has_some);
    found.unwrap_or_else(|| place(last)).0
}

/// From the end backwards, so that a long log costs no more than what is shown of it.
fn before_last_lines(folder: &RunFolder, earliest: Position, last: u32, mut lines: u64) -> Position {
    for attempt in (earliest.attempt..=last).rev() {
        let log = folder.attempt(attempt).log();
        let floor = if attempt == earliest.attempt { earliest.offset } else { 0 };
        let end = length(&log).max(floor);
        let Some(found) = File::open(&log).ok().map(|file| line_start(&file, floor, end, &mut lines)) else { continue };
        if lines == 0 {
            return Position { attempt, offset: found };
        }
    }
    if lines == 0 { Position { attempt: last, offset: length(&folder.attempt(last).log()) } } else { earliest }
}

/// The start of the last `lines` lines between two offsets; `lines` becomes what is left of them before `floor`.
fn line_start(file: &File, floor: u64, end: u64, lines: &mut u64) -> u64 {
    const BLOCK: u64 = 64 << 10;
    if *lines == 0 {
        return end;
    }
    let mut upper = end;
    while upper > floor {
        let lower = upper.saturating_sub(BLOCK).max(floor);
        let mut block = vec![0; usize::try_from(upper - lower).unwrap_or(0)];
        if file.read_exact_at(&mut block, lower).is_err() {
            return floor;
        }
        for (index, byte) in block.iter().enumerate().rev() {
            let at = lower + index as u64;
            // The line break at the very end ends the last line; it begins no other.
            if *byte == b'\n' && at + 1 < end {
                *lines -= 1;
                if *lines == 0 {
                    return at + 1;
                }
            }
        }
        upper = lower;
    }
    if end > floor {
        *lines -= 1;
    }
    floor
}

/// One that was cut short by a power cut is read as far as it goes.
fn read_from(attempt: &AttemptFolder, offset: u64, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(mut file) = File::open(attempt.log()) {
        let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.take(most).read_to_end(&mut bytes));
        drop(read);
    }
    bytes
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    struct Logs {
        _root: tempfile::TempDir,
        depot: Depot,
        run: RunId,
    }

    impl Logs {
        fn new(logs: &[&str]) -> Self {
            let root = tempfile::tempdir().unwrap();
            let (depot, run) = (Depot::new(root.path()), "019a0000-0000-7000-8000-000000000000".parse().unwrap());
            let this = Self { _root: root, depot, run };
            for (number, text) in (1..).zip(logs) {
                this.write(number, text);
            }
            this
        }

        fn write(&self, number: u32, text: &str) {
            let folder = self.depot.run(self.run).attempt(number);
            folder.create().unwrap();
            fs_err::write(folder.claim(), "{}").unwrap();
            fs_err::write(folder.log(), text).unwrap();
        }

        fn read(&self, only: Option<u32>, from: From, most: u64) -> (String, Reading) {
            let wanted = Wanted { run: self.run, only, newest: 1, from };
            let reading = read(&self.depot, &wanted, most);
            let text = reading.portions.iter().map(|portion| String::from_utf8_lossy(&portion.bytes)).collect();
            (text, reading)
        }

        fn last(&self, only: Option<u32>, lines: u64) -> String {
            self.read(only, From::Start(Start { since: None, lines: Some(lines) }), 1 << 20).0
        }
    }

    #[test]
    fn attempts_come_one_after_another_and_reading_goes_on() {
        let logs = Logs::new(&["one\n", "two\n"]);
        let (text, reading) = logs.read(None, From::Start(Start::default()), 1 << 20);
        assert_eq!((text.as_str(), reading.is_all), ("one\ntwo\n", true));
        logs.write(2, "two\nmore");
        logs.write(3, "three");
        let (text, reading) = logs.read(None, From::At(reading.next), 1 << 20);
        assert_eq!(text, "morethree");
        assert_eq!(reading.portions.iter().map(|portion| portion.attempt).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(logs.read(Some(2), From::Start(Start::default()), 1 << 20).0, "two\nmore");
    }

    #[test]
    fn a_limit_loses_nothing() {
        let logs = Logs::new(&["abcdef", "", "ghi"]);
        let (mut from, mut all, mut turns) = (From::Start(Start::default()), String::new(), 0);
        loop {
            let (text, reading) = logs.read(None, from, 2);
            all += &text;
            turns += 1;
            from = From::At(reading.next);
            if reading.is_all {
                break;
            }
        }
        assert_eq!((all.as_str(), turns), ("abcdefghi", 5));
    }

    #[test]
    fn the_last_lines_are_the_last_lines() {
        let logs = Logs::new(&["a\nb\nc\n"]);
        assert_eq!(logs.last(None, 2), "b\nc\n");
        assert_eq!(logs.last(None, 9), "a\nb\nc\n");
        assert_eq!(logs.last(None, 0), "");
        let logs = Logs::new(&["a\nb\n", "c\nd"]);
        assert_eq!(logs.last(None, 1), "d");
        assert_eq!(logs.last(None, 3), "b\nc\nd");
        assert_eq!(logs.last(Some(1), 1), "b\n");
        let long = "x".repeat(70_000);
        let logs = Logs::new(&[&format!("first\n{long}\n{long}\n")]);
        assert_eq!(logs.last(None, 2).len(), 140_002);
    }

    #[test]
    fn what_is_not_there_is_empty() {
        let logs = Logs::new(&[]);
        let (text, reading) = logs.read(None, From::Start(Start { since: None, lines: Some(3) }), 100);
        assert_eq!((text.as_str(), reading.is_all), ("", true));
        assert_eq!(reading.next, Position { attempt: 1, offset: 0 });
    }
}
