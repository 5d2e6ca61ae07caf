//! Files of lines, by a path or a pattern: found as they come, each read by a parser of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobMatcher};

use super::lines::{Heard, Lines};
use super::{Read, Sink, Source};

/// Understands the lines of one file.
pub(super) trait Parser {
    /// What is looked for in the file, for people.
    const WHAT: &'static str;

    /// The file starts from its beginning.
    fn anew(&mut self);

    /// The beginning of a file whose content is passed over.
    fn header(&mut self, _start: &[u8]) {}

    fn line(&mut self, line: &[u8], stream: u64, sink: &mut Sink<'_>);
}

/// Names of the step, the surest first; what stands before a `/` does not count.
const STEPS: [&str; 9] =
    ["step", "global_step", "env_step", "total_timesteps", "timesteps", "timestep", "iteration", "iter", "epoch"];

pub(super) fn is_step(name: &str) -> bool {
    step_rank(name) < STEPS.len()
}

/// The lowest of a line's names is its step.
pub(super) fn step_rank(name: &str) -> usize {
    let last = name.rsplit('/').next().unwrap_or(name);
    STEPS.iter().position(|step| step.eq_ignore_ascii_case(last)).unwrap_or(STEPS.len())
}

pub(super) struct Files<P> {
    place: Place,
    named: String,
    make: fn() -> P,
    stream: u64,
    files: BTreeMap<PathBuf, (u64, Lines, P)>,
    pace: Pace,
}

enum Place {
    File(PathBuf),
    Pattern { top: PathBuf, work: PathBuf, matcher: GlobMatcher },
}

impl<P: Parser + 'static> Files<P> {
    pub(super) fn boxed(work: &Path, path: &str, stream: u64, make: fn() -> P) -> Box<dyn Source> {
        let literal: PathBuf = path.split('/').take_while(|part| !part.contains(['*', '?', '[', '{'])).collect();
        let matcher = GlobBuilder::new(path.trim_start_matches("./")).literal_separator(true).build();
        let place = match matcher {
            Ok(glob) if path.contains(['*', '?', '[', '{']) => {
                Place::Pattern { top: work.join(literal), work: work.to_owned(), matcher: glob.compile_matcher() }
            }
            _ => Place::File(work.join(path)),
        };
        let (files, pace) = Default::default();
        Box::new(Self { place, named: path.to_owned(), make, stream, files, pace })
    }

    fn discover(&mut self) {
        let found = match &self.place {
            Place::File(path) if self.files.is_empty() => vec![path.clone()],
            Place::File(_) => return,
            Place::Pattern { top, work, matcher } => match self.pace.walk(|| files_below(top)) {
                Some(all) => {
                    let wanted = |path: &PathBuf| matcher.is_match(path.strip_prefix(work).unwrap_or(path));
                    all.into_iter().filter(wanted).collect()
                }
                None => return,
            },
        };
        for path in found {
            let next = self.stream + self.files.len() as u64;
            self.files.entry(path.clone()).or_insert_with(|| (next, Lines::new(path), (self.make)()));
        }
    }
}

impl<P: Parser + 'static> Source for Files<P> {
    fn skip(&mut self) {
        self.discover();
        for (_, lines, parser) in self.files.values_mut() {
            lines.skip(|start| parser.header(start));
        }
        self.hurry();
    }

    fn hurry(&mut self) {
        self.pace.hurry();
    }

    fn poll(&mut self, budget: u64, sink: &mut Sink<'_>) -> Read {
        self.discover();
        let mut all = Read::default();
        for (stream, lines, parser) in self.files.values_mut() {
            let read = lines.poll(budget.saturating_sub(all.bytes), |heard| match heard {
                Heard::Line(line) => parser.line(line, *stream, sink),
                Heard::Anew => parser.anew(),
            });
            all.bytes += read.bytes;
            all.more |= read.more;
        }
        all
    }

    fn sought(&self) -> Option<String> {
        Some(format!("no {} in `{}`", P::WHAT, self.named))
    }
}

/// Walks through a tree no more often than its size allows.
#[derive(Debug, Default)]
pub(super) struct Pace {
    next: Option<Instant>,
}

impl Pace {
    pub(super) fn walk<T>(&mut self, walk: impl FnOnce() -> T) -> Option<T> {
        const SHARE: u32 = 30;
        let began = Instant::now();
        if self.next.is_some_and(|next| began < next) {
            return None;
        }
        let found = walk();
        self.next = Some(Instant::now() + (began.elapsed() * SHARE).min(Duration::from_secs(60)));
        Some(found)
    }

    /// The next walk is not put off.
    pub(super) fn hurry(&mut self) {
        self.next = None;
    }
}

/// In the order of their names; links to folders are not followed.
fn files_below(top: &Path) -> Vec<PathBuf> {
    let (mut open, mut found) = (vec![top.to_owned()], Vec::new());
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(entry.path()),
                Ok(_) => found.push(entry.path()),
                Err(_) => {}
            }
        }
    }
    found.sort();
    found
}
