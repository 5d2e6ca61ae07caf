//! One folder's event files read together as one run. A training that restarts, or rotates its log, leaves several;
//! they are read in the order of their names, which begin with the time they were made.
//!
//! Points of one tag stand in the order they were read. When an older file still grows after a newer one was begun,
//! its late points come after those of the newer file.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::buffer::Buffer;
use crate::event::{Event, What};
use crate::reader::{ReadError, Reader, State};
use crate::series::Series;
use crate::tags::{Overlap, Tag, Tags};

/// Reads all event files of one folder, and follows them as they grow.
#[derive(Debug)]
pub struct Run {
    folder: PathBuf,
    overlap: Overlap,
    /// Never forgotten, so that a damaged file is not taken for a new one.
    files: BTreeMap<OsString, EventFile>,
    tags: Tags,
    undecodable: u64,
    started_over: u64,
}

/// One file of a run and how it fares.
#[derive(Debug)]
pub struct EventFile {
    reader: Reader,
    trouble: Option<ReadError>,
}

impl EventFile {
    /// Tells where the reading stands and what was lost.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Why the last attempt to read it failed; the next one tries again.
    pub fn trouble(&self) -> Option<&ReadError> {
        self.trouble.as_ref()
    }
}

/// What reading brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gain {
    /// Read from the disk.
    pub bytes: u64,
    pub events: u64,
    /// Added to series.
    pub points: u64,
}

impl Gain {
    pub(crate) fn add(&mut self, other: Gain) {
        self.bytes += other.bytes;
        self.events += other.events;
        self.points += other.points;
    }
}

impl Run {
    /// Does not touch the disk; the folder may come later.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self::with_overlap(folder, Overlap::default())
    }

    pub fn with_overlap(folder: impl Into<PathBuf>, overlap: Overlap) -> Self {
        let (files, tags, undecodable, started_over) = Default::default();
        Self { folder: folder.into(), overlap, files, tags, undecodable, started_over }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// All tags in the order they first came.
    pub fn tags(&self) -> impl Iterator<Item = &Tag> {
        self.tags.iter()
    }

    pub fn tag(&self, name: &str) -> Option<&Tag> {
        self.tags.get(name)
    }

    /// A scalar's points; `None` if there are none.
    pub fn series(&self, tag: &str) -> Option<&Series> {
        self.tag(tag).map(Tag::series).filter(|series| !series.is_empty())
    }

    /// The files by name, in the order they are read.
    pub fn files(&self) -> impl Iterator<Item = (&OsStr, &EventFile)> {
        self.files.iter().map(|(name, file)| (name.as_os_str(), file))
    }

    /// Summaries of which some values could not be understood.
    pub fn undecodable(&self) -> u64 {
        self.undecodable
    }

    /// How often all series were emptied and read anew because a file had become shorter. What only deleted files held
    /// is then gone.
    pub fn started_over(&self) -> u64 {
        self.started_over
    }

    /// Looks for new files, then reads what is new in all of them. A folder that does not exist has no files; a file
    /// that cannot be read does not keep the others from being read, see [`EventFile::trouble`].
    pub fn poll(&mut self) -> Result<Gain, ReadError> {
        self.discover()?;
        Ok(self.read(&mut Buffer::default()))
    }

    /// Looks for new files.
    pub fn discover(&mut self) -> Result<(), ReadError> {
        let error = |source| ReadError { path: self.folder.clone(), source };
        let entries = match fs::read_dir(&self.folder) {
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(error)?,
        };
        let names: Vec<_> = entries.map(|entry| Ok(entry?.file_name())).collect::<Result<_, _>>().map_err(error)?;
        for name in names {
            if is_event_file(&name) && !self.files.contains_key(&name) && self.folder.join(&name).is_file() {
                self.add_file(name);
            }
        }
        Ok(())
    }

    /// Reads what is new in the files found so far.
    pub fn read(&mut self, buffer: &mut Buffer) -> Gain {
        let mut gain = Gain::default();
        // A second pass only if a file has become shorter: which points were its own is not known.
        for _ in 0..2 {
            let Some(more) = self.read_files(buffer) else {
                self.start_over();
                gain = Gain::default();
                continue;
            };
            gain.add(more);
            break;
        }
        gain
    }

    /// Follows this file too, wherever it lies. Files are read in the order of these names.
    pub fn follow(&mut self, name: impl Into<OsString>, path: impl Into<PathBuf>) {
        let path = path.into();
        self.files.entry(name.into()).or_insert_with(|| EventFile { reader: Reader::new(path), trouble: None });
    }

    pub(crate) fn add_file(&mut self, name: OsString) {
        let path = self.folder.join(&name);
        self.follow(name, path);
    }

    /// `None` if one of them starts over.
    fn read_files(&mut self, buffer: &mut Buffer) -> Option<Gain> {
        let Self { files, tags, overlap, undecodable, .. } = self;
        let mut gain = Gain::default();
        for file in files.values_mut() {
            let result = file.reader.poll_with(buffer, |event| match take(tags, *overlap, event) {
                Some(points) => gain.points += points,
                None => *undecodable += 1,
            });
            match result {
                Ok(polled) if polled.state == State::StartedOver => return None,
                Ok(polled) => {
                    gain.bytes += polled.bytes;
                    gain.events += polled.events;
                    file.trouble = None;
                }
                Err(error) => file.trouble = Some(error),
            }
        }
        Some(gain)
    }

    fn start_over(&mut self) {
        self.tags = Tags::default();
        self.undecodable = 0;
        self.started_over += 1;
        self.files.values_mut().for_each(|file| file.reader.rewind());
    }
}

/// How many points an event brings; `None` if it cannot be understood in full.
#[inline]
fn take(tags: &mut Tags, overlap: Overlap, event: Event<'_>) -> Option<u64> {
    match event.what {
        What::Summary(summary) => tags.take((event.step, event.wall_time), summary, overlap).ok(),
        What::SessionStart if overlap == Overlap::Declared => {
            tags.drop_from(event.step);
            Some(0)
        }
        _ => Some(0),
    }
}

/// TensorBoard's rule, except that hidden files are not taken: `rsync` makes such copies of a file under way.
pub(crate) fn is_event_file(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.windows(8).any(|part| part == b"tfevents") && !name.starts_with(b".") && !name.ends_with(b".profile-empty")
}

#[cfg(test)]
mod tests {
    use super::is_event_file;

    #[test]
    fn which_names_count() {
        for name in ["events.out.tfevents.1700000000.host.1.0", "events.out.tfevents.17.host.v2", "tfevents"] {
            assert!(is_event_file(name.as_ref()), "{name}");
        }
        for name in [".events.out.tfevents.17.host.aX3f", "events.out.tfevents.17.host.profile-empty", "events.out"] {
            assert!(!is_event_file(name.as_ref()), "{name}");
        }
    }
}
