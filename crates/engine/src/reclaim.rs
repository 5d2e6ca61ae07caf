//! Giving disk space back: first a plan, then its execution. What an open run needs is never part of it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trainyard_agent::depot::{Depot, ImageName};
use trainyard_agent::disk::remove_folder;
use trainyard_agent::order::Source;
use trainyard_agent::pack::{Idle, idle};
use trainyard_agent::reclaim::{Found, Item, Wish, blobs_of, is_old, sent_here, size};
use trainyard_core::id::{Digest, RunId};

use crate::images;
use crate::ledger::{Ledger, LedgerError, RunRow};
use crate::pipe::{Pipe, PipeError};

/// What would be removed.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub runs: Vec<RunRow>,
    /// Folders, manifests and blobs, with their size in bytes.
    pub files: Vec<(PathBuf, u64)>,
}

impl Plan {
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, size)| size).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.files.is_empty()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ReclaimError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("cannot remove it all")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Pipe(#[from] PipeError),
}

/// What would be removed at a site.
#[derive(Debug, Clone)]
pub struct AtSite {
    pub runs: Vec<RunRow>,
    pub depot: String,
    pub found: Found,
    wish: Wish,
}

impl AtSite {
    pub fn bytes(&self) -> u64 {
        self.found.items.iter().map(|item| item.bytes).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.found.items.is_empty()
    }
}

/// Run folders of thousands of files on a slow disk.
const PATIENCE: Duration = Duration::from_secs(900);

/// Asks a site what of its depot can go with these ended runs. Runs that are at work there, whatever is believed here,
/// are no part of the plan.
pub fn plan_at(pipe: &mut Pipe, ledger: &Ledger, images: &Path, runs: Vec<RunRow>) -> Result<AtSite, ReclaimError> {
    let going: BTreeSet<RunId> = runs.iter().filter(|row| row.ended.is_some()).map(|row| row.id).collect();
    let keep = kept_snapshots(ledger, &going)?;
    let used = ledger.images_without(&going)?;
    let mut kept: BTreeSet<ImageName> = used.iter().filter_map(|path| ImageName::of_path(path)).collect();
    kept.extend(images::newest(images).into_iter().map(|kept| kept.name));
    let wish = Wish { going, keep, images: kept };
    let found = ask(pipe, &["reclaim"], &wish)?;
    let runs = runs.into_iter().filter(|row| row.ended.is_some() && !found.at_work.contains(&row.id)).collect();
    Ok(AtSite { runs, depot: pipe.depot().to_owned(), found, wish })
}

/// The site looks again, so that what has come into use since stays.
pub fn carry_out_at(pipe: &mut Pipe, plan: &mut AtSite, ledger: &mut Ledger) -> Result<(), ReclaimError> {
    plan.found = ask(pipe, &["reclaim", "--now"], &plan.wish)?;
    plan.runs.retain(|row| !plan.found.at_work.contains(&row.id));
    let ids: Vec<RunId> = plan.runs.iter().map(|row| row.id).collect();
    Ok(ledger.forget(&ids)?)
}

/// Asks the depot of a site; of a Ray cluster those of all its nodes, each of which says what it has. One that does not
/// answer leaves the whole site as it is, since what it has would be forgotten.
fn ask(pipe: &mut Pipe, words: &[&str], wish: &Wish) -> Result<Found, PipeError> {
    let nodes = pipe.nodes()?;
    if nodes.is_empty() {
        return pipe.task(words, wish, PATIENCE);
    }
    let mut all = Found::default();
    for (cluster, node) in nodes {
        let found: Found = pipe.at(cluster, &node, |pipe| pipe.task(words, wish, PATIENCE))?;
        let there = |item: Item| Item { path: format!("{}:{}", node.ip, item.path.display()).into(), ..item };
        all.items.extend(found.items.into_iter().map(there));
        all.at_work.extend(found.at_work);
        all.blind |= found.blind;
    }
    Ok(all)
}

