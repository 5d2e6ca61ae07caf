//! An experiment's runs as event files: `tensorboard/run_<id>/` for each, with `metrics/…` as scalars, `params/…` and `tags/…`
//! as texts, at the steps and times they were logged.
//!
//! Beside the event file of a run lies a note of what it was made from. A run that has not changed since is left alone; of
//! one that has, a new file is written and takes the old one's place. Only files that the note names are ever removed.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fs_err::File;
use serde::{Deserialize, Serialize};
use trainyard_tfevents::{Stamp, Writer};

use super::keys::{Keys, METRIC_TAG, PARAM_TAG};
use super::{Experiment, Mlflow, Point, ServerRun, TrackingError};

/// What was done with the runs of an experiment.
#[derive(Debug, Default)]
pub struct Written {
    /// New, or refreshed because they had changed.
    pub written: Vec<PathBuf>,
    pub unchanged: usize,
    /// Folders with event files that something else made. They are left as they are.
    pub foreign: Vec<PathBuf>,
    /// By the server's id of the run. The others are done.
    pub failed: Vec<(String, TrackingError)>,
}

/// Where the note lies in a run's folder.
const NOTE: &str = ".trainyard.json";
/// More would only queue at the server.
const LANES: usize = 4;

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    /// Of the run's data at the server. Missing while a file is being replaced.
    made_from: Option<String>,
    /// Event files of ours that may be there, the newest last.
    files: Vec<String>,
    generation: u64,
}

/// All runs of an experiment, below `folder`. Safe to be killed and to be started again; `report` hears how many of how many
/// are done.
pub fn write(
    mlflow: &Mlflow,
    experiment: &Experiment,
    folder: &Path,
    report: &(impl Fn(usize, usize) + Sync),
) -> Result<Written, TrackingError> {
    let runs = mlflow.runs(experiment)?;
    let root = folder.join("tensorboard");
    fs_err::create_dir_all(&root)?;
    let lock = std::fs::File::create(root.join(".trainyard.lock"))?;
    if lock.try_lock().is_err() {
        return Err(TrackingError::Busy { folder: root });
    }
    let written = Mutex::new(Written::default());
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let lane = || {
        while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = write_run(mlflow, run, &root);
            written.lock().unwrap_or_else(std::sync::PoisonError::into_inner).add(run, outcome);
            report(done.fetch_add(1, Ordering::Relaxed) + 1, runs.len());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..LANES.min(runs.len()) {
            scope.spawn(lane);
        }
    });
    let mut written = written.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    written.written.sort();
    Ok(written)
}

enum Outcome {
    Written(PathBuf),
    Unchanged,
    Foreign(PathBuf),
}

impl Written {
    fn add(&mut self, run: &ServerRun, outcome: Result<Outcome, TrackingError>) {
        match outcome {
            Ok(Outcome::Written(path)) => self.written.push(path),
            Ok(Outcome::Unchanged) => self.unchanged += 1,
            Ok(Outcome::Foreign(path)) => self.foreign.push(path),
            Err(error) => self.failed.push((run.run_id.clone(), error)),
        }
    }
}

fn write_run(mlflow: &Mlflow, run: &ServerRun, root: &Path) -> Result<Outcome, TrackingError> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if run.run_id.is_empty() || !run.run_id.chars().all(is_name) {
        return Err(TrackingError::Escapes { name: run.run_id.clone() });
    }
    let folder = root.join(format!("run_{}", run.run_id));
    fs_err::create_dir_all(&folder)?;
    let note = read_note(&folder)?;
    if event_files(&folder)?.iter().any(|name| !note.files.contains(name)) {
        return Ok(Outcome::Foreign(folder));
    }
    let made_from = digest(run);
    let is_there = note.files.last().is_some_and(|name| folder.join(name).is_file());
    if is_there && note.files.len() == 1 && note.made_from.as_ref() == Some(&made_from) {
        return Ok(Outcome::Unchanged);
    }

    let generation = note.generation + 1;
    let seconds = run.started.max(0) / 1000;
    let name = format!("events.out.tfevents.{seconds:010}.mlflow.{generation}");
    // Without the word by which TensorBoard knows its files.
    let part = folder.join(".part");
    let metrics = histories(mlflow, run)?;
    write_events(&part, run, &metrics, note.generation > 0)?;
    let mut files = note.files;
    files.push(name.clone());
    write_note(&folder, &Note { made_from: None, files: files.clone(), generation })?;
    fs_err::rename(&part, folder.join(&name))?;
    for old in files.iter().filter(|old| **old != name) {
        remove(&folder.join(old))?;
    }
    write_note(&folder, &Note { made_from: Some(made_from), files: vec![name], generation })?;
    Ok(Outcome::Written(folder))
}

