//! What a check found out so far, one line for each step as it is done.

use std::time::Instant as Clock;

use serde_json::{Value, json};
use trainyard_core::time::Span;

use crate::error::CommandError;
use crate::report::{Printer, Report, Style, span};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    /// Worth knowing; nothing is wrong.
    Noted,
    Failed,
}

#[derive(Debug)]
struct Step {
    name: &'static str,
    outcome: Outcome,
    detail: String,
    hints: Vec<String>,
    took: Option<Span>,
}

pub(super) struct Steps {
    printer: Printer,
    target: String,
    done: Vec<Step>,
    began: Clock,
    /// A line on the terminal that the next one replaces.
    pending: bool,
}

impl Steps {
    pub(super) fn new(printer: Printer, target: &str) -> Self {
        Self { printer, target: target.to_owned(), done: Vec::new(), began: Clock::now(), pending: false }
    }

    /// Begins one. Where somebody may be asked something, nothing is drawn: the question stands there.
    pub(super) fn begin(&mut self) {
        self.began = Clock::now();
    }

    /// What is going on, until the step is done.
    pub(super) fn now(&mut self, name: &str, detail: &str) {
        if self.printer.is_watched() {
            let took = span(self.took());
            let line = format!("… {name:<WIDTH$}  {detail}  {}", self.printer.talk_style().dim(&took));
            let line = self.printer.cut(&line);
            self.printer.redraw(usize::from(self.pending), &[line]);
            self.pending = true;
        }
    }

    fn took(&self) -> Span {
        Span(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn passed(&mut self, name: &'static str, detail: impl Into<String>) {
        let took = Some(self.took());
        self.add(Step { name, outcome: Outcome::Passed, detail: detail.into(), hints: Vec::new(), took });
        self.begin();
    }

    /// Something that was seen on the way.
    pub(super) fn seen(&mut self, name: &'static str, detail: impl Into<String>) {
        self.add(Step { name, outcome: Outcome::Passed, detail: detail.into(), hints: Vec::new(), took: None });
    }

    pub(super) fn noted(&mut self, name: &'static str, detail: impl Into<String>) {
        self.add(Step { name, outcome: Outcome::Noted, detail: detail.into(), hints: Vec::new(), took: None });
    }

    pub(super) fn failed(&mut self, name: &'static str, error: &CommandError) {
        let (detail, hints, took) = (error.chain.join(": "), error.hints.clone(), Some(self.took()));
        self.add(Step { name, outcome: Outcome::Failed, detail, hints, took });
    }

    fn add(&mut self, step: Step) {
        if self.pending {
            self.printer.redraw(1, &[]);
            self.pending = false;
        }
        if !self.printer.is_json() {
            self.printer.bytes(line(&step, self.printer.style()).as_bytes());
        }
        self.done.push(step);
    }

    /// All of it as data; people have seen it already.
    pub(super) fn report(&self) {
        if self.printer.is_json() {
            self.printer.report(self);
        }
    }
}

const WIDTH: usize = 11;

fn line(step: &Step, style: Style) -> String {
    let mark = match step.outcome {
        Outcome::Passed => style.green("✓"),
        Outcome::Noted => style.bold("!"),
        Outcome::Failed => style.red("✗"),
    };
    let took = step.took.map(|took| format!("  {}", style.dim(&span(took)))).unwrap_or_default();
    let hints: String = step.hints.iter().map(|hint| format!("  {} {hint}\n", style.bold("hint:"))).collect();
    format!("{mark} {:<WIDTH$}  {}{took}\n{hints}", step.name, step.detail.replace('\n', "; "))
}

impl Report for Steps {
    fn json(&self) -> Value {
        let step = |step: &Step| {
            json!({
                "name": step.name,
                "outcome": match step.outcome {
                    Outcome::Passed => "passed",
                    Outcome::Noted => "noted",
                    Outcome::Failed => "failed",
                },
                "detail": step.detail,
                "hints": step.hints,
                "seconds": step.took.map(|took| took.0 as f64 / 1000.0),
            })
        };
        json!({
            "target": self.target,
            "ok": !self.done.iter().any(|step| step.outcome == Outcome::Failed),
            "steps": self.done.iter().map(step).collect::<Vec<_>>(),
        })
    }

    fn text(&self, style: Style) -> String {
        self.done.iter().map(|step| line(step, style)).collect()
    }
}
