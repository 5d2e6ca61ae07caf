//! A bar with rate and time left on a terminal, a line at the end elsewhere.

use std::time::{Duration, Instant as Clock};

use trainyard_core::spec::round_size;
use trainyard_core::time::Span;

use super::{Printer, span};

/// The eye does not need it more often.
const REDRAW: Duration = Duration::from_millis(80);
/// Work that is over sooner needs no bar.
const PATIENCE: Duration = Duration::from_millis(300);
const WIDTH: usize = 24;

pub(crate) struct Bar {
    printer: Printer,
    what: String,
    began: Clock,
    drawn: Option<Clock>,
    done: u64,
    of: u64,
}

impl Bar {
    pub(crate) fn new(printer: Printer, what: &str) -> Self {
        Self { printer, what: what.to_owned(), began: Clock::now(), drawn: None, done: 0, of: 0 }
    }

    pub(crate) fn show(&mut self, done: u64, of: u64) {
        (self.done, self.of) = (done, of);
        let due = self.drawn.map_or(self.began.elapsed() >= PATIENCE, |last| last.elapsed() >= REDRAW);
        if due && self.printer.is_watched() {
            let above = usize::from(self.drawn.is_some());
            self.drawn = Some(Clock::now());
            self.printer.redraw(above, &[self.line()]);
        }
    }

    fn line(&self) -> String {
        let part = if self.of == 0 { 0.0 } else { self.done as f64 / self.of as f64 };
        let full = (part * WIDTH as f64) as usize;
        let bar = format!("{}{}", "█".repeat(full), "░".repeat(WIDTH.saturating_sub(full)));
        let seconds = self.began.elapsed().as_secs_f64().max(0.001);
        let rate = self.done as f64 / seconds;
        let left = if rate > 0.0 { (self.of.saturating_sub(self.done)) as f64 / rate } else { 0.0 };
        format!(
            "{} {bar} {} of {}, {}/s, {} left",
            self.what,
            round_size(self.done),
            round_size(self.of),
            round_size(rate as u64),
            span(Span((left * 1000.0) as u64))
        )
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            self.printer.redraw(1, &[]);
        }
        if self.began.elapsed() >= PATIENCE && self.of > 0 {
            let took = span(Span(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)));
            self.printer.say(&format!("{} {} in {took}", self.what, round_size(self.done)));
        }
    }
}
