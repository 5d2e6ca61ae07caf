//! Runs to a server, each point exactly once.
//!
//! Points are added by a server, never replaced, so one that was sent in vain and one whose receipt was lost must be told apart.
//! The server itself is asked: its run carries our id as a tag, and what it has of a metric is not sent. Nothing is remembered
//! on disk here.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use super::artifacts::acceptable;
use super::keys::{Keys, METRIC_TAG, PARAM_TAG};
use super::mlflow::{Experiment, Mlflow, NewRun};
use super::wire::{Batch, Metric, Pair, ServerRun, pairs};
use super::{Point, TrackedRun, TrackingError};

const RUN_TAG: &str = "trainyard.run";
const PARENT_TAG: &str = "mlflow.parentRunId";
const NAME_TAG: &str = "mlflow.runName";
/// Limits of the server on one request.
const MOST_METRICS: usize = 1000;
const MOST_PAIRS: usize = 100;
const MOST_BYTES: usize = 900_000;
/// Of a parameter's and a tag's value, in characters, for servers that do not shorten them by themselves.
const LONGEST_PARAM: usize = 6000;
const LONGEST_TAG: usize = 5000;
const LONGEST_NAME: usize = 250;
/// A server that is restarted takes half a minute.
const PATIENCE: Duration = Duration::from_secs(90);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Brings runs into one experiment. Keeps in mind what the server has acknowledged, so that a run that goes on costs its new
/// points only. One at a time for each run: two that export the same new run at the same moment may make two of it.
#[derive(Debug)]
pub struct Exporter {
    mlflow: Mlflow,
    experiment: Experiment,
    patience: Duration,
    known: BTreeMap<String, Known>,
}

/// A run that is at the server.
#[derive(Debug)]
struct Known {
    run: ServerRun,
    metrics: Keys,
    params: Keys,
    /// How many points of a metric, by the server's name, are certainly there.
    acknowledged: BTreeMap<String, usize>,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exported {
    /// The server's.
    pub run_id: String,
    /// Sent now; the others were there.
    pub points: usize,
    pub requests: usize,
    pub artifacts: usize,
}

impl Exporter {
    /// Makes the experiment if there is none of this name.
    pub fn new(mlflow: Mlflow, experiment: &str) -> Result<Self, TrackingError> {
        let experiment = mlflow.experiment_or_new(experiment)?;
        Ok(Self { mlflow, experiment, patience: PATIENCE, known: BTreeMap::new() })
    }

    /// How long a server may be away before an export gives up.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    pub fn experiment(&self) -> &Experiment {
        &self.experiment
    }

    /// Brings the server up to date with this run. After an error, whatever arrived is there, and the next call goes on from it.
    pub fn export(&mut self, run: &TrackedRun) -> Result<Exported, TrackingError> {
        let parent = run.parent.as_ref().map(|parent| self.parent(parent, run.started)).transpose()?;
        let mut known = match self.known.remove(&run.id) {
            Some(known) => known,
            None => self.find_or_create(&run.id, &run.name, run.started)?,
        };
        let mut done = Exported { run_id: known.run.run_id.clone(), ..Exported::default() };
        self.describe(run, parent, &mut known, &mut done)?;
        self.points(run, &mut known, &mut done)?;
        self.files(run, &known, &mut done)?;
        self.conclude(run, &mut known)?;
        self.known.insert(run.id.clone(), known);
        Ok(done)
    }

    /// The server's id of a run that others lie below, which is made if it is not there yet.
    fn parent(&mut self, id: &str, started: i64) -> Result<String, TrackingError> {
        if let Some(known) = self.known.get(id) {
            return Ok(known.run.run_id.clone());
        }
        let known = self.find_or_create(id, id, started)?;
        let run_id = known.run.run_id.clone();
        self.known.insert(id.to_owned(), known);
        Ok(run_id)
    }

