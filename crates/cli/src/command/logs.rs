//! `yard logs`: what programs said.

use std::time::Duration;

use clap::Args;
use trainyard_agent::tail::Start;
use trainyard_core::spec::parse_duration;
use trainyard_engine::ledger::{Ledger, RunRow};

use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::interrupt;
use crate::tail::{self, Look, Part, Until};

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
        context.refuse_elsewhere(self.follow, "-f")?;
        let since = self.since.as_ref().map(|text| parse_duration(text)).transpose();
        let since = since.map_err(|error| CommandError::new(Exit::Usage, format!("--since: {error}")))?;
        let start = Start { since, lines: self.tail.map(|lines| lines as u64) };
        let part = Part { only: self.attempt, start };
        let ledger = context.ledger()?;
        let rows = context.resolve(&ledger, &self.runs)?;
        let until = if self.follow { Until::Ended } else { Until::Now };
        let mut logs = tail::Logs::open(context, &ledger, &rows, &part, until)?;
        let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        let many = rows.len() > 1;
        let stream = |row: RunRow| {
            let prefix = if many { format!("{:width$} | ", row.name) } else { String::new() };
            Stream { row, prefix, partial: Vec::new(), is_all: false, is_cut: false }
        };
        let mut streams: Vec<Stream> = rows.into_iter().map(stream).collect();
        if self.follow {
            return follow(context, &ledger, &mut logs, &mut streams);
        }
        for stream in &mut streams {
            while !stream.is_all {
                stream.show(context, logs.look(&stream.row)?);
            }
            stream.end_line(context);
        }
        Ok(Exit::Done)
    }
}

fn follow(
    context: &Context,
    ledger: &Ledger,
    logs: &mut tail::Logs,
    streams: &mut [Stream],
) -> Result<Exit, CommandError> {
    interrupt::count();
    let mut caller = context.rouse(ledger)?;
    loop {
        if interrupt::take() > 0 {
            return Ok(Exit::Interrupted);
        }
        let mut open = false;
        for stream in streams.iter_mut() {
            // Asked before reading: what was written before the end is then read for certain.
            if let Some(row) = ledger.run(stream.row.id)? {
                stream.row = row;
            }
            stream.show(context, logs.look(&stream.row)?);
            open |= !stream.has_ended();
        }
        if !open {
            streams.iter_mut().for_each(|stream| stream.end_line(context));
            let is_cut = streams.iter().any(|stream| stream.is_cut);
            return Ok(if is_cut { Exit::Unreachable } else { Exit::Done });
        }
        let told = caller.as_mut().map_or(Ok(()), |caller| caller.wait(Duration::from_millis(100)));
        if caller.is_none() {
            std::thread::sleep(Duration::from_millis(50));
        }
        if told.is_err() || caller.is_none() {
            caller = context.rouse(ledger)?;
        }
    }
}

/// One run's log on its way to the screen.
struct Stream {
    row: RunRow,
    prefix: String,
    /// An unfinished line, when lines carry a prefix.
    partial: Vec<u8>,
    is_all: bool,
    is_cut: bool,
}

impl Stream {
    fn has_ended(&self) -> bool {
        self.is_all && self.row.ended.is_some()
    }

    fn show(&mut self, context: &Context, look: Look) {
        self.is_all = look.is_all;
        self.is_cut = look.is_cut;
        if let Some(talk) = look.talk {
            context.printer.say(&talk);
        }
        for portion in look.portions {
            self.print(context, &portion.bytes);
        }
    }

    fn print(&mut self, context: &Context, text: &[u8]) {
        if self.prefix.is_empty() {
            context.printer.bytes(text);
            return;
        }
        self.partial.extend_from_slice(text);
        let whole = self.partial.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let rest = self.partial.split_off(whole);
        let lines = std::mem::replace(&mut self.partial, rest);
        let mut shown = Vec::new();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            shown.extend_from_slice(self.prefix.as_bytes());
            shown.extend_from_slice(line);
        }
        context.printer.bytes(&shown);
    }

    /// What comes after the last line break is shown when nothing more will follow.
    fn end_line(&mut self, context: &Context) {
        if !self.partial.is_empty() {
            self.print(context, b"\n");
        }
    }
}
