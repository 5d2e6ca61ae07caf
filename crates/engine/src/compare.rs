//! What differs between two runs, or between a run and the project as it is now: code and settings.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use trainyard_agent::depot::Depot;
use trainyard_agent::pack::{Packs, content};
use trainyard_agent::snapshot::{Kind, Manifest};
use trainyard_core::id::Digest;

use crate::snapshot::Snapshot;

/// Longer files are only said to differ.
const LONGEST: u64 = 1_000_000;
/// Very different files are compared roughly after this long.
const PATIENCE: Duration = Duration::from_millis(500);

/// Files at one moment, with what is known about where their contents are.
#[derive(Debug)]
pub struct Code {
    entries: BTreeMap<String, Kind>,
    contents: Contents,
}

#[derive(Debug)]
enum Contents {
    /// Any of these may have a blob or not.
    Depots(Vec<(Depot, Packs)>),
    Files(BTreeMap<Digest, PathBuf>),
}

impl Code {
    pub fn stored(manifest: Manifest, depots: Vec<Depot>) -> Self {
        let with_packs = |depot: Depot| {
            let packs = Packs::read(&depot);
            (depot, packs)
        };
        Self { entries: entries(manifest), contents: Contents::Depots(depots.into_iter().map(with_packs).collect()) }
    }

    pub fn scanned(snapshot: Snapshot) -> Self {
        Self { entries: entries(snapshot.manifest), contents: Contents::Files(snapshot.files) }
    }

    /// `None` when the content is not on this machine, or not the same any more.
    fn read(&self, blob: &Digest, size: u64) -> Option<Vec<u8>> {
        match &self.contents {
            Contents::Depots(depots) => depots.iter().find_map(|(depot, packs)| content(depot, packs, blob)),
            Contents::Files(files) => {
                let mut bytes = Vec::new();
                std::fs::File::open(files.get(blob)?).ok()?.take(size).read_to_end(&mut bytes).ok()?;
                (blake3::hash(&bytes).to_hex().as_str() == blob.0).then_some(bytes)
            }
        }
    }
}

/// Folders that hold something show by what they hold.
fn entries(manifest: Manifest) -> BTreeMap<String, Kind> {
    let parent = |path: &str| path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let full: BTreeSet<String> = manifest.entries.iter().filter_map(|entry| parent(&entry.path)).collect();
    let shown = manifest.entries.into_iter().filter(|entry| entry.kind != Kind::Folder || !full.contains(&entry.path));
    shown.map(|entry| (entry.path, entry.kind)).collect()
}

/// A path that is not the same on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct FileChange {
    /// As in the manifest; see [`trainyard_agent::snapshot::encode`].
    pub path: String,
    pub old: Option<Kind>,
    pub new: Option<Kind>,
    pub lines: Lines,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Lines {
    /// As `diff -u` writes it.
    Patch {
        text: String,
        added: usize,
        removed: usize,
    },
    /// Contents are the same; modes or kinds are not.
    Same,
    Binary,
    TooLong,
    /// The content is not on this machine.
    Elsewhere,
}

/// Sorted by path.
pub fn code(old: &Code, new: &Code) -> Vec<FileChange> {
    let paths: BTreeSet<&String> = old.entries.keys().chain(new.entries.keys()).collect();
    let changed = paths.into_iter().filter(|path| old.entries.get(*path) != new.entries.get(*path));
    changed
        .map(|path| {
            let (before, after) = (old.entries.get(path), new.entries.get(path));
            let lines = lines(path, (old, before), (new, after));
            FileChange { path: path.clone(), old: before.cloned(), new: after.cloned(), lines }
        })
        .collect()
}

fn lines(path: &str, old: (&Code, Option<&Kind>), new: (&Code, Option<&Kind>)) -> Lines {
    let content = |(code, kind): (&Code, Option<&Kind>)| match kind {
        Some(Kind::File { size, .. }) if *size > LONGEST => Err(Lines::TooLong),
        Some(Kind::File { blob, size, .. }) => code.read(blob, *size).ok_or(Lines::Elsewhere),
        Some(Kind::Link { to }) => Ok(format!("{to}\n").into_bytes()),
        Some(Kind::Folder) | None => Ok(Vec::new()),
    };
    if let (Some(Kind::File { blob: before, .. }), Some(Kind::File { blob: after, .. })) = (old.1, new.1)
        && before == after
    {
        return Lines::Same;
    }
    let (before, after) = match (content(old), content(new)) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(why), _) | (_, Err(why)) => return why,
    };
    match (text(&before), text(&after)) {
        (Some(before), Some(after)) => {
            let name =
                |side: char, kind: Option<&Kind>| kind.map_or("/dev/null".to_owned(), |_| format!("{side}/{path}"));
            patch(before, after, &name('a', old.1), &name('b', new.1))
        }
        _ => Lines::Binary,
    }
}

/// `None` for what nobody reads line by line.
fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

fn patch(before: &str, after: &str, old: &str, new: &str) -> Lines {
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(before, after);
    let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
    let text = diff.unified_diff().context_radius(3).header(old, new).to_string();
    Lines::Patch { text, added: count(ChangeTag::Insert), removed: count(ChangeTag::Delete) }
}

/// A setting that is not the same on both sides; `None` where it is not set.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingChange {
    /// As in `resume.attempts`.
    pub key: String,
    pub old: Option<Value>,
    pub new: Option<Value>,
}

/// Two trees of settings, leaf by leaf. Lists are leaves.
pub fn settings(old: &Value, new: &Value) -> Vec<SettingChange> {
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    flatten(old, "", &mut before);
    flatten(new, "", &mut after);
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = keys.into_iter().filter(|key| before.get(*key) != after.get(*key));
    changed
        .map(|key| SettingChange { key: key.clone(), old: before.get(key).cloned(), new: after.get(key).cloned() })
        .collect()
}

fn flatten(value: &Value, key: &str, into: &mut BTreeMap<String, Value>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, value) in fields {
                flatten(value, &if key.is_empty() { name.clone() } else { format!("{key}.{name}") }, into);
            }
        }
        leaf => {
            into.insert(key.to_owned(), leaf.clone());
        }
    }
}
