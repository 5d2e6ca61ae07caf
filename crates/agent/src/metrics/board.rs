//! TensorBoard event files below a folder, event by event: nothing is held of them but where the reading stands.
//!
//! Libraries name a run's folder after the date, so a metric goes by its tag alone. Folders that live beside each other
//! on purpose are told apart: one within another run's folder, as `add_scalars` makes them, and `train` beside
//! `validation` as Keras does it, stand before the tag.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use trainyard_tfevents::{Buffer, Datum, Event, Metadata, Reader, State, Tree, Value, What};

use super::find::Pace;
use super::{Moment, Read, Sink, Source};

/// Folders that hold a part of a run, not a run.
const PARTS: [&str; 8] = ["train", "training", "val", "valid", "validation", "eval", "evaluation", "test"];

pub(super) struct Boards {
    tree: Tree,
    named: String,
    stream: u64,
    /// By name, which begins with the time it was made.
    files: BTreeMap<(OsString, PathBuf), File>,
    streams: HashMap<PathBuf, u64>,
    buffer: Buffer,
    pace: Pace,
}

struct File {
    reader: Reader,
    stream: u64,
    /// Stands before each tag.
    prefix: String,
    /// Whether the tensors of a tag are scalars. Writers say so with the first of them only.
    tensors: HashMap<Vec<u8>, bool>,
}

impl Boards {
    pub(super) fn boxed(folder: &Path, named: &str, stream: u64) -> Box<dyn Source> {
        let (files, streams, buffer, pace) = Default::default();
        Box::new(Self { tree: Tree::new(folder), named: named.to_owned(), stream, files, streams, buffer, pace })
    }

    fn discover(&mut self) {
        let tree = &mut self.tree;
        // A folder that cannot be looked into now may be with the next walk.
        let Some((found, _troubles)) = self.pace.walk(|| tree.discover()) else { return };
        let mut found: Vec<_> =
            found.into_iter().filter_map(|path| Some((path.file_name()?.to_owned(), path))).collect();
        found.sort();
        for (name, path) in found {
            let folder = path.parent().unwrap_or(&path).to_owned();
            let next = self.stream + self.streams.len() as u64;
            let stream = *self.streams.entry(folder.clone()).or_insert(next);
            let prefix = self.prefix(&folder);
            let file = File { reader: Reader::new(&path), stream, prefix, tensors: HashMap::new() };
            self.files.insert((name, path), file);
        }
    }

    fn prefix(&self, folder: &Path) -> String {
        let top = self.tree.root();
        let outer = folder.ancestors().skip(1).take_while(|outer| outer.starts_with(top));
        let run = outer.into_iter().find(|outer| self.streams.contains_key(*outer));
        let own = |from: &Path| {
            let parts = folder.strip_prefix(from).unwrap_or(folder).iter();
            parts.map(|part| format!("{}/", part.to_string_lossy())).collect::<String>()
        };
        let is_part = folder.file_name().is_some_and(|name| PARTS.iter().any(|part| name == *part));
        match run {
            Some(run) => own(run),
            None if is_part && folder != top => own(folder.parent().unwrap_or(folder)),
            None => String::new(),
        }
    }
}

impl Source for Boards {
    fn skip(&mut self) {
        self.discover();
        for file in self.files.values_mut() {
            file.reader.skip();
        }
        self.hurry();
    }

    fn hurry(&mut self) {
        self.pace.hurry();
    }

    /// A file that cannot be read now is tried again with the next poll; a damaged one gives what it had.
    fn poll(&mut self, budget: u64, sink: &mut Sink<'_>) -> Read {
        self.discover();
        let Self { files, buffer, .. } = self;
        let mut all = Read::default();
        for file in files.values_mut() {
            let File { reader, stream, prefix, tensors } = file;
            let left = budget.saturating_sub(all.bytes);
            if let Ok(polled) = reader.poll_some(buffer, left, |event| take(event, *stream, prefix, tensors, sink)) {
                all.bytes += polled.bytes;
                all.more |= polled.more || polled.state == State::StartedOver;
            }
        }
        all
    }

    fn sought(&self) -> Option<String> {
        let what = if self.files.is_empty() { "no event files" } else { "no scalars in the event files" };
        Some(format!("{what} in `{}`", self.named))
    }
}

/// Values before a malformed one count.
fn take(event: Event<'_>, stream: u64, prefix: &str, tensors: &mut HashMap<Vec<u8>, bool>, sink: &mut Sink<'_>) {
    let What::Summary(summary) = event.what else { return };
    for value in summary.values().map_while(Result::ok) {
        let number = match value.datum {
            Datum::Tensor(tensor) if is_scalar(&value, tensors) => tensor.number().ok().flatten(),
            _ => value.simple(),
        };
        let Some(number) = number else { continue };
        let Ok(tag) = std::str::from_utf8(value.tag) else { continue };
        let moment = Moment { step: event.step, time: event.wall_time, stream };
        if prefix.is_empty() {
            sink(moment, tag, number);
        } else {
            sink(moment, &format!("{prefix}{tag}"), number);
        }
    }
}

/// A tensor of which nobody has said what it is for is one if it is a number.
fn is_scalar(value: &Value<'_>, tensors: &mut HashMap<Vec<u8>, bool>) -> bool {
    const MOST: usize = 10_000;
    if let Some(known) = tensors.get(value.tag) {
        return *known;
    }
    let Ok(Some(Metadata { plugin, data_class, .. })) = value.metadata() else { return true };
    let is_scalar = plugin == b"scalars" || data_class == 1;
    if tensors.len() < MOST {
        tensors.insert(value.tag.to_vec(), is_scalar);
    }
    is_scalar
}
