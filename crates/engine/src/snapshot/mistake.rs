//! Folders that are more likely shipped by mistake than on purpose. They are named, never left out silently: a program
//! may need what is in them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use trainyard_core::spec::format_size;

use super::walk::{Found, Kind, patterns};
use super::{Rules, SnapshotError};

const MOST_FILES: u64 = 20_000;
const MOST_BYTES: u64 = 500_000_000;
/// A repository may well hold a policy or two.
const MOST_CHECKPOINT_BYTES: u64 = 100_000_000;
const CHECKPOINTS: [&str; 7] = ["pt", "pth", "ckpt", "onnx", "safetensors", "pkl", "h5"];

/// A folder that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{suspicion}: `{}` ({files} files, {})", folder.display(), format_size(*bytes))]
pub struct Mistake {
    pub suspicion: Suspicion,
    /// Relative to the project; `.` for the project itself.
    pub folder: PathBuf,
    pub files: u64,
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspicion {
    Virtualenv,
    CondaEnvironment,
    NodeModules,
    Checkpoints,
    TooLarge,
}

impl fmt::Display for Suspicion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Virtualenv => "a Python virtual environment would be shipped",
            Self::CondaEnvironment => "a conda environment would be shipped",
            Self::NodeModules => "a folder of Node packages would be shipped",
            Self::Checkpoints => "checkpoints would be shipped",
            Self::TooLarge => "the project is larger than code is, most of all",
        })
    }
}

impl Mistake {
    /// The folder as a line of `exclude` or `allow-large`: nothing in its name is taken for a pattern.
    pub fn pattern(&self) -> String {
        if self.folder == Path::new(".") {
            return "/*".to_owned();
        }
        let mut line = String::from("/");
        for letter in self.folder.to_string_lossy().chars() {
            if matches!(letter, '*' | '?' | '[' | ']' | '{' | '}' | '\\' | ' ' | '!' | '#') {
                line.push('\\');
            }
            line.push(letter);
        }
        line + "/"
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    files: u64,
    bytes: u64,
}

impl Weight {
    fn add(&mut self, file: &Found) {
        self.files += 1;
        self.bytes += file.size();
    }

    /// Against the limits: 1 is as much as may be.
    fn share(self) -> f64 {
        self.files as f64 / MOST_FILES as f64 + self.bytes as f64 / MOST_BYTES as f64
    }
}

pub(super) fn refuse(project: &Path, found: &[Found], rules: &Rules) -> Result<(), SnapshotError> {
    let allowed = patterns(project, &rules.allow_large)
        .map_err(|source| SnapshotError::Pattern { key: "allow-large", source })?;
    let is_allowed = |file: &&Found| {
        let is_folder = matches!(file.kind, Kind::Folder);
        !allowed.is_empty() && allowed.matched_path_or_any_parents(project.join(&file.path), is_folder).is_ignore()
    };
    let counted: Vec<&Found> = found.iter().filter(|file| !is_allowed(file)).collect();
    let found = look_alike(&counted).or_else(|| checkpoints(&counted)).or_else(|| too_large(&counted));
    found.map_or(Ok(()), |mistake| Err(SnapshotError::Mistake(Box::new(mistake))))
}

/// The largest of the folders that give themselves away by what they hold.
fn look_alike(found: &[&Found]) -> Option<Mistake> {
    let suspects = found.iter().filter_map(|file| {
        let name = file.path.file_name()?.to_str()?;
        let suspicion = match (&file.kind, name) {
            (Kind::File(_), "pyvenv.cfg") => Suspicion::Virtualenv,
            (Kind::Folder, "conda-meta") => Suspicion::CondaEnvironment,
            (Kind::Folder, "node_modules") => return Some((Suspicion::NodeModules, file.path.as_path())),
            _ => return None,
        };
        Some((suspicion, file.path.parent()?))
    });
    let weighed = suspects.map(|(suspicion, folder)| (suspicion, folder, weigh(found, folder)));
    let worst = weighed.max_by(|(_, _, a), (_, _, b)| a.share().total_cmp(&b.share()));
    worst.map(|(suspicion, folder, weight)| mistake(suspicion, folder, weight))
}

fn weigh(found: &[&Found], folder: &Path) -> Weight {
    let mut weight = Weight::default();
    for file in found.iter().filter(|file| file.path.starts_with(folder) && !matches!(file.kind, Kind::Folder)) {
        weight.add(file);
    }
    weight
}

fn checkpoints(found: &[&Found]) -> Option<Mistake> {
    let is_one = |file: &&&Found| {
        let ending = file.path.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| CHECKPOINTS.contains(&ending))
    };
    let some: Vec<&Found> = found.iter().filter(is_one).copied().collect();
    let bytes: u64 = some.iter().map(|file| file.size()).sum();
    if bytes <= MOST_CHECKPOINT_BYTES {
        return None;
    }
    let (folder, weight) = worst_folder(&some);
    Some(mistake(Suspicion::Checkpoints, &folder, weight))
}

fn too_large(found: &[&Found]) -> Option<Mistake> {
    let mut all = Weight::default();
    for file in found {
        all.add(file);
    }
    if all.files <= MOST_FILES && all.bytes <= MOST_BYTES {
        return None;
    }
    let (folder, weight) = worst_folder(found);
    Some(mistake(Suspicion::TooLarge, &folder, weight))
}

fn mistake(suspicion: Suspicion, folder: &Path, weight: Weight) -> Mistake {
    let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() };
    Mistake { suspicion, folder, files: weight.files, bytes: weight.bytes }
}

/// From the heaviest folder at the top downwards, as long as one folder below holds nearly all of it.
fn worst_folder(found: &[&Found]) -> (PathBuf, Weight) {
    let mut folders: BTreeMap<&Path, Weight> = BTreeMap::new();
    for file in found.iter().filter(|file| !matches!(file.kind, Kind::Folder)) {
        for folder in file.path.ancestors().skip(1) {
            folders.entry(folder).or_default().add(file);
        }
    }
    let mut at = (Path::new(""), folders.get(Path::new("")).copied().unwrap_or_default());
    loop {
        let below = folders.iter().filter(|(folder, _)| folder.parent() == Some(at.0));
        let heaviest = below.max_by(|(_, a), (_, b)| a.share().total_cmp(&b.share()));
        // The project itself can neither be left out nor allowed, so it is named only if nothing below weighs.
        let least = if at.0.as_os_str().is_empty() { 0.1 } else { 0.9 };
        match heaviest {
            Some((folder, weight)) if weight.share() >= least * at.1.share() => at = (folder, *weight),
            _ => return (at.0.to_owned(), at.1),
        }
    }
}
