//! The working folder of a run, made from its snapshot. Never by hard links: programs write into their own source
//! folders.
//!
//! A small snapshot is copied. The files of a large one are laid out once in the depot, and every run sees them under
//! its own working folder, which then holds only what the run changes: overlayfs, in a mount namespace of the program
//! alone. Where the kernel or the disk will not have it, large ones are copied too. What the first attempt found
//! possible is kept for the later ones; if one of those comes to a machine that cannot, the folder is filled up.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use trainyard_core::id::Digest;

use crate::depot::{AttemptFolder, Depot, RunFolder};
use crate::disk::{Durability, remove_folder, replace_json};
use crate::lay::{self, LayError, Shelf};
use crate::order::{Order, Source};
use crate::scratch::{self, Scratch, ScratchError};
use crate::snapshot::{Entry, Kind, Manifest, SnapshotError, decode};
use crate::step;
use crate::sys::Overlay;
use crate::tree;
use crate::view::{Layered, OPAQUE, View, is_whiteout};

/// A mount, its trial and the note about it cost a few milliseconds and some caution of those who look from outside;
/// copying less than this costs no more. Either limit is enough.
const MANY_ENTRIES: usize = 1_000;
const MANY_BYTES: u64 = 64_000_000;

#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkError {
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Tree(#[from] LayError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    #[error("the project folder {} is gone", .0.display())]
    ProjectGone(PathBuf),
}

/// A working folder that is ready.
pub(crate) struct Work {
    pub(crate) view: View,
    /// To be mounted for the program.
    pub(crate) overlay: Option<Overlay>,
    /// Where the folder is not the depot's.
    pub(crate) scratch: Option<Scratch>,
}

/// The first attempt makes the folder, later ones find it with what the earlier ones left.
pub(crate) fn prepare(order: &Order) -> Result<Work, WorkError> {
    let digest = match &order.source {
        Source::InPlace(folder) if folder.is_dir() => {
            return Ok(Work { view: View::plain(folder.clone()), overlay: None, scratch: None });
        }
        Source::InPlace(folder) => return Err(WorkError::ProjectGone(folder.clone())),
        Source::Snapshot(digest) => digest,
    };
    if scratch::is_wanted(order) {
        let scratch = Scratch::prepare(order, digest)?;
        let view = View::plain(scratch.folder().to_owned());
        return Ok(Work { view, overlay: None, scratch: Some(scratch) });
    }
    let folder = order.depot.run(order.run);
    let overlay =
        if is_whole(order, &folder) { take_up(&order.depot, &folder)? } else { begin(order, digest, &folder)? };
    Ok(Work { view: View::of(&order.depot, order.run), overlay, scratch: None })
}

fn begin(order: &Order, digest: &Digest, folder: &RunFolder) -> Result<Option<Overlay>, WorkError> {
    clear(folder)?;
    let depot = &order.depot;
    // Other nodes and images do not see what is mounted for one program.
    let may_layer = !order.job.copy && order.job.image.is_none() && !step::is_wanted(order);
    // Only large snapshots have trees; reading the manifest of one takes longer than all the rest.
    if may_layer && tree::is_there(&depot.tree(digest)) && can_layer(depot, folder, digest) {
        return begin_layered(folder, digest).map(Some);
    }
    let manifest = Manifest::read(depot, digest)?;
    if may_layer && is_large(&manifest) && tries_out(depot, folder) {
        tree::make(depot, digest, &manifest)?;
        if can_layer(depot, folder, digest) {
            return begin_layered(folder, digest).map(Some);
        }
    }
    lay::lay(depot, &manifest, &folder.work())?;
    Ok(None)
}

/// When the program has ended: overlayfs leaves a folder that not even its owner may look into.
pub(crate) fn tidy(folder: &RunFolder) {
    drop(remove_folder(&folder.spare()));
}

/// An attempt makes its log when the working folder is ready, heartbeat and result later: where no earlier one has left
/// any of these, what is there was left half made by an agent that was killed. A log alone would be weak evidence,
/// since people remove large ones.
fn is_whole(order: &Order, folder: &RunFolder) -> bool {
    was_ready(order) && folder.work().is_dir()
}

/// Whether an earlier attempt got as far as a working folder.
pub(crate) fn was_ready(order: &Order) -> bool {
    let folder = order.depot.run(order.run);
    let got_ready =
        |attempt: AttemptFolder| [attempt.log(), attempt.status(), attempt.result()].iter().any(|left| left.exists());
    (1..order.attempt).any(|earlier| got_ready(folder.attempt(earlier)))
}

/// Whether a program of an earlier attempt may have run: one that failed before that leaves its result and nothing else.
pub(crate) fn has_run(order: &Order) -> bool {
    let folder = order.depot.run(order.run);
    (1..order.attempt).map(|earlier| folder.attempt(earlier)).any(|it| it.log().exists() || it.status().exists())
}

