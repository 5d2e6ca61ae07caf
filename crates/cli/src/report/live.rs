//! The live view of a submission: a line per run on a terminal, a line per change elsewhere.

use std::collections::HashMap;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use trainyard_core::id::RunId;
use trainyard_core::time::Instant;
use trainyard_engine::ledger::RunRow;

use super::{Printer, headline, span, state_text};

/// More runs than this are shown as one line of numbers.
const MOST_LINES: usize = 16;

pub(crate) struct Live {
    printer: Printer,
    bars: MultiProgress,
    lines: HashMap<RunId, ProgressBar>,
    sum: Option<ProgressBar>,
    told: HashMap<RunId, String>,
    width: usize,
}

impl Live {
    /// Whether a view of this many runs shows each by itself.
    pub(crate) fn shows_each(runs: usize) -> bool {
        runs <= MOST_LINES
    }

    pub(crate) fn new(printer: Printer) -> Self {
        let target = if printer.is_watched() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self {
            printer,
            bars: MultiProgress::with_draw_target(target),
            lines: HashMap::new(),
            sum: None,
            told: HashMap::new(),
            width: 0,
        }
    }

    pub(crate) fn show_each(&mut self, rows: &[RunRow], now: Instant) {
        self.width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        for row in rows {
            if self.printer.is_watched() {
                self.draw(row, now);
            } else {
                self.tell(row);
            }
        }
    }

    pub(crate) fn show_sum(&mut self, tally: &[(String, i64)]) {
        let parts: Vec<String> = tally.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let bar = self.sum.get_or_insert_with(|| self.bars.add(line()));
        bar.set_message(parts.join(", "));
    }

    fn draw(&mut self, row: &RunRow, now: Instant) {
        let bar = self.lines.entry(row.id).or_insert_with(|| self.bars.add(line()));
        if bar.is_finished() {
            return;
        }
        let style = self.printer.talk_style();
        let length = row.started.map(|at| span(row.ended.unwrap_or(now).since(at))).unwrap_or_default();
        let state = state_text(row, style);
        let width = self.width;
        bar.set_message(format!("{:width$}  {state:12}  {length:>7}  {}", row.name, detail(row)));
        if row.ended.is_some() {
            bar.set_style(ProgressStyle::with_template("  {msg}").unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.abandon();
        }
    }

    /// One line when a run's state changes.
    fn tell(&mut self, row: &RunRow) {
        let key = format!("{} {}", row.state, row.attempt);
        if self.told.insert(row.id, key.clone()).as_ref() != Some(&key) && row.state != "starting" {
            let state = state_text(row, self.printer.talk_style());
            self.printer.say(format!("{}: {state}  {}", row.name, detail(row)).trim_end());
        }
    }

    /// Removes the view, so that the table can take its place.
    pub(crate) fn clear(&mut self) {
        drop(self.bars.clear());
        for bar in self.lines.values().chain(&self.sum) {
            bar.finish_and_clear();
        }
    }

    /// Steps aside while something else is written to the terminal.
    pub(crate) fn suspend<T>(&self, work: impl FnOnce() -> T) -> T {
        self.bars.suspend(work)
    }
}

fn detail(row: &RunRow) -> String {
    if let Some(reason) = &row.reason {
        return reason.clone();
    }
    let value = |value: Option<f64>| value.map_or_else(|| "not a number".to_owned(), |value| format!("{value:.4}"));
    headline(&row.metrics)
        .map(|(name, point)| format!("{name} {} at step {}", value(point.value), point.step))
        .unwrap_or_default()
}

fn line() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}
