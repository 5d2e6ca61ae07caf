//! How things look: colour that carries no meaning of its own, times for people and for machines.

use jiff::Timestamp;
use trainyard_core::time::{Instant, Span};

/// What the terminal can show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    pub(crate) colour: bool,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// A state's word in its colour.
    pub(crate) fn state(self, word: &str, text: &str) -> String {
        match word {
            "succeeded" => self.green(text),
            "failed" => self.red(text),
            "running" => self.paint("36", text),
            "starting" | "cancelling" => self.paint("33", text),
            _ => self.dim(text),
        }
    }
}

fn stamp(at: Instant) -> Timestamp {
    Timestamp::from_millisecond(at.0).unwrap_or_default()
}

pub(crate) fn rfc3339(at: Instant) -> String {
    format!("{:.3}", stamp(at))
}

/// Local date and time of day.
pub(crate) fn clock(at: Instant) -> String {
    stamp(at).to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// `14:02`, with the date when it is another day's.
pub(crate) fn time_of_day(at: Instant) -> String {
    let at = stamp(at).to_zoned(jiff::tz::TimeZone::system());
    let is_today = at.date() == jiff::Zoned::now().date();
    at.strftime(if is_today { "%H:%M" } else { "%Y-%m-%d %H:%M" }).to_string()
}

/// `3m ago`
pub(crate) fn ago(at: Instant, now: Instant) -> String {
    let passed = now.since(at);
    if passed.0 < 1000 { "now".to_owned() } else { format!("{} ago", coarse(passed)) }
}

/// One unit: `45s`, `3m`, `5h`, `2d`.
fn coarse(span: Span) -> String {
    let seconds = span.0 / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// `2.9s`, `4m12s`, `3h05m`, `2d04h`
pub(crate) fn span(span: Span) -> String {
    let seconds = span.0 / 1000;
    match seconds {
        0..60 => format!("{}.{}s", seconds, span.0 % 1000 / 100),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// `1 run`, `2 runs`
pub(crate) fn plural(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_read_well() {
        let shown: Vec<String> = [2_940, 252_000, 11_100_000, 187_200_000].map(|ms| span(Span(ms))).into();
        assert_eq!(shown, ["2.9s", "4m12s", "3h05m", "2d04h"]);
    }

    #[test]
    fn times_for_machines_are_rfc3339() {
        assert_eq!(rfc3339(Instant(0)), "1970-01-01T00:00:00.000Z");
    }
}
