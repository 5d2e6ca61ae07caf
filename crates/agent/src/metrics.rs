//! Numbers of a training while it goes: the newest value of each metric, from TensorBoard event files, JSON lines or
//! the log.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use regex::bytes::Regex;
use trainyard_core::spec::MetricSource;
use trainyard_tfevents::{self as tfevents, Folder};

use crate::order::{Metrics, Point};

/// A line longer than this is no metric.
const LONGEST_LINE: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct MetricReader {
    files: Vec<JsonLines>,
    boards: Vec<Folder>,
    patterns: Vec<Regex>,
    /// The log's unfinished last line.
    partial: Vec<u8>,
    lines: i64,
    pub(crate) latest: Metrics,
}

impl MetricReader {
    pub(crate) fn new(sources: &[MetricSource], work: &Path) -> Result<Self, regex::Error> {
        let mut reader = Self::default();
        for source in sources {
            match source {
                MetricSource::Jsonl(path) => reader.files.push(JsonLines::new(work.join(path))),
                MetricSource::Stdout(pattern) => reader.patterns.push(Regex::new(pattern)?),
                MetricSource::Tensorboard(path) => reader.boards.push(Folder::new(work.join(path))),
            }
        }
        Ok(reader)
    }

    /// Takes bytes of the log as they come.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        if self.patterns.is_empty() {
            return;
        }
        self.partial.extend_from_slice(bytes);
        let buffer = std::mem::take(&mut self.partial);
        let mut rest = &buffer[..];
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end);
            self.match_line(line);
            rest = after.get(1..).unwrap_or_default();
        }
        if rest.len() <= LONGEST_LINE {
            self.partial = rest.to_vec();
        }
    }

    fn match_line(&mut self, line: &[u8]) {
        self.lines += 1;
        for pattern in &self.patterns {
            let Some(found) = pattern.captures(line) else { continue };
            let number = |name: &str| std::str::from_utf8(found.name(name)?.as_bytes()).ok()?.parse::<f64>().ok();
            let step = number("step").map_or(self.lines, |step| step as i64);
            for name in pattern.capture_names().flatten().filter(|name| *name != "step") {
                if let Some(value) = number(name) {
                    self.latest.insert(name.to_owned(), point(step, value));
                }
            }
        }
    }

    /// Reads what the files have gained.
    pub(crate) fn poll(&mut self) {
        for file in &mut self.files {
            file.poll(&mut self.latest);
        }
        for board in &mut self.boards {
            poll_board(board, &mut self.latest);
        }
    }
}

/// A file that cannot be read now is tried again with the next poll; a damaged one gives what it had. Libraries name
/// the folder after the date, and each attempt makes a new one: a metric goes by its tag alone, and the folder
/// written to last speaks for it.
fn poll_board(board: &mut Folder, latest: &mut Metrics) {
    drop(board.poll());
    let mut newest: BTreeMap<&str, tfevents::Point> = BTreeMap::new();
    for tag in board.runs().flat_map(|(_, run)| run.tags()) {
        if let Some(last) = tag.series().last()
            && newest.get(tag.name()).is_none_or(|other| other.wall_time <= last.wall_time)
        {
            newest.insert(tag.name(), last);
        }
    }
    latest.extend(newest.into_iter().map(|(name, last)| (name.to_owned(), point(last.step, last.value))));
}

fn point(step: i64, value: f64) -> Point {
    Point { step, value: value.is_finite().then_some(value) }
}

/// A file of JSON objects that grows; no byte is read twice, a torn last line waits for its end.
#[derive(Debug)]
struct JsonLines {
    path: PathBuf,
    offset: u64,
    lines: i64,
}

impl JsonLines {
    fn new(path: PathBuf) -> Self {
        Self { path, offset: 0, lines: 0 }
    }

    fn poll(&mut self, latest: &mut Metrics) {
        let Ok(mut file) = std::fs::File::open(&self.path) else { return };
        if file.metadata().is_ok_and(|data| data.len() < self.offset) {
            self.offset = 0;
        }
        let mut bytes = Vec::new();
        if file.seek(SeekFrom::Start(self.offset)).and_then(|_| file.read_to_end(&mut bytes)).is_err() {
            return;
        }
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.offset += whole as u64;
        for line in bytes.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n') {
            self.take(line, latest);
        }
    }

    /// A line that is no JSON object says nothing; programs write headers and stray prints into such files.
    fn take(&mut self, line: &[u8], latest: &mut Metrics) {
        let Ok(serde_json::Value::Object(fields)) = serde_json::from_slice(line) else { return };
        self.lines += 1;
        let step = fields.get("step").and_then(serde_json::Value::as_i64).unwrap_or(self.lines);
        for (name, value) in fields.iter().filter(|(name, _)| *name != "step") {
            if let Some(value) = value.as_f64() {
                latest.insert(name.clone(), point(step, value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn log_lines_are_matched_across_reads() {
        let source = MetricSource::Stdout(r"it (?<step>\d+) reward (?<reward>\S+)".to_owned());
        let mut reader = MetricReader::new(&[source], Path::new("/")).unwrap();
        reader.feed(b"noise\nit 7 rew");
        reader.feed(b"ard 1.5\nit 8 reward nan\nit 9 rewa");
        assert_eq!(reader.latest.get("reward"), Some(&Point { step: 8, value: None }));
        assert!(!reader.latest.contains_key("step"));
    }

    #[test]
    fn event_files_are_followed_while_they_grow() {
        let work = tempfile::tempdir().unwrap();
        let mut reader = MetricReader::new(&[MetricSource::Tensorboard("logs/".to_owned())], work.path()).unwrap();
        reader.poll();
        let (mut writer, _) = trainyard_tfevents::FileWriter::create(work.path().join("logs/run1")).unwrap();
        for step in [10, 20] {
            let stamp = trainyard_tfevents::Stamp { step, wall_time: 1.0 };
            writer.scalar("Train/mean_reward", stamp, step as f32 * 2.0).unwrap();
            writer.flush().unwrap();
            reader.poll();
            let expected = Point { step, value: Some(step as f64 * 2.0) };
            assert_eq!(reader.latest.get("Train/mean_reward"), Some(&expected), "{:?}", reader.latest);
        }
    }

    #[test]
    fn json_lines_are_read_once_and_torn_tails_wait() {
        let work = tempfile::tempdir().unwrap();
        let path = work.path().join("m.jsonl");
        let mut reader = MetricReader::new(&[MetricSource::Jsonl("m.jsonl".to_owned())], work.path()).unwrap();
        reader.poll();
        fs_err::write(&path, "header\n{\"step\":1,\"reward\":2}\n{\"step\":2,\"rew").unwrap();
        reader.poll();
        assert_eq!(reader.latest["reward"], Point { step: 1, value: Some(2.0) });
        fs_err::write(&path, "header\n{\"step\":1,\"reward\":2}\n{\"step\":2,\"reward\":3}\n").unwrap();
        reader.poll();
        assert_eq!(reader.latest["reward"], Point { step: 2, value: Some(3.0) });
    }
}
