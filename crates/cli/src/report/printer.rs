//! The printer that commands are given.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::ValueEnum;
use serde_json::{Value, json};

use super::Style;
use super::table::cut;
use crate::env;
use crate::error::{CommandError, Exit};

/// What a command found out, for machines and for people.
pub(crate) trait Report {
    fn json(&self) -> Value;
    /// Ends with a newline unless empty.
    fn text(&self, style: Style) -> String;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Printer {
    output: Output,
}

impl Printer {
    pub(crate) fn new(output: Output) -> Self {
        Self { output }
    }

    pub(crate) fn is_json(self) -> bool {
        self.output == Output::Json
    }

    pub(crate) fn is_watched(self) -> bool {
        io::stderr().is_terminal() && !self.is_json()
    }

    /// Whether somebody could answer a question.
    pub(crate) fn can_ask(self) -> bool {
        self.is_watched() && io::stdin().is_terminal()
    }

    pub(crate) fn style(self) -> Style {
        Style { colour: io::stdout().is_terminal() && env::wants_colour() }
    }

    pub(crate) fn talk_style(self) -> Style {
        Style { colour: io::stderr().is_terminal() && env::wants_colour() }
    }

    pub(crate) fn report(self, report: &dyn Report) {
        match self.output {
            Output::Json => self.bytes(format!("{}\n", report.json()).as_bytes()),
            Output::Text => self.bytes(report.text(self.style()).as_bytes()),
        }
    }

    /// Data as it is. A reader that has gone away wants no more, which is no error.
    pub(crate) fn bytes(self, bytes: &[u8]) {
        let mut out = io::stdout().lock();
        drop(out.write_all(bytes).and_then(|()| out.flush()));
    }

    /// A remark for people.
    pub(crate) fn say(self, line: &str) {
        if !self.is_json() {
            drop(writeln!(io::stderr().lock(), "{line}"));
        }
    }

    /// Columns of the terminal; plenty when there is none.
    pub(crate) fn width(self) -> usize {
        rustix::termios::tcgetwinsize(io::stderr()).map_or(200, |size| usize::from(size.ws_col).max(20))
    }

    /// Columns of the terminal that data goes to; 80 when it goes elsewhere.
    pub(crate) fn page(self) -> usize {
        let known = rustix::termios::tcgetwinsize(io::stdout()).map(|size| usize::from(size.ws_col));
        known.ok().filter(|columns| *columns > 0).unwrap_or(80).clamp(40, 160)
    }

    /// Puts these lines where the last `above` lines of the terminal were, also where the person's `^C` stands behind them.
    pub(crate) fn redraw(self, above: usize, lines: &[String]) {
        let up = if above > 0 { format!("\r\x1b[{above}A") } else { "\r".to_owned() };
        let body: String = lines.iter().map(|line| format!("{line}\x1b[K\n")).collect();
        drop(write!(io::stderr().lock(), "{up}{body}\x1b[J"));
    }

    /// Asks and reads one line; empty when nobody answers.
    pub(crate) fn ask(self, question: &str) -> String {
        drop(write!(io::stderr().lock(), "{question} "));
        let mut line = String::new();
        // No answer and an unreadable one are treated alike: the safe choice is the caller's default.
        drop(io::stdin().read_line(&mut line));
        line.trim().to_lowercase()
    }

    /// The same as it was typed; `None` when nobody answers any more.
    pub(crate) fn ask_line(self, question: &str) -> Option<String> {
        drop(write!(io::stderr().lock(), "{question} "));
        let mut line = String::new();
        match io::stdin().read_line(&mut line) {
            Ok(count) if count > 0 => Some(line.trim().to_owned()),
            _ => None,
        }
    }

    /// What fits on one line of the terminal.
    pub(crate) fn cut(self, line: &str) -> String {
        cut(line, self.width())
    }

    pub(crate) fn error(self, error: &CommandError) -> Exit {
        let text =
            if self.is_json() { format!("{}\n", error_json(error)) } else { error_text(error, self.talk_style()) };
        drop(io::stderr().lock().write_all(text.as_bytes()));
        error.exit
    }
}

fn error_json(error: &CommandError) -> Value {
    json!({ "error": {
        "class": error.exit.word(),
        "exit_code": error.exit.code(),
        "message": error.chain.first(),
        "causes": error.chain.get(1..),
        "hints": error.hints,
    }})
}

fn error_text(error: &CommandError, style: Style) -> String {
    let mut text = String::new();
    for (depth, message) in error.chain.iter().enumerate() {
        let label = if depth == 0 { style.red("error:") } else { style.dim("  cause:") };
        for (line, part) in message.lines().enumerate() {
            let label = if line == 0 || depth == 0 { &label } else { "        " };
            text.push_str(&format!("{label} {part}\n"));
        }
    }
    for hint in &error.hints {
        text.push_str(&format!("{} {hint}\n", style.bold("hint:")));
    }
    text
}

/// Help and version go to stdout with 0, mistakes to stderr with 2.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // Nothing better can be done when the terminal is gone.
    drop(error.print());
    if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() }
}

/// std ignores SIGPIPE, so a closed pipe shows as an error when writing; [`Printer::bytes`] lets it pass.
pub(crate) fn die_quietly_on_closed_pipe() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|at| format!(" ({}:{})", at.file(), at.line())).unwrap_or_default();
        let what = panic.payload_as_str().unwrap_or("no message");
        drop(writeln!(
            io::stderr(),
            "error: a fault in yard{place}: {what}\nhint: please report this with the command you typed"
        ));
    }));
}