    fn find_or_create(&self, id: &str, name: &str, started: i64) -> Result<Known, TrackingError> {
        let tag = (RUN_TAG, id);
        let made = self.patiently(|| {
            if let Some(found) = self.mlflow.tagged(&self.experiment, tag)?.into_iter().next() {
                return Ok(found);
            }
            let name = &shortened(name, LONGEST_NAME);
            let new = NewRun { experiment: &self.experiment, name, started, tag };
            let made = self.mlflow.create_run(&new)?;
            // Somebody else may have done the same in this moment.
            let all = self.mlflow.tagged(&self.experiment, tag)?;
            match all.into_iter().min_by(|a, b| a.run_id.cmp(&b.run_id)) {
                Some(first) if first.run_id != made.run_id => {
                    self.mlflow.delete_run(&made.run_id)?;
                    Ok(first)
                }
                _ => Ok(made),
            }
        })?;
        // A search does not promise all of a run's data.
        let run = self.patiently(|| self.mlflow.run(&made.run_id))?;
        let metrics = Keys::new(METRIC_TAG, &run.tags, run.newest.keys());
        let params = Keys::new(PARAM_TAG, &run.tags, run.params.keys());
        Ok(Known { run, metrics, params, acknowledged: BTreeMap::new() })
    }

    /// Tags and parameters, those that tell names first.
    fn describe(
        &self,
        run: &TrackedRun,
        parent: Option<String>,
        known: &mut Known,
        done: &mut Exported,
    ) -> Result<(), TrackingError> {
        let mut tags: BTreeMap<String, String> =
            run.tags.iter().map(|(key, value)| (super::keys::acceptable(key), shortened(value, LONGEST_TAG))).collect();
        tags.insert(NAME_TAG.to_owned(), shortened(&run.name, LONGEST_NAME));
        tags.extend(parent.map(|parent| (PARENT_TAG.to_owned(), parent)));
        tags.extend(run.metrics.iter().filter_map(|(name, _)| known.metrics.name(name).1));
        let mut params = BTreeMap::new();
        for (key, value) in &run.params {
            let (name, tag) = known.params.name(key);
            tags.extend(tag);
            if !known.run.params.contains_key(&name) {
                params.insert(name, shortened(value, LONGEST_PARAM));
            }
        }
        tags.retain(|key, value| known.run.tags.get(key) != Some(value));
        for part in parted(pairs(&tags), MOST_PAIRS, pair_size) {
            self.log(known, Batch { tags: part, ..Batch::default() }, done)?;
        }
        for part in parted(pairs(&params), MOST_PAIRS, pair_size) {
            self.log(known, Batch { params: part, ..Batch::default() }, done)?;
        }
        known.run.tags.extend(tags);
        known.run.params.extend(params);
        Ok(())
    }

    fn log(&self, known: &Known, batch: Batch, done: &mut Exported) -> Result<(), TrackingError> {
        let batch = Batch { run_id: known.run.run_id.clone(), ..batch };
        done.requests += 1;
        self.patiently(|| self.mlflow.log(&batch))
    }

    /// All points that the server may lack. As long as it acknowledges, it is not asked; when it did not, it is asked what it has.
    fn points(&self, run: &TrackedRun, known: &mut Known, done: &mut Exported) -> Result<(), TrackingError> {
        let mut waiting = Waiting::new(self.patience);
        loop {
            let missing = self.patiently(|| self.missing(run, known))?;
            let mut sent_all = true;
            for part in parted(missing, MOST_METRICS, metric_size) {
                let (count, metrics) = (part.len(), part);
                let batch = Batch { run_id: known.run.run_id.clone(), metrics, ..Batch::default() };
                done.requests += 1;
                match self.mlflow.log(&batch) {
                    Ok(()) => {
                        done.points += count;
                        waiting.progress();
                    }
                    Err(error) => {
                        waiting.after(error)?;
                        sent_all = false;
                        break;
                    }
                }
            }
            if sent_all {
                for (name, points) in &run.metrics {
                    let name = known.metrics.name(name).0;
                    if let Some(last) = points.last() {
                        known.run.newest.insert(name.clone(), *last);
                    }
                    known.acknowledged.insert(name, points.len());
                }
                return Ok(());
            }
            // Receipts of before are as true as ever, but points after them may have arrived too.
            known.acknowledged.clear();
            known.run.newest = self.patiently(|| self.mlflow.run(&known.run.run_id))?.newest;
        }
    }

