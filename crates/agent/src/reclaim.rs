//! What of a depot can go. Others may use it too, of whom the asker knows nothing: what a parcel here refers to is
//! needed, whoever sent it, and nothing that was touched in the last hour is looked at, since it may be on its way.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use trainyard_core::id::{Digest, RunId};
use trainyard_core::spec::JobSpec;

use crate::depot::{Depot, ImageName, RunFolder};
use crate::disk::{Durability, read_json, remove_folder, replace_json};
use crate::order::Source;
use crate::pack::{Idle, idle};
use crate::parcel::Parcel;
use crate::site::SiteState;
use crate::snapshot::{Kind, Manifest};
use crate::view::Layered;

/// What the asker knows.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Wish {
    /// Runs of the asker that have ended and are to be removed.
    pub going: BTreeSet<RunId>,
    /// Snapshots that the asker's other runs need, sent or not.
    pub keep: BTreeSet<Digest>,
    /// Images that the asker's other runs and its files need.
    #[serde(default)]
    pub images: BTreeSet<ImageName>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    pub what: What,
    /// Below the depot. Blobs are told together, under their folder.
    pub path: PathBuf,
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    Run,
    Parcel,
    Snapshot,
    Tree,
    Image,
    Blobs,
    Agent,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    pub items: Vec<Item>,
    /// Runs that were to go but are at work here.
    pub at_work: Vec<RunId>,
    /// A parcel here cannot be read, so code is left alone: what it needs is not known.
    pub blind: bool,
}

/// Who was heard this lately is at work, whatever is believed elsewhere.
const LATELY: Duration = Duration::from_secs(600);

/// What would go, in the order in which it is removed.
pub fn plan(depot: &Depot, wish: &Wish) -> io::Result<Found> {
    Ok(Survey::take(depot, wish)?.found().0)
}

/// Looks again and removes; what is gone already is fine.
pub fn carry_out(depot: &Depot, wish: &Wish) -> io::Result<Found> {
    let survey = Survey::take(depot, wish)?;
    let (found, contents) = survey.found();
    // First of all: a parcel that stays must not wait for runs that have gone.
    for (folder, parcel) in &survey.staying {
        note_removed(folder, parcel, &survey.going)?;
    }
    let single = found.items.iter().filter(|item| item.what != What::Blobs);
    single.map(|item| depot.root().join(&item.path)).try_for_each(|path| remove(&path))?;
    // One that a submission has found useful since says so by its time.
    contents.blobs.iter().filter(|path| is_old_at(path)).try_for_each(|path| remove(path))?;
    contents.packs.iter().filter(|pack| is_old_at(pack.path())).try_for_each(|pack| pack.remove(depot))?;
    Ok(found)
}

