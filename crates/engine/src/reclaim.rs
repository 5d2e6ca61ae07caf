//! Giving disk space back: first a plan, then its execution. What an open run needs is never part of it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use trainyard_agent::depot::Depot;
use trainyard_agent::disk::remove_folder;
use trainyard_agent::order::Source;
use trainyard_agent::snapshot::{Kind, Manifest};
use trainyard_core::id::{Digest, RunId};

use crate::ledger::{Ledger, LedgerError, RunRow};

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
}

/// These ended runs, the folders of runs the ledger does not know, and snapshots and blobs no remaining run needs.
pub fn plan(ledger: &Ledger, depot: &Depot, runs: Vec<RunRow>) -> Result<Plan, ReclaimError> {
    let going: BTreeSet<RunId> = runs.iter().filter(|row| row.ended.is_some()).map(|row| row.id).collect();
    let mut files = Vec::new();
    for (id, path) in run_folders(depot) {
        if going.contains(&id) || ledger.run(id)?.is_none() {
            files.push((path.clone(), size(&path)));
        }
    }
    let kept = kept_snapshots(ledger, &going)?;
    let mut needed: BTreeSet<PathBuf> = kept.iter().map(|digest| depot.snapshot(digest)).collect();
    for digest in &kept {
        needed.extend(blobs_of(depot, digest));
    }
    files.extend(unused_trees(depot, &kept));
    for folder in [depot.snapshots(), depot.blobs()] {
        files.extend(files_below(&folder).into_iter().filter(|(path, _)| !needed.contains(path)));
    }
    let runs = runs.into_iter().filter(|row| row.ended.is_some()).collect();
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

fn is_old(data: &std::fs::Metadata) -> bool {
    data.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age.as_secs() > 3600))
}

fn blobs_of(depot: &Depot, digest: &Digest) -> Vec<PathBuf> {
    let entries = Manifest::read(depot, digest).map(|manifest| manifest.entries).unwrap_or_default();
    let blob = |kind: Kind| match kind {
        Kind::File { blob, .. } => Some(depot.blob(&blob)),
        Kind::Folder | Kind::Link { .. } => None,
    };
    entries.into_iter().filter_map(|entry| blob(entry.kind)).collect()
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

fn size(path: &Path) -> u64 {
    let Ok(data) = std::fs::symlink_metadata(path) else { return 0 };
    if !data.is_dir() {
        return data.len();
    }
    std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| size(&entry.path())).sum()
}
