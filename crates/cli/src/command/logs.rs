//! `yard logs`: what programs said.

use std::io::{Read, Seek, SeekFrom};
use std::time::Duration;

use clap::Args;
use trainyard_agent::depot::{AttemptFolder, RunFolder};
use trainyard_agent::disk::now;
use trainyard_agent::log::{length, offset_since};
use trainyard_core::spec::parse_duration;
use trainyard_core::time::Instant;
use trainyard_engine::ledger::{Ledger, RunRow};

use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::interrupt;

/// Show what runs have written to stdout and stderr
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Runs by name, id, or job
    #[arg(required = true)]
    runs: Vec<String>,

    /// Go on until the runs have ended
    #[arg(long, short)]
    follow: bool,

    /// Only this attempt; otherwise all, one after another
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,

    /// Only what was written since then, such as `5m`
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    /// Only the last lines
    #[arg(long, short = 'n', value_name = "LINES")]
    tail: Option<usize>,
}

impl Logs {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let since = match &self.since {
            Some(text) => {
                let span = parse_duration(text)
                    .map_err(|error| CommandError::new(Exit::Usage, format!("--since: {error}")))?;
                Some(Instant(now().0.saturating_sub_unsigned(span.0)))
            }
            None => None,
        };
        let ledger = context.ledger()?;
        let rows = context.resolve(&ledger, &self.runs)?;
        let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        let mut streams = Vec::new();
        for row in &rows {
            let prefix = if rows.len() > 1 { format!("{:width$} | ", row.name) } else { String::new() };
            let folder = ledger.batch(row.batch)?.depot.run(row.id);
            streams.push(Stream::new(row, folder, self.attempt, since, prefix));
        }
        for stream in &mut streams {
            let mut text = stream.read();
            if let Some(lines) = self.tail {
                text = last_lines(&text, lines).to_vec();
            }
            stream.print(context, &text);
        }
        if self.follow { follow(context, &ledger, &mut streams) } else { Ok(Exit::Done) }
    }
}

fn follow(context: &Context, ledger: &Ledger, streams: &mut [Stream]) -> Result<Exit, CommandError> {
    interrupt::count();
    let mut caller = context.rouse(ledger)?;
    loop {
        if interrupt::take() > 0 {
            return Ok(Exit::Interrupted);
        }
        let mut open = false;
        for stream in streams.iter_mut() {
            // Asked before reading: what was written before the end is then read for certain.
            let row = ledger.run(stream.row.id)?;
            open |= row.as_ref().is_some_and(|row| row.ended.is_none());
            if let Some(row) = row {
                stream.row = row;
            }
            let text = stream.read();
            stream.print(context, &text);
        }
        if !open {
            return Ok(Exit::Done);
        }
        let told = caller.as_mut().map_or(Ok(()), |caller| caller.wait(Duration::from_millis(100)));
        if told.is_err() || caller.is_none() {
            caller = context.rouse(ledger)?;
        }
    }
}

/// One run's log across its attempts, read on from where it was left.
struct Stream {
    row: RunRow,
    folder: RunFolder,
    only: Option<u32>,
    since: Option<Instant>,
    prefix: String,
    attempt: u32,
    offset: Option<u64>,
    /// An unfinished line, when lines carry a prefix.
    partial: Vec<u8>,
}

impl Stream {
    fn new(row: &RunRow, folder: RunFolder, only: Option<u32>, since: Option<Instant>, prefix: String) -> Self {
        let attempt = only.unwrap_or(1);
        Self { row: row.clone(), folder, only, since, prefix, attempt, offset: None, partial: Vec::new() }
    }

    fn read(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        loop {
            let attempt = self.folder.attempt(self.attempt);
            let from = self.offset.unwrap_or_else(|| self.since.map_or(0, |since| offset_since(&attempt, since)));
            let more = read_from(&attempt, from);
            self.offset = Some(from + more.len() as u64);
            text.extend(more);
            if self.only.is_some() || self.attempt >= self.row.attempt {
                return text;
            }
            self.attempt += 1;
            self.offset = None;
        }
    }

    fn print(&mut self, context: &Context, text: &[u8]) {
        if self.prefix.is_empty() {
            context.printer.bytes(text);
            return;
        }
        self.partial.extend_from_slice(text);
        let ended = self.row.ended.is_some();
        let whole = if ended {
            self.partial.len()
        } else {
            self.partial.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)
        };
        let rest = self.partial.split_off(whole);
        let lines = std::mem::replace(&mut self.partial, rest);
        let mut shown = Vec::new();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            shown.extend_from_slice(self.prefix.as_bytes());
            shown.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
            shown.push(b'\n');
        }
        context.printer.bytes(&shown);
    }
}

/// A log that is not there is empty; one that was cut short by a power cut is read as far as it goes.
fn read_from(attempt: &AttemptFolder, from: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if length(&attempt.log()) <= from {
        return bytes;
    }
    let read = std::fs::File::open(attempt.log())
        .and_then(|mut file| file.seek(SeekFrom::Start(from)).and_then(|_| file.read_to_end(&mut bytes)));
    drop(read);
    bytes
}

fn last_lines(text: &[u8], count: usize) -> &[u8] {
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    let mut starts = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let start = if count == 0 { text.len() } else { starts.nth(count - 1).unwrap_or(0) };
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_the_last_lines() {
        assert_eq!(last_lines(b"a\nb\nc\n", 2), b"b\nc\n");
        assert_eq!(last_lines(b"a\nb\nc", 1), b"c");
        assert_eq!(last_lines(b"a\n", 9), b"a\n");
        assert_eq!(last_lines(b"a\nb\n", 0), b"");
    }
}