fn remove(path: &Path) -> io::Result<()> {
    let is_folder = std::fs::symlink_metadata(path).is_ok_and(|data| data.is_dir());
    match if is_folder { remove_folder(path) } else { fs_err::remove_file(path) } {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What lies in the depot.
struct Survey<'a> {
    depot: &'a Depot,
    going: BTreeSet<RunId>,
    at_work: Vec<RunId>,
    leaving: Vec<PathBuf>,
    staying: Vec<(PathBuf, Parcel)>,
    /// There is a parcel that this program cannot read, so what it needs is not known.
    blind: bool,
    kept: BTreeSet<Digest>,
    images: BTreeSet<ImageName>,
}

impl<'a> Survey<'a> {
    fn take(depot: &'a Depot, wish: &Wish) -> io::Result<Self> {
        let (at_work, going): (BTreeSet<RunId>, BTreeSet<RunId>) =
            wish.going.iter().partition(|run| is_at_work(&depot.run(**run)));
        let (leaving, staying, blind) = (Vec::new(), Vec::new(), false);
        let mut survey = Self {
            depot,
            going,
            at_work: at_work.into_iter().collect(),
            leaving,
            staying,
            blind,
            kept: BTreeSet::new(),
            images: wish.images.clone(),
        };
        for folder in entries(&depot.parcels())? {
            survey.sort(folder);
        }
        survey.kept = survey.kept(wish);
        survey.images.extend(survey.staying.iter().flat_map(|(_, parcel)| parcel.jobs().filter_map(image_of)));
        Ok(survey)
    }

    fn sort(&mut self, folder: PathBuf) {
        let file = folder.join("parcel.json");
        match read_json::<Parcel>(&file) {
            Some(parcel) if self.is_over(&folder, &parcel) => self.leaving.push(folder),
            Some(parcel) => self.staying.push((folder, parcel)),
            None if file.exists() && !is_torn(&file) => self.blind = true,
            // Nothing was ever submitted with it.
            None if is_old_at(&folder) => self.leaving.push(folder),
            None => {}
        }
    }

    /// A run without a folder may still wait in the scheduler's queue, so only those who sent it can say that it is over.
    fn is_over(&self, folder: &Path, parcel: &Parcel) -> bool {
        let removed = removed(folder);
        parcel.groups.iter().flatten().all(|member| self.going.contains(&member.id) || removed.contains(&member.id))
    }

    /// Snapshots that a parcel or a working folder refers to, or that arrived just now.
    fn kept(&self, wish: &Wish) -> BTreeSet<Digest> {
        let mut kept = wish.keep.clone();
        kept.extend(self.staying.iter().filter_map(|(_, parcel)| snapshot_of(parcel)));
        let runs = self.other_runs();
        kept.extend(runs.iter().filter_map(|run| Layered::read(&self.depot.run(*run))).map(|layered| layered.tree));
        let fresh = entries(&self.depot.snapshots()).unwrap_or_default().into_iter().filter(|path| !is_old_at(path));
        kept.extend(fresh.filter_map(|path| Some(Digest(path.file_name()?.to_str()?.to_owned()))));
        kept
    }

    fn other_runs(&self) -> Vec<RunId> {
        let names = entries(&self.depot.runs()).unwrap_or_default();
        let id = |path: &PathBuf| path.file_name()?.to_str()?.parse::<RunId>().ok();
        names.iter().filter_map(id).filter(|run| !self.going.contains(run)).collect()
    }

    /// What can go, and the contents among it one by one.
    fn found(&self) -> (Found, Contents) {
        let mut items = Vec::new();
        let mut add = |what: What, path: &Path| {
            let below = path.strip_prefix(self.depot.root()).unwrap_or(path).to_owned();
            items.push(Item { what, path: below, bytes: size(path) });
        };
        for run in &self.going {
            let folder = self.depot.run(*run);
            if folder.path().exists() {
                add(What::Run, folder.path());
            }
        }
        self.leaving.iter().for_each(|folder| add(What::Parcel, folder));
        let mut contents = Contents::default();
        if !self.blind {
            self.unused(&self.depot.snapshots()).iter().for_each(|path| add(What::Snapshot, path));
            self.unused(&self.depot.trees()).iter().for_each(|path| add(What::Tree, path));
            self.unused_images().iter().for_each(|path| add(What::Image, path));
            self.unused_agents().iter().for_each(|path| add(What::Agent, path));
            contents = Contents::unused(self.depot, &self.kept);
        }
        if !contents.is_empty() {
            let bytes = contents.bytes();
            let path = self.depot.blobs().strip_prefix(self.depot.root()).map(Path::to_owned).unwrap_or_default();
            items.push(Item { what: What::Blobs, path, bytes });
        }
        (Found { items, at_work: self.at_work.clone(), blind: self.blind }, contents)
    }

    /// What is named after a snapshot that nobody needs.
    fn unused(&self, folder: &Path) -> Vec<PathBuf> {
        let is_kept = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let digest = name.split_once('.').map_or(name, |(digest, _)| digest);
            self.kept.contains(&Digest(digest.to_owned()))
        };
        let all = entries(folder).unwrap_or_default();
        all.into_iter().filter(|path| !is_kept(path) && is_old_at(path)).collect()
    }

    /// With what lies beside them. One that is used again says so by its time.
    fn unused_images(&self) -> Vec<PathBuf> {
        let image = |path: &Path| path.file_name().and_then(|name| name.to_str()).and_then(ImageName::of_file);
        let is_idle = |path: &PathBuf| {
            image(path).is_some_and(|name| !self.images.contains(&name) && !is_fresh(&self.depot.image(&name)))
        };
        let all = entries(&self.depot.images()).unwrap_or_default();
        all.into_iter().filter(|path| is_idle(path) && is_old_at(path)).collect()
    }

    /// Agents that no script names and nobody runs on this machine.
    fn unused_agents(&self) -> Vec<PathBuf> {
        let read = |(folder, _): &(PathBuf, Parcel)| std::fs::read_to_string(folder.join("job.sh")).ok();
        let said = |(_, parcel): &(PathBuf, Parcel)| parcel.script().map(str::to_owned);
        let scripts: Vec<String> =
            self.staying.iter().filter_map(read).chain(self.staying.iter().filter_map(said)).collect();
        let running: BTreeSet<PathBuf> = entries(Path::new("/proc"))
            .unwrap_or_default()
            .iter()
            .filter_map(|process| std::fs::read_link(process.join("exe")).ok())
            .collect();
        let is_used = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            std::fs::canonicalize(path).is_ok_and(|path| running.contains(&path))
                || scripts.iter().any(|script| script.contains(name))
        };
        let all = entries(&self.depot.agents()).unwrap_or_default();
        all.into_iter().filter(|path| !is_used(path) && is_old_at(path)).collect()
    }
}

/// Contents of files that nobody needs.
#[derive(Debug, Default)]
struct Contents {
    blobs: Vec<PathBuf>,
    packs: Vec<Idle>,
}

