//! Every point of every metric of a run, across its attempts, wherever they lie.
//!
//! An attempt that resumed at an earlier step than the last one reached says it anew: of each metric what stood at that
//! step or later is void.

mod export;
mod fetch;
mod shape;

use std::path::{Path, PathBuf};

use trainyard_core::id::RunId;
use trainyard_tfevents::{Overlap, Run, State, Tag};
pub use trainyard_tfevents::{Point, ReadError, Series};

pub use export::{ExportError, export_tensorboard, write_csv};
pub use fetch::{FetchError, fetch};
pub use shape::{Band, Spot, band, smooth};

use crate::ledger::{Batch, RunRow};

/// The curves of one run.
#[derive(Debug)]
pub struct Curves {
    run: Run,
}

/// Where the metrics of one run lie: event files, one per attempt, the earlier first.
#[derive(Debug, Clone)]
pub struct Places {
    pub run: RunId,
    pub files: Vec<PathBuf>,
}

impl Places {
    /// In a depot on this machine.
    pub fn here(row: &RunRow, batch: &Batch) -> Self {
        let folder = batch.depot.run(row.id);
        Self { run: row.id, files: (1..=row.attempt).map(|attempt| folder.attempt(attempt).metrics()).collect() }
    }
}

impl Curves {
    /// Reads all of them. An attempt without metrics has no file, which is no error.
    pub fn of(places: &Places) -> Result<Self, ReadError> {
        let mut curves = Self { run: Run::with_overlap(PathBuf::new(), Overlap::Newest) };
        for (number, path) in places.files.iter().enumerate() {
            curves.run.follow(format!("{number:09}"), path);
        }
        curves.poll()?;
        Ok(curves)
    }

    /// Reads what the files have gained.
    pub fn poll(&mut self) -> Result<(), ReadError> {
        self.run.read(&mut trainyard_tfevents::Buffer::default());
        let trouble = self.run.files().find_map(|(_, file)| file.trouble());
        match trouble.filter(|trouble| trouble.source.kind() != std::io::ErrorKind::NotFound) {
            Some(error) => Err(ReadError { path: error.path.clone(), source: error.source.kind().into() }),
            None => Ok(()),
        }
    }

    /// The metrics by name.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.tags().map(Tag::name).collect();
        names.sort_unstable();
        names
    }

    pub fn get(&self, name: &str) -> Option<&Series> {
        self.run.series(name)
    }

    /// Files that are damaged, from which offset on.
    pub fn damaged(&self) -> Vec<(&Path, u64)> {
        let files = self.run.files().map(|(_, file)| file.reader());
        files
            .filter_map(|reader| match reader.state() {
                State::Damaged { at } => Some((reader.path(), at)),
                _ => reader.lost().first_at.map(|at| (reader.path(), at)),
            })
            .collect()
    }

    pub fn summary(&self, name: &str) -> Option<Summary> {
        let series = self.get(name)?;
        let finite = || series.iter().filter(|point| point.value.is_finite());
        Some(Summary {
            points: series.len(),
            last: series.last()?,
            least: finite().min_by(|a, b| a.value.total_cmp(&b.value)),
            most: finite().max_by(|a, b| a.value.total_cmp(&b.value)),
        })
    }

    fn tags(&self) -> impl Iterator<Item = &Tag> {
        self.run.tags().filter(|tag| !tag.series().is_empty())
    }
}

/// One metric in a few numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    pub points: usize,
    pub last: Point,
    /// `None` if no value was a number.
    pub least: Option<Point>,
    pub most: Option<Point>,
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::fs::File;

    use trainyard_tfevents::{Stamp, Writer};

    use super::*;

    fn write(path: &Path, points: &[(&str, i64, f64)]) {
        let mut writer = Writer::new(File::create(path).unwrap(), 1.0).unwrap();
        for (name, step, value) in points {
            writer.exact_scalar(name, Stamp { step: *step, wall_time: 2.0 }, *value).unwrap();
        }
    }

    fn points(curves: &Curves, name: &str) -> Vec<(i64, f64)> {
        curves.get(name).unwrap().iter().map(|point| (point.step, point.value)).collect()
    }

    #[test]
    fn a_later_attempt_says_it_anew_from_where_it_began() {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<PathBuf> = (1..=12).map(|number| folder.path().join(format!("{number}.tfevents"))).collect();
        write(&files[0], &[("a", 1, 1.0), ("b", 1, 0.5), ("a", 2, 2.0), ("a", 3, 3.0)]);
        // Attempts without a file in between, and ten of them: the second is read before the tenth.
        write(&files[1], &[("a", 2, 2.5)]);
        write(&files[11], &[("a", 3, f64::NAN), ("a", 4, 4.0)]);
        let curves = Curves::of(&Places { run: RunId(uuid::Uuid::nil()), files }).unwrap();
        assert_eq!(curves.names(), ["a", "b"]);
        let found = points(&curves, "a");
        assert_eq!(found[..2], [(1, 1.0), (2, 2.5)]);
        assert!(found[2].1.is_nan() && found[3] == (4, 4.0), "{found:?}");
        let summary = curves.summary("a").unwrap();
        assert_eq!((summary.points, summary.last.step), (4, 4));
        assert_eq!((summary.least.unwrap().value, summary.most.unwrap().value), (1.0, 4.0));
        assert!(curves.damaged().is_empty());
    }
}
