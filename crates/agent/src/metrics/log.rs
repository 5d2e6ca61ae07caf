//! A regular expression over the log; each named group is a metric.

use regex::bytes::Regex;

use super::{Moment, Sink, Source, seconds_now};

/// A line longer than this is no metric.
const LONGEST_LINE: usize = 1 << 20;

pub(super) struct Log {
    pattern: Regex,
    stream: u64,
    partial: Vec<u8>,
    is_too_long: bool,
    lines: i64,
}

impl Log {
    pub(super) fn boxed(pattern: &str, stream: u64) -> Result<Box<dyn Source>, regex::Error> {
        let pattern = Regex::new(pattern)?;
        Ok(Box::new(Self { pattern, stream, partial: Vec::new(), is_too_long: false, lines: 0 }))
    }

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) {
        let Some(found) = self.pattern.captures(line) else { return };
        let number = |name: &str| {
            let text = std::str::from_utf8(found.name(name)?.as_bytes()).ok()?;
            text.trim_end_matches([',', ';', '%']).replace('_', "").parse::<f64>().ok()
        };
        let step = number("step").map_or(self.lines, |step| step as i64);
        let moment = Moment { step, time: seconds_now(), stream: self.stream };
        for name in self.pattern.capture_names().flatten().filter(|name| *name != "step") {
            if let Some(value) = number(name) {
                sink(moment, name, value);
            }
        }
    }
}

impl Source for Log {
    /// A carriage return ends a line too, as progress bars use it, but does not count as one.
    fn hear(&mut self, bytes: &[u8], sink: &mut Sink<'_>) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, after) = rest.split_at(end);
            self.lines += i64::from(after.first() == Some(&b'\n'));
            rest = after.get(1..).unwrap_or_default();
            let mut whole = std::mem::take(&mut self.partial);
            if !std::mem::take(&mut self.is_too_long) {
                if whole.is_empty() {
                    self.line(line, sink);
                } else {
                    whole.extend_from_slice(line);
                    self.line(&whole, sink);
                }
            }
        }
        if self.is_too_long || self.partial.len() + rest.len() > LONGEST_LINE {
            self.is_too_long = true;
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(rest);
        }
    }

    fn sought(&self) -> Option<String> {
        Some(format!("no line of the log matches `{}`", self.pattern))
    }
}