impl Contents {
    /// None of these snapshots needs them, and they were not touched in the last hour.
    fn unused(depot: &Depot, kept: &BTreeSet<Digest>) -> Self {
        let needed: BTreeSet<Digest> = kept.iter().flat_map(|digest| blobs_of(depot, digest)).collect();
        let files: BTreeSet<PathBuf> = needed.iter().map(|blob| depot.blob(blob)).collect();
        let all = entries(&depot.blobs()).unwrap_or_default().into_iter();
        let all = all.flat_map(|folder| entries(&folder).unwrap_or_default());
        let blobs = all.filter(|path| !files.contains(path) && is_old_at(path)).collect();
        let packs = idle(depot, &needed).into_iter().filter(|pack| is_old_at(pack.path())).collect();
        Self { blobs, packs }
    }

    fn is_empty(&self) -> bool {
        self.blobs.is_empty() && self.packs.is_empty()
    }

    fn bytes(&self) -> u64 {
        let blobs: u64 = self.blobs.iter().map(|path| size(path)).sum();
        blobs + self.packs.iter().map(|pack| pack.freed).sum::<u64>()
    }
}

/// The blobs that a snapshot needs; none if its manifest cannot be read.
pub fn blobs_of(depot: &Depot, digest: &Digest) -> Vec<Digest> {
    let entries = Manifest::read(depot, digest).map(|manifest| manifest.entries).unwrap_or_default();
    let blob = |kind: Kind| match kind {
        Kind::File { blob, .. } => Some(blob),
        Kind::Folder | Kind::Link { .. } => None,
    };
    entries.into_iter().filter_map(|entry| blob(entry.kind)).collect()
}

/// What others have sent to a depot that is also this machine's own.
#[derive(Debug, Default)]
pub struct Sent {
    pub runs: BTreeSet<RunId>,
    pub snapshots: BTreeSet<Digest>,
    /// See [`Found::blind`].
    pub blind: bool,
}

pub fn sent_here(depot: &Depot) -> io::Result<Sent> {
    let survey = Survey::take(depot, &Wish::default())?;
    let members = survey.staying.iter().flat_map(|(_, parcel)| parcel.groups.iter().flatten());
    let runs = members.map(|member| member.id).collect();
    let sources = survey.staying.iter().filter_map(|(_, parcel)| snapshot_of(parcel));
    Ok(Sent { runs, snapshots: sources.collect(), blind: survey.blind })
}

/// The image of a job, if it is one that was brought to a depot.
pub fn image_of(job: &JobSpec) -> Option<ImageName> {
    ImageName::of_path(&job.around.container.as_ref()?.image)
}

fn is_fresh(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|data| !is_old(&data))
}

fn snapshot_of(parcel: &Parcel) -> Option<Digest> {
    match &parcel.source {
        Source::Snapshot(digest) => Some(digest.clone()),
        Source::InPlace(_) => None,
    }
}

/// The site itself says that it goes on.
fn is_at_work(folder: &RunFolder) -> bool {
    let Some(state) = read_json::<SiteState>(&folder.state()) else { return false };
    let Some(attempt) = state.run.state.attempt() else { return false };
    let sign = folder.attempt(attempt).last_sign().and_then(|at| at.elapsed().ok());
    !state.run.state.has_ended() && sign.is_some_and(|age| age < LATELY)
}

/// A power cut ended it before it was whole, and so before anything was submitted; see [`crate::post`]. What is whole and
/// cannot be read is of another yard.
fn is_torn(file: &Path) -> bool {
    std::fs::read(file).is_ok_and(|text| serde_json::from_slice::<serde::de::IgnoredAny>(&text).is_err())
}

fn removed(parcel: &Path) -> BTreeSet<RunId> {
    read_json(&parcel.join("removed.json")).unwrap_or_default()
}

fn note_removed(folder: &Path, parcel: &Parcel, going: &BTreeSet<RunId>) -> io::Result<()> {
    let mut removed = removed(folder);
    let before = removed.len();
    removed.extend(parcel.groups.iter().flatten().map(|member| member.id).filter(|run| going.contains(run)));
    if removed.len() == before {
        return Ok(());
    }
    replace_json(&folder.join("removed.json"), &removed, Durability::Synced)
}

/// None when there is no such folder.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn is_old_at(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|data| is_old(&data))
}

/// What was touched in the last hour may be in use this moment.
pub fn is_old(data: &Metadata) -> bool {
    data.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age.as_secs() > 3600))
}

/// Of a file, or of all that is in a folder.
pub fn size(path: &Path) -> u64 {
    let Ok(data) = std::fs::symlink_metadata(path) else { return 0 };
    if !data.is_dir() {
        return data.len();
    }
    entries(path).unwrap_or_default().iter().map(|path| size(path)).sum()
}

#[cfg(test)]
mod tests;