/// These ended runs, the folders of runs the ledger does not know, and snapshots and blobs no remaining run needs.
pub fn plan(ledger: &Ledger, depot: &Depot, images: &Path, runs: Vec<RunRow>) -> Result<Plan, ReclaimError> {
    let going: BTreeSet<RunId> = runs.iter().filter(|row| row.ended.is_some()).map(|row| row.id).collect();
    let used = ledger.images_without(&going)?.into_iter().map(PathBuf::from).collect();
    let mut files = images::unneeded(images, &used);
    // This depot may be a site for others, whose runs are in their ledgers.
    let sent = sent_here(depot)?;
    for (id, path) in run_folders(depot) {
        let is_others = sent.blind || sent.runs.contains(&id) || depot.run(id).state().exists();
        if going.contains(&id) || (!is_others && ledger.run(id)?.is_none()) {
            files.push((path.clone(), size(&path)));
        }
    }
    let runs = runs.into_iter().filter(|row| row.ended.is_some()).collect();
    if sent.blind {
        return Ok(Plan { runs, files });
    }
    let mut kept = kept_snapshots(ledger, &going)?;
    kept.extend(sent.snapshots);
    let blobs: BTreeSet<Digest> = kept.iter().flat_map(|digest| blobs_of(depot, digest)).collect();
    let mut needed: BTreeSet<PathBuf> = kept.iter().map(|digest| depot.snapshot(digest)).collect();
    needed.extend(blobs.iter().map(|blob| depot.blob(blob)));
    needed.extend(files_below(&depot.packs()).into_iter().map(|(path, _)| path));
    for path in idle(depot, &blobs).iter().flat_map(Idle::files) {
        needed.remove(&path);
    }
    files.extend(unused_trees(depot, &kept));
    for folder in [depot.snapshots(), depot.blobs(), depot.packs()] {
        files.extend(files_below(&folder).into_iter().filter(|(path, _)| !needed.contains(path)));
    }
    Ok(Plan { runs, files })
}

/// Files first, then the ledger: if it is interrupted, the same plan can be made and carried out again.
pub fn carry_out(plan: &Plan, ledger: &mut Ledger) -> Result<(), ReclaimError> {
    for (path, _) in &plan.files {
        let removed = if path.is_dir() { remove_folder(path) } else { fs_err::remove_file(path) };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    let ids: Vec<RunId> = plan.runs.iter().map(|row| row.id).collect();
    ledger.forget(&ids)?;
    Ok(())
}

fn run_folders(depot: &Depot) -> Vec<(RunId, PathBuf)> {
    let entries = std::fs::read_dir(depot.runs()).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path()))).collect()
}

/// Snapshots that runs other than those going refer to.
fn kept_snapshots(ledger: &Ledger, going: &BTreeSet<RunId>) -> Result<BTreeSet<Digest>, LedgerError> {
    let mut kept = BTreeSet::new();
    for source in ledger.sources_without(going)? {
        if let Source::Snapshot(digest) = source {
            kept.insert(digest);
        }
    }
    Ok(kept)
}

/// A tree that a run has begun to use in the last hour is left.
fn unused_trees(depot: &Depot, kept: &BTreeSet<Digest>) -> Vec<(PathBuf, u64)> {
    let entries = std::fs::read_dir(depot.trees()).into_iter().flatten().flatten();
    let unused = entries.filter(|entry| {
        let name = entry.file_name();
        !kept.iter().any(|digest| name == digest.0.as_str() || name == format!("{}.lock", digest.0).as_str())
    });
    let old = unused.filter(|entry| entry.metadata().is_ok_and(|data| is_old(&data)));
    old.map(|entry| (entry.path(), size(&entry.path()))).collect()
}

/// Files that were touched in the last hour are left: a submission may be putting them there this moment.
fn files_below(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(data) = entry.metadata() else { continue };
        if data.is_dir() {
            found.extend(files_below(&entry.path()));
        } else if is_old(&data) {
            found.push((entry.path(), data.len()));
        }
    }
    found
}
