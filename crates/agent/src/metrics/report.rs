//! What a program says by itself: JSON lines in the file that `YARD_METRICS` names, by `yard report` or its own hand.
//!
//! Each process of a run has a file of its own, so that no two write into one from different machines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::find::{Pace, Parser};
use super::jsonl::Json;
use super::lines::{Heard, Lines};
use super::{Read, Sink, Source};
use crate::depot::AttemptFolder;

const NAME: &str = "reported";

pub(super) struct Reports {
    first: PathBuf,
    /// By rank.
    files: BTreeMap<u32, (Lines, Json)>,
    is_declared: bool,
    tasks: u32,
    pace: Pace,
}

impl Reports {
    pub(super) fn boxed(folder: &AttemptFolder, tasks: u32, is_declared: bool) -> Box<dyn Source> {
        let first = folder.reported();
        let files = BTreeMap::from([(0, (Lines::new(first.clone()), Json::default()))]);
        Box::new(Self { first, files, is_declared, tasks, pace: Pace::default() })
    }

    fn discover(&mut self) {
        let folder = self.first.parent().filter(|_| self.tasks > 1);
        let Some(entries) = folder.and_then(|folder| self.pace.walk(|| std::fs::read_dir(folder).ok())?) else {
            return;
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            if let Some(rank) = rank(&path).filter(|rank| *rank < self.tasks) {
                self.files.entry(rank).or_insert_with(|| (Lines::new(path), Json::default()));
            }
        }
    }
}

impl Source for Reports {
    fn hurry(&mut self) {
        self.pace.hurry();
    }

    /// The lowest rank counts where several report the same.
    fn poll(&mut self, budget: u64, sink: &mut Sink<'_>) -> Read {
        self.discover();
        let mut all = Read::default();
        for (rank, (lines, json)) in &mut self.files {
            let stream = u64::from(u32::MAX - rank);
            let read = lines.poll(budget.saturating_sub(all.bytes), |heard| match heard {
                Heard::Line(line) => json.line(line, stream, sink),
                Heard::Anew => json.anew(),
            });
            all.bytes += read.bytes;
            all.more |= read.more;
        }
        all
    }

    fn sought(&self) -> Option<String> {
        self.is_declared.then(|| "nothing was said with `yard report`".to_owned())
    }
}

/// The file of another process of the same attempt.
pub(crate) fn of_rank(first: &Path, rank: u32) -> PathBuf {
    first.with_file_name(if rank == 0 { format!("{NAME}.jsonl") } else { format!("{NAME}.{rank}.jsonl") })
}

fn rank(path: &Path) -> Option<u32> {
    let middle = path.file_name()?.to_str()?.strip_prefix(NAME)?.strip_suffix(".jsonl")?;
    middle.strip_prefix('.')?.parse().ok()
}