    /// What the server does not have, as far as is known, in the order of the run.
    fn missing(&self, run: &TrackedRun, known: &Known) -> Result<Vec<Metric>, TrackingError> {
        let mut missing = Vec::new();
        let mut keys = known.metrics.clone();
        for (name, points) in &run.metrics {
            let name = keys.name(name).0;
            let sure = known.acknowledged.get(&name).copied().filter(|count| *count <= points.len());
            if sure == Some(points.len()) {
                continue;
            }
            let is_there = known.run.newest.contains_key(&name);
            let mut there: HashSet<_> = match sure {
                None if is_there => {
                    self.mlflow.history(&known.run.run_id, &name)?.into_iter().map(Point::identity).collect()
                }
                _ => HashSet::new(),
            };
            let new = points.iter().skip(sure.unwrap_or(0)).filter(|point| there.insert(point.identity()));
            missing.extend(new.map(|point| Metric::new(&name, *point)));
        }
        Ok(missing)
    }

    fn files(&self, run: &TrackedRun, known: &Known, done: &mut Exported) -> Result<(), TrackingError> {
        if run.artifacts.is_empty() {
            return Ok(());
        }
        let there = self.patiently(|| self.mlflow.artifacts(&known.run))?;
        for artifact in &run.artifacts {
            let size = fs_err::metadata(&artifact.path)?.len();
            let name = acceptable(&artifact.name);
            if !there.iter().any(|file| file.name == name && file.size == size) {
                self.patiently(|| self.mlflow.upload(&known.run, artifact))?;
                done.artifacts += 1;
            }
        }
        Ok(())
    }

    /// Last, so that a run that has ended at the server is whole there.
    fn conclude(&self, run: &TrackedRun, known: &mut Known) -> Result<(), TrackingError> {
        if known.run.status == run.status && known.run.ended == run.ended {
            return Ok(());
        }
        self.patiently(|| self.mlflow.update_run(&known.run.run_id, &run.status, run.ended))?;
        known.run.status = run.status.clone();
        known.run.ended = run.ended;
        Ok(())
    }

    /// Again and again, while the server is away.
    fn patiently<T>(&self, mut work: impl FnMut() -> Result<T, TrackingError>) -> Result<T, TrackingError> {
        let mut waiting = Waiting::new(self.patience);
        loop {
            match work() {
                Err(error) => waiting.after(error)?,
                done => return done,
            }
        }
    }
}

/// How long a server has been away.
struct Waiting {
    patience: Duration,
    since: Option<Instant>,
    pause: Duration,
}

impl Waiting {
    fn new(patience: Duration) -> Self {
        Self { patience, since: None, pause: Duration::from_millis(100) }
    }

    fn progress(&mut self) {
        *self = Self::new(self.patience);
    }

    /// Waits, or gives the error back when that would not help any more.
    fn after(&mut self, error: TrackingError) -> Result<(), TrackingError> {
        let may_pass = matches!(&error, TrackingError::Web(error) if error.may_pass() || error.is_doubtful());
        if !may_pass || self.since.get_or_insert_with(Instant::now).elapsed() >= self.patience {
            return Err(error);
        }
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

/// In parts that a request can hold.
fn parted<T>(all: Vec<T>, most: usize, size: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut parts: Vec<Vec<T>> = Vec::new();
    let mut bytes = 0;
    for one in all {
        let more = size(&one);
        match parts.last_mut() {
            Some(part) if part.len() < most && bytes + more <= MOST_BYTES => {
                part.push(one);
                bytes += more;
            }
            _ => {
                parts.push(vec![one]);
                bytes = more;
            }
        }
    }
    parts
}

/// At most, with every character escaped.
fn pair_size(pair: &Pair) -> usize {
    40 + 6 * (pair.key.len() + pair.value.len())
}

fn metric_size(metric: &Metric) -> usize {
    120 + 2 * metric.key.len()
}

fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most - 1) {
        Some((end, _)) if text[end..].chars().count() > 1 => format!("{}…", &text[..end]),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fit_into_requests() {
        let parts = parted((0..2500).collect(), MOST_METRICS, |_| 10);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [1000, 1000, 500]);
        let parts = parted(vec![(); 5], 100, |()| MOST_BYTES / 2);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
        assert!(parted(Vec::<()>::new(), 10, |()| 1).is_empty());
    }

    #[test]
    fn long_values_are_shortened() {
        assert_eq!(shortened("abc", 3), "abc");
        assert_eq!(shortened("äbcd", 3), "äb…");
        assert_eq!(shortened("", 3), "");
    }
}
