//! Tables with a header line, as `CSVLogger`, `progress.csv` and `monitor.csv` are.

use super::find::{Parser, is_step, step_rank};
use super::{Moment, seconds_now};

#[derive(Debug, Default)]
pub(super) struct Csv {
    names: Vec<String>,
    separator: u8,
    lines: i64,
}

impl Parser for Csv {
    const WHAT: &'static str = "lines of numbers below a header";

    fn anew(&mut self) {
        *self = Self::default();
    }

    fn header(&mut self, start: &[u8]) {
        let header = start.split(|byte| *byte == b'\n').find(|line| !is_comment(line));
        if let Some(line) = header {
            self.take_header(line);
        }
    }

    fn line(&mut self, line: &[u8], stream: u64, sink: &mut super::Sink<'_>) {
        if is_comment(line) {
            return;
        }
        let cells = if self.names.is_empty() { Vec::new() } else { cells(line, self.separator) };
        // A program that goes on may write its header again.
        if cells.iter().all(|cell| !cell.is_empty() && number(cell).is_none()) {
            self.take_header(line);
            return;
        }
        self.lines += 1;
        let at =
            self.names.iter().enumerate().filter(|(_, name)| is_step(name)).min_by_key(|(_, name)| step_rank(name));
        let at = at.map(|(index, _)| index);
        let step = at.and_then(|at| cells.get(at)).and_then(|cell| number(cell)).map(|step| step as i64);
        let step = step.unwrap_or(self.lines);
        let moment = Moment { step, time: seconds_now(), stream };
        for (index, (name, cell)) in self.names.iter().zip(&cells).enumerate() {
            if let Some(value) = number(cell).filter(|_| Some(index) != at) {
                sink(moment, name, value);
            }
        }
    }
}

impl Csv {
    fn take_header(&mut self, line: &[u8]) {
        self.separator = [b',', b'\t', b';'].into_iter().find(|byte| line.contains(byte)).unwrap_or(b',');
        self.names = cells(line, self.separator);
    }
}

fn is_comment(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.is_empty() || line.starts_with(b"#")
}

fn number(cell: &str) -> Option<f64> {
    cell.parse().ok()
}

/// A quoted cell may hold the separator, and a quote as two.
fn cells(line: &[u8], separator: u8) -> Vec<String> {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches(['\r', '\n']).trim_start_matches('\u{feff}');
    let (mut cells, mut cell, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            '"' => is_quoted = !is_quoted,
            c if !is_quoted && c == char::from(separator) => cells.push(std::mem::take(&mut cell).trim().to_owned()),
            c => cell.push(c),
        }
    }
    cells.push(cell.trim().to_owned());
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(csv: &mut Csv, lines: &[&str]) -> Vec<(String, i64, f64)> {
        let mut points = Vec::new();
        for line in lines {
            csv.line(line.as_bytes(), 0, &mut |moment, name, value| points.push((name.to_owned(), moment.step, value)));
        }
        points
    }

    fn point(name: &str, step: i64, value: f64) -> (String, i64, f64) {
        (name.to_owned(), step, value)
    }

    #[test]
    fn what_a_monitor_writes() {
        let lines = ["#{\"t_start\": 1.5, \"env_id\": \"x\"}", "r,l,t\r", "9.5,10,0.5\r", "8.5,9,0.75\r"];
        let found = points(&mut Csv::default(), &lines);
        assert_eq!(found[..3], [point("r", 1, 9.5), point("l", 1, 10.0), point("t", 1, 0.5)]);
        assert_eq!(found[3], point("r", 2, 8.5));
    }

    #[test]
    fn a_step_column_and_empty_cells() {
        let lines = ["epoch,step,loss,\"val, loss\"", "0,49,0.5,", "0,99,,0.25", "1,149,nan,"];
        let found = points(&mut Csv::default(), &lines);
        assert_eq!(found[..3], [point("epoch", 49, 0.0), point("loss", 49, 0.5), point("epoch", 99, 0.0)]);
        assert_eq!(found[3], point("val, loss", 99, 0.25));
        assert!(found[5].2.is_nan() && found[5].1 == 149, "{found:?}");
    }

    #[test]
    fn a_table_that_goes_on_keeps_its_header() {
        let mut csv = Csv::default();
        csv.header(b"# comment\nstep;reward\n1;2\n");
        assert_eq!(points(&mut csv, &["5;3.5"]), [point("reward", 5, 3.5)]);
        assert_eq!(points(&mut csv, &["step,reward,loss", "6,1,2"])[1], point("loss", 6, 2.0));
    }
}
