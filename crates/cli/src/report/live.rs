//! The live view of a submission: a line per run on a terminal, a line per change elsewhere.

use std::collections::HashMap;

use trainyard_core::id::RunId;
use trainyard_core::time::Instant;
use trainyard_engine::ledger::RunRow;

use super::table::{cut, table};
use super::{Printer, metric_text, note, span, state_text, why};

/// More runs than this are shown as one line of numbers.
const MOST_LINES: usize = 16;
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

pub(crate) struct Live {
    printer: Printer,
    /// Lines on the terminal that the next drawing replaces.
    drawn: usize,
    turns: usize,
    told: HashMap<RunId, String>,
}

impl Live {
    /// Whether a view of this many runs shows each by itself.
    pub(crate) fn shows_each(runs: usize) -> bool {
        runs <= MOST_LINES
    }

    pub(crate) fn new(printer: Printer) -> Self {
        Self { printer, drawn: 0, turns: 0, told: HashMap::new() }
    }

    pub(crate) fn show_each(&mut self, rows: &[RunRow], now: Instant) {
        if !self.printer.is_watched() {
            rows.iter().for_each(|row| self.tell(row));
            return;
        }
        let style = self.printer.talk_style();
        let cells = |row: &RunRow| {
            let length = row.started.map(|at| span(row.ended.unwrap_or(now).since(at))).unwrap_or_default();
            vec![self.mark(row), row.name.clone(), state_text(row, style), length, detail(row)]
        };
        let text = table(&[""; 5], rows.iter().map(cells).collect());
        self.draw(&text);
    }

    pub(crate) fn show_text(&mut self, text: &str) {
        self.draw(text);
    }

    pub(crate) fn show_sum(&mut self, tally: &[(String, i64)]) {
        if self.printer.is_watched() {
            let parts: Vec<String> = tally.iter().map(|(state, count)| format!("{count} {state}")).collect();
            let spinner = SPINNER.get(self.turns % SPINNER.len()).copied().unwrap_or_default();
            self.draw(&format!("{spinner}  {}\n", parts.join(", ")));
        }
    }

    fn mark(&self, row: &RunRow) -> String {
        let style = self.printer.talk_style();
        match row.state.as_str() {
            "succeeded" => style.state("succeeded", "✓"),
            "failed" => style.red("✗"),
            "queued" | "waiting" | "cancelled" => "·".to_owned(),
            _ => SPINNER.get(self.turns % SPINNER.len()).copied().unwrap_or_default().to_owned(),
        }
    }

    /// Over what was drawn before. A line longer than the terminal would fold and count twice, so it is cut.
    fn draw(&mut self, text: &str) {
        let width = self.printer.width();
        let lines: Vec<String> = text.lines().map(|line| cut(line, width)).collect();
        self.printer.redraw(self.drawn, &lines);
        self.drawn = lines.len();
        self.turns += 1;
    }

    /// One line when a run's state changes.
    fn tell(&mut self, row: &RunRow) {
        let key = format!("{} {} {}", row.state, row.attempt, note(row).unwrap_or_default());
        if self.told.insert(row.id, key.clone()).as_ref() != Some(&key)
            && (row.state != "starting" || note(row).is_some())
        {
            let state = state_text(row, self.printer.talk_style());
            self.printer.say(format!("{}: {state}  {}", row.name, detail(row)).trim_end());
        }
    }

    /// Removes the view, so that something else can take its place.
    pub(crate) fn clear(&mut self) {
        if self.drawn > 0 {
            self.printer.redraw(self.drawn, &[]);
            self.drawn = 0;
        }
    }
}

fn detail(row: &RunRow) -> String {
    why(row).map_or_else(|| metric_text(row), str::to_owned)
}
