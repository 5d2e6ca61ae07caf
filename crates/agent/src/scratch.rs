//! Work on a machine's own disk. An attempt begins with the snapshot's files and what the depot has of the run, and
//! what it makes of its outputs and checkpoints comes back to the depot, every file whole or not at all.
//!
//! The depot's working folder then holds results only. A checkpoint is brought back when nobody writes it any more; if
//! it is a folder, all of it at once.

mod bring;

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use globset::{GlobBuilder, GlobMatcher};
use trainyard_core::id::Digest;
use trainyard_core::plan::expand::expand;
use trainyard_core::spec::{JobSpec, MetricSource, format_size};

use crate::checkpoint::Doubt;
use crate::disk::remove_folder;
use crate::lay::{self, LayError};
use crate::order::{Order, Source};
use crate::process::{descendants, open_for_writing};
use crate::snapshot::{Kind, Manifest, SnapshotError};

/// Between two looks at what is new.
const EVERY: Duration = Duration::from_secs(60);
/// The same when the end is near.
const SOON: Duration = Duration::from_secs(5);

/// A full disk may be emptied; after this the results are given up with the scratch.
const TRIES: u32 = 10;
const AGAIN: Duration = Duration::from_secs(2);

/// A working folder on scratch, removed when this is dropped.
pub(crate) struct Scratch {
    folder: PathBuf,
    depot: PathBuf,
    incoming: PathBuf,
    roots: Vec<PathBuf>,
    checkpoint: Option<GlobMatcher>,
    /// Files as they were when they were last the same here and there.
    same: BTreeMap<PathBuf, Stamp>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ScratchError {
    #[error("`scratch`: {0}")]
    Place(io::Error),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Tree(#[from] LayError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What tells a file that has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: SystemTime,
}

/// Whether the order is for scratch.
pub(crate) fn is_wanted(order: &Order) -> bool {
    order.lease.is_some() && order.job.around.scratch.is_some() && matches!(order.source, Source::Snapshot(_))
}

impl Scratch {
    /// Makes the folder anew; what a killed attempt left there is gone.
    pub(crate) fn prepare(order: &Order, digest: &Digest) -> Result<Self, ScratchError> {
        let place = order.job.around.scratch.as_deref().unwrap_or_default();
        let place = expand(place, |name| std::env::var(name).ok()).map_err(|error| named(io::Error::other(error)))?;
        // As the kernel names it, so that open files are known again.
        let place = fs_err::canonicalize(place).map_err(named)?;
        let run = order.depot.run(order.run);
        let manifest = Manifest::read(&order.depot, digest)?;
        fs_err::create_dir_all(run.work())?;
        let mut this = Self {
            folder: place.join(format!("yard-{}", order.run)),
            depot: run.work(),
            incoming: run.path().join("incoming"),
            roots: roots(&order.job),
            checkpoint: matcher(&order.job)?,
            same: BTreeMap::new(),
        };
        remove_folder(&this.incoming)?;
        check_space(&place, size(&manifest) + bring::size(&this.depot)).map_err(named)?;
        remove_folder(&this.folder).map_err(named)?;
        // A shared /tmp: nobody else looks in, and a folder that is there already is not ours.
        DirBuilder::new()
            .mode(0o700)
            .create(&this.folder)
            .map_err(|error| named(io::Error::new(error.kind(), format!("{}: {error}", this.folder.display()))))?;
        lay::lay(&order.depot, &manifest, &this.folder)?;
        for name in bring::stamps(&this.depot, Path::new("")).into_keys() {
            bring::one(&this.depot.join(&name), &this.folder.join(&name), &this.folder.join(".yard-incoming"))?;
        }
        this.same = bring::stamps(&this.folder, Path::new(""));
        Ok(this)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Brings back what has changed. Files that may be half written wait for the next time.
    fn sync(&mut self, doubt: &Doubt) -> io::Result<()> {
        fs_err::create_dir_all(&self.incoming)?;
        let mut now = BTreeMap::new();
        for root in &self.roots {
            now.extend(bring::stamps(&self.folder, root));
            if self.folder.join(root).is_dir() {
                fs_err::create_dir_all(self.depot.join(root))?;
            }
        }
        for (unit, names) in self.units(&now) {
            let changed = names.iter().any(|name| self.same.get(*name) != now.get(*name));
            let is_checkpoint = self.checkpoint_of(unit).is_some();
            if !changed || is_checkpoint && names.iter().any(|name| doubt.covers_file(&self.folder.join(name))) {
                continue;
            }
            match self.bring(unit, &names) {
                Ok(()) => self.same.extend(names.iter().filter_map(|name| Some(((*name).clone(), *now.get(*name)?)))),
                // Changed or removed while it was read: the next time.
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        self.remove_gone(&now)
    }

    fn bring(&self, unit: &Path, names: &[&PathBuf]) -> io::Result<()> {
        if names.iter().all(|name| *name == unit) {
            return bring::one(&self.folder.join(unit), &self.depot.join(unit), &self.incoming.join("file"));
        }
        bring::folder(&self.folder, &self.depot, unit, names, &self.incoming)
    }

    /// What is brought back together: a file, or all files of a checkpoint that is a folder.
    fn units<'n>(&self, now: &'n BTreeMap<PathBuf, Stamp>) -> BTreeMap<&'n Path, Vec<&'n PathBuf>> {
        let mut units: BTreeMap<&Path, Vec<&PathBuf>> = BTreeMap::new();
        for name in now.keys() {
            units.entry(self.checkpoint_of(name).unwrap_or(name)).or_default().push(name);
        }
        units
    }

    fn checkpoint_of<'n>(&self, name: &'n Path) -> Option<&'n Path> {
        let matcher = self.checkpoint.as_ref()?;
        let above: Vec<&Path> = name.ancestors().filter(|part| !part.as_os_str().is_empty()).collect();
        above.into_iter().rev().find(|part| matcher.is_match(part))
    }

    /// What the program removed, such as checkpoints it has enough of.
    fn remove_gone(&mut self, now: &BTreeMap<PathBuf, Stamp>) -> io::Result<()> {
        let is_below = |name: &Path| self.roots.iter().any(|root| name.starts_with(root));
        let gone: Vec<PathBuf> =
            self.same.keys().filter(|name| is_below(name) && !now.contains_key(*name)).cloned().collect();
        for name in gone {
            match fs_err::remove_file(self.depot.join(&name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => self.same.remove(&name),
            };
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is removed by the next attempt, or by whoever keeps the node.
        drop(remove_folder(&self.folder));
        drop(remove_folder(&self.incoming));
    }
}

/// Brings results back while the program runs.
pub(crate) struct Keeper {
    hurry: Sender<()>,
    thread: JoinHandle<Scratch>,
}

impl Keeper {
    pub(crate) fn start(mut scratch: Scratch) -> Self {
        let (hurry, told) = channel();
        let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
        let thread = std::thread::spawn(move || {
            let mut pause = EVERY;
            loop {
                match told.recv_timeout(pause) {
                    Err(RecvTimeoutError::Disconnected) => return scratch,
                    Ok(()) => pause = SOON,
                    Err(RecvTimeoutError::Timeout) => {}
                }
                let doubt = Doubt { torn: open_for_writing(&descendants(own)), cut_off: Some(SystemTime::now()) };
                // The last time, at the end of the attempt, is the one that counts.
                drop(scratch.sync(&doubt));
            }
        });
        Self { hurry, thread }
    }

    /// The end is near: the program has been told.
    pub(crate) fn hurry(&self) {
        // Gone only when the attempt has ended.
        let _ = self.hurry.send(());
    }

    /// The program has ended: brings the rest back, but nothing that it may have left half written.
    pub(crate) fn finish(self, doubt: &Doubt) -> io::Result<()> {
        drop(self.hurry);
        let mut scratch = self.thread.join().map_err(|_panic| io::Error::other("bringing results back failed"))?;
        for _ in 1..TRIES {
            if scratch.sync(doubt).is_ok() {
                return Ok(());
            }
            std::thread::sleep(AGAIN);
        }
        scratch.sync(doubt)
    }
}

/// Everything, where the job does not say what its results are.
fn roots(job: &JobSpec) -> Vec<PathBuf> {
    if job.outputs.is_empty() {
        return vec![PathBuf::new()];
    }
    let fixed = |pattern: &str| {
        let literal = |part: &&str| !part.contains(['*', '?', '[', '{']);
        pattern.split('/').take_while(literal).filter(|part| !part.is_empty()).collect::<PathBuf>()
    };
    let metrics = job.metrics.iter().filter_map(MetricSource::path);
    let named = job.outputs.iter().map(String::as_str).chain(job.resume.checkpoint.as_deref()).chain(metrics);
    named.map(fixed).collect()
}

fn matcher(job: &JobSpec) -> Result<Option<GlobMatcher>, ScratchError> {
    let build = |pattern: &String| GlobBuilder::new(pattern).literal_separator(true).build();
    let built = job.resume.checkpoint.as_ref().map(build).transpose().map_err(io::Error::other)?;
    Ok(built.map(|glob| glob.compile_matcher()))
}

fn size(manifest: &Manifest) -> u64 {
    let of = |kind: &Kind| if let Kind::File { size, .. } = kind { *size } else { 0 };
    manifest.entries.iter().map(|entry| of(&entry.kind)).sum()
}

fn check_space(place: &Path, needed: u64) -> io::Result<()> {
    let disk = rustix::fs::statvfs(place)
        .map_err(|error| io::Error::other(format!("{}: {}", place.display(), io::Error::from(error))))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free >= needed {
        return Ok(());
    }
    let (free, needed) = (format_size(free), format_size(needed));
    Err(io::Error::other(format!("{} has {free} left, and the working folder needs {needed}", place.display())))
}

fn named(error: io::Error) -> ScratchError {
    ScratchError::Place(error)
}

#[cfg(test)]
mod tests;
