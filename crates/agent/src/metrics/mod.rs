//! Numbers of a training while it goes, from wherever the program leaves them. Every new point is written down in the
//! attempt's `metrics.tfevents`; only the newest of each metric is held, and the thinned course of the objective.
//!
//! A place where numbers come from is a [`Source`] in a file of its own. What lay there before the program began
//! belongs to others: to earlier attempts, or to whoever ran in the same folder.
//!
//! A point is fresh by its step. A stream of points (a run's event files, a file of lines) that goes back has started
//! again: what was known from that step on is void. Of several streams with the same metric the one with the highest
//! number counts, and the others where they are ahead of it.

mod board;
mod course;
mod csv;
mod find;
mod jsonl;
mod lines;
mod log;
mod record;
mod report;

pub(crate) use report::of_rank;

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use trainyard_core::spec::{JobSpec, MetricSource};

use crate::depot::AttemptFolder;
use crate::metrics::course::Course;
use crate::metrics::record::Record;
use crate::order::{Metrics, Point};

/// Read of all sources in one poll, so that a fast writer does not keep the watch from its program.
const BUDGET: u64 = 4 << 20;
/// After the program's end the rest is read to the end, within this time.
const LAST: Duration = Duration::from_secs(60);
/// A program that makes names without end must not make us hold them.
const MOST: usize = 10_000;
const LONGEST_NAME: usize = 500;

/// When and whence a value came.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Moment {
    step: i64,
    /// Seconds since 1970.
    time: f64,
    stream: u64,
}

/// Takes the points that a source finds.
type Sink<'a> = dyn FnMut(Moment, &str, f64) + 'a;

/// One place where numbers come from.
trait Source {
    /// Passes over what is there now.
    fn skip(&mut self) {}

    /// Takes bytes of the log as they come.
    fn hear(&mut self, _bytes: &[u8], _sink: &mut Sink<'_>) {}

    /// Reads what is new, about `budget` bytes at most. Says how much that was.
    fn poll(&mut self, _budget: u64, _sink: &mut Sink<'_>) -> Read {
        Read::default()
    }

    /// The program has ended: nothing is put off any more.
    fn hurry(&mut self) {}

    /// What was looked for, for a person who finds no metrics.
    fn sought(&self) -> Option<String>;
}

/// What one poll read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Read {
    bytes: u64,
    /// There is more to read at once.
    more: bool,
}

pub(crate) struct MetricReader {
    sources: Vec<Box<dyn Source>>,
    board: Board,
}

/// What is known of all metrics.
struct Board {
    latest: Metrics,
    streams: HashMap<String, u64>,
    course: Option<Course>,
    record: Record,
    too_many: bool,
    changed: bool,
}

impl MetricReader {
    /// Call it before the program begins: what lies there by then is not its own.
    pub(crate) fn new(job: &JobSpec, work: &Path, folder: &AttemptFolder) -> Result<Self, regex::Error> {
        let mut sources =
            vec![report::Reports::boxed(folder, job.total_tasks(), job.metrics.contains(&MetricSource::Report))];
        for (index, source) in job.metrics.iter().enumerate() {
            let stream = (index as u64 + 1) << 32;
            sources.extend(match source {
                MetricSource::Tensorboard(path) => Some(board::Boards::boxed(&work.join(path), path, stream)),
                MetricSource::Jsonl(path) => Some(find::Files::boxed(work, path, stream, jsonl::Json::default)),
                MetricSource::Csv(path) => Some(find::Files::boxed(work, path, stream, csv::Csv::default)),
                MetricSource::Stdout(pattern) => Some(log::Log::boxed(pattern, stream)?),
                MetricSource::Report => None,
            });
        }
        for source in &mut sources {
            source.skip();
        }
        let course = job.objective.clone().map(Course::new);
        let record = Record::new(folder.metrics());
        let (latest, streams) = Default::default();
        Ok(Self { sources, board: Board { latest, streams, course, record, too_many: false, changed: false } })
    }

    pub(crate) fn latest(&self) -> &Metrics {
        &self.board.latest
    }

    pub(crate) fn course(&self) -> Vec<Point> {
        self.board.course.as_ref().map(Course::points).unwrap_or_default()
    }

    /// Whether anything came since it was asked last.
    pub(crate) fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.board.changed)
    }

    /// Takes bytes of the log as they come.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        let Self { sources, board } = self;
        for source in sources {
            source.hear(bytes, &mut |moment, name, value| board.take(moment, name, value));
        }
    }

    /// Reads some of what is new; true if there is more.
    pub(crate) fn poll(&mut self) -> bool {
        let Self { sources, board } = self;
        let (mut left, mut more) = (BUDGET, false);
        for source in sources {
            let read = source.poll(left, &mut |moment, name, value| board.take(moment, name, value));
            left = left.saturating_sub(read.bytes);
            more |= read.more;
        }
        more
    }

    /// Hands what was written down to the disk.
    pub(crate) fn flush(&mut self) {
        self.board.record.flush();
    }

    /// Reads the rest when the program has ended. Returns remarks for people.
    pub(crate) fn finish(&mut self, job: &JobSpec) -> Vec<String> {
        let began = Instant::now();
        let mut notes = Vec::new();
        self.sources.iter_mut().for_each(|source| source.hurry());
        while self.poll() {
            if began.elapsed() > LAST {
                notes.push("not all metrics were read: there were too many at the end".to_owned());
                break;
            }
        }
        notes.extend(self.board.record.finish());
        notes.extend(self.missing(job));
        if self.board.too_many {
            notes.push(format!(
                "only {MOST} names of metrics of up to {LONGEST_NAME} letters are kept, and there were others"
            ));
        }
        notes
    }

    fn missing(&self, job: &JobSpec) -> Option<String> {
        let latest = &self.board.latest;
        if latest.is_empty() {
            let sought: Vec<String> = self.sources.iter().filter_map(|source| source.sought()).collect();
            return is_declared(job).then(|| format!("no metrics were seen: {}", sought.join(", ")));
        }
        let objective = job.objective.as_ref().filter(|name| !latest.contains_key(*name))?;
        let names: Vec<String> = latest.keys().take(10).map(|name| format!("`{name}`")).collect();
        let more = if latest.len() > names.len() { ", …" } else { "" };
        Some(format!("the metric `{objective}` was never seen; there were {}{more}", names.join(", ")))
    }
}

fn is_declared(job: &JobSpec) -> bool {
    !job.metrics.is_empty()
}

impl Board {
    fn take(&mut self, moment: Moment, name: &str, value: f64) {
        if !self.admit(moment, name) {
            return;
        }
        let point = Point { step: moment.step, value: value.is_finite().then_some(value) };
        if let Some(last) = self.latest.get_mut(name) {
            *last = point;
        } else {
            self.latest.insert(name.to_owned(), point);
        }
        if let Some(course) = self.course.as_mut().filter(|course| course.is_of(name)) {
            course.push(point);
        }
        self.record.write(moment, name, value);
        self.changed = true;
    }

    fn admit(&mut self, moment: Moment, name: &str) -> bool {
        if let Some(stream) = self.streams.get_mut(name) {
            let is_back = self.latest.get(name).is_some_and(|last| moment.step <= last.step);
            let counts = !is_back || moment.stream >= *stream;
            *stream = if counts { moment.stream } else { *stream };
            return counts;
        }
        let fits = !name.is_empty() && name.len() <= LONGEST_NAME && self.streams.len() < MOST;
        if fits {
            self.streams.insert(name.to_owned(), moment.stream);
        }
        self.too_many |= !fits;
        fits
    }
}

fn seconds_now() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests;