/// By the names that were meant.
fn histories(mlflow: &Mlflow, run: &ServerRun) -> Result<BTreeMap<String, Vec<Point>>, TrackingError> {
    let keys = Keys::new(METRIC_TAG, &run.tags, run.newest.keys());
    let mut metrics = BTreeMap::new();
    for key in run.newest.keys() {
        let mut points = mlflow.history(&run.run_id, key)?;
        points.sort_by_key(|point| (point.time, point.step));
        metrics.insert(keys.original(key).to_owned(), points);
    }
    Ok(metrics)
}

fn write_events(
    path: &Path,
    run: &ServerRun,
    metrics: &BTreeMap<String, Vec<Point>>,
    is_again: bool,
) -> io::Result<()> {
    let began = Stamp { step: 0, wall_time: seconds(run.started) };
    let mut writer = Writer::new(BufWriter::new(File::create(path)?), began.wall_time)?;
    if is_again {
        // A TensorBoard that has read the old file forgets what it held.
        let first = metrics.values().flatten().map(|point| point.step).min().unwrap_or(0);
        writer.session_start(Stamp { step: first, ..began })?;
    }
    let params = Keys::new(PARAM_TAG, &run.tags, run.params.keys());
    for (key, value) in &run.params {
        writer.text(&format!("params/{}", params.original(key)), began, value)?;
    }
    for (key, value) in &run.tags {
        if !key.starts_with(METRIC_TAG) && !key.starts_with(PARAM_TAG) {
            writer.text(&format!("tags/{key}"), began, value)?;
        }
    }
    for (name, points) in metrics {
        let tag = format!("metrics/{name}");
        for point in points {
            let stamp = Stamp { step: point.step, wall_time: seconds(point.time) };
            writer.scalar(&tag, stamp, point.value as f32)?;
        }
    }
    let mut file = writer.into_inner();
    file.flush()?;
    file.get_ref().sync_all()
}

fn seconds(milliseconds: i64) -> f64 {
    milliseconds as f64 / 1000.0
}

/// Of all that a search tells. A point that is older than the newest of its metric does not change it.
fn digest(run: &ServerRun) -> String {
    let newest: Vec<_> =
        run.newest.iter().map(|(key, point)| (key, point.step, point.time, point.value.to_bits())).collect();
    let told = (run.status.as_str(), run.started, run.ended, &run.params, &run.tags, newest);
    // Tuples of strings and numbers always have a JSON form.
    let text = serde_json::to_vec(&told).unwrap_or_default();
    blake3::hash(&text).to_hex().to_string()
}

fn event_files(folder: &Path) -> io::Result<Vec<String>> {
    let names = fs_err::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names = names.collect::<io::Result<Vec<String>>>()?;
    Ok(names.into_iter().filter(|name| name.contains("tfevents")).collect())
}

/// One that is missing or cannot be read says nothing.
fn read_note(folder: &Path) -> io::Result<Note> {
    match fs_err::read(folder.join(NOTE)) {
        Ok(text) => {
            let note: Note = serde_json::from_slice(&text).unwrap_or_default();
            let is_ours = note.files.iter().all(|name| name.starts_with("events.out.tfevents.") && !name.contains('/'));
            Ok(if is_ours { note } else { Note::default() })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Note::default()),
        Err(error) => Err(error),
    }
}

fn write_note(folder: &Path, note: &Note) -> io::Result<()> {
    let part = folder.join(".note.part");
    let mut file = File::create(&part)?;
    file.write_all(&serde_json::to_vec(note)?)?;
    file.sync_all()?;
    fs_err::rename(part, folder.join(NOTE))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs_err::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