/// An empty working folder, whatever was there.
fn clear(folder: &RunFolder) -> io::Result<()> {
    let work = folder.work();
    match fs_err::create_dir(&work) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            remove_folder(&work)?;
            remove_file(&folder.layers())?;
            fs_err::create_dir(&work)
        }
        made => made,
    }
}

fn is_large(manifest: &Manifest) -> bool {
    let size = |kind: &Kind| match kind {
        Kind::File { size, .. } => *size,
        Kind::Folder | Kind::Link { .. } => 0,
    };
    manifest.entries.len() >= MANY_ENTRIES
        || manifest.entries.iter().map(|entry| size(&entry.kind)).sum::<u64>() >= MANY_BYTES
}

fn can_layer(depot: &Depot, folder: &RunFolder, digest: &Digest) -> bool {
    tree::is_ours(&depot.tree(digest)) && tries_out(depot, folder)
}

fn begin_layered(folder: &RunFolder, digest: &Digest) -> Result<Overlay, WorkError> {
    let layered = Layered { tree: digest.clone() };
    // On the disk: without the note the folder would pass for one that holds all its files.
    replace_json(&folder.layers(), &layered, Durability::Synced)?;
    Ok(overlay(folder, &layered)?)
}

fn take_up(depot: &Depot, folder: &RunFolder) -> Result<Option<Overlay>, WorkError> {
    let Some(layered) = Layered::read(folder) else { return Ok(None) };
    let manifest = Manifest::read(depot, &layered.tree)?;
    if tries_out(depot, folder) {
        tree::make(depot, &layered.tree, &manifest)?;
        if can_layer(depot, folder, &layered.tree) {
            return Ok(Some(overlay(folder, &layered)?));
        }
    }
    fill_up(depot, folder, &layered, &manifest)?;
    Ok(None)
}

/// What [`try_out`] said about the depot last used: it takes ten milliseconds, and an agent may have many runs.
fn tries_out(depot: &Depot, folder: &RunFolder) -> bool {
    static LAST: Mutex<Option<(PathBuf, bool)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    match &*last {
        Some((root, answer)) if root == depot.root() => *answer,
        _ => {
            let answer = try_out(folder.path()).is_ok();
            *last = Some((depot.root().to_owned(), answer));
            answer
        }
    }
}

/// Trees and run folders are neighbours in every depot.
fn overlay(folder: &RunFolder, layered: &Layered) -> io::Result<Overlay> {
    tidy(folder);
    fs_err::create_dir_all(folder.spare())?;
    Overlay::new(folder.path(), &format!("../../trees/{}", layered.tree.0), "work", "overlay")
}

/// Mounts a small overlay in this folder, which is on the disk of the working folders, and sees whether a change and a removal arrive
/// as they should: kernels, security modules and network disks all have their own reasons why not.
pub(crate) fn try_out(folder: &Path) -> io::Result<()> {
    let trial = folder.join("trial");
    remove_folder(&trial)?;
    for name in ["lower", "upper", "spare"] {
        fs_err::create_dir_all(trial.join(name))?;
    }
    for name in ["kept", "gone"] {
        fs_err::write(trial.join("lower").join(name), "x")?;
    }
    let tried = Overlay::new(&trial, "lower", "upper", "spare")?.try_out(c"kept", c"gone").and_then(|()| {
        let gone = fs_err::symlink_metadata(trial.join("upper/gone"))?;
        let kept = fs_err::read(trial.join("upper/kept"))?;
        if kept == b"x+" && is_whiteout(&gone) { Ok(()) } else { Err(io::Error::other("changes do not arrive")) }
    });
    remove_folder(&trial)?;
    tried
}

/// Copies what shows through from below, so that the folder needs no overlay any more. Every file appears whole, so
/// this can be killed and done again.
fn fill_up(depot: &Depot, folder: &RunFolder, layered: &Layered, manifest: &Manifest) -> Result<(), WorkError> {
    let view = View::layered(folder.work(), depot.tree(&layered.tree));
    let part = folder.path().join(PART);
    let shelf = Shelf::new(depot);
    for entry in manifest.entries.iter().filter(|entry| view.shows_through(&decode(&entry.path))) {
        let to = folder.work().join(decode(&entry.path));
        match entry.kind {
            Kind::Folder => fs_err::create_dir(to)?,
            Kind::File { .. } | Kind::Link { .. } => {
                remove_file(&part)?;
                shelf.lay_one(&Entry { path: PART.to_owned(), ..entry.clone() }, folder.path())?;
                fs_err::rename(&part, to)?;
            }
        }
    }
    remove_file(&folder.layers())?;
    Ok(remove_marks(&folder.work())?)
}

/// A file on its way into the working folder.
const PART: &str = "work.part";

fn remove_file(path: &Path) -> io::Result<()> {
    match fs_err::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn remove_marks(folder: &Path) -> io::Result<()> {
    // Not there is what is wanted.
    let _ = rustix::fs::lremovexattr(folder, OPAQUE);
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        let data = entry.metadata()?;
        if is_whiteout(&data) {
            fs_err::remove_file(entry.path())?;
        } else if data.is_dir() {
            remove_marks(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
