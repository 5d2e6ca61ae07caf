//! Images in a tar: `docker save` and `podman save` of any age, and OCI layouts that were packed.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use crate::digest::Digest;
use crate::entry::{Entries, Kind};
use crate::error::{Error, Reading, Result};
use crate::image::{Config, Image, Layer, Platform};
use crate::manifest::MOST_BYTES;
use crate::range::FileRange;
use crate::source::{Blob, Named, Source, oci};
use crate::tar::TarReader;
use crate::tree::components;
use crate::verify::read_checked;

/// Of the archive's own members; images have some hundred.
const MOST_MEMBERS: usize = 100_000;
/// From one name to the next, when layers are links to each other.
const MOST_LINKS: usize = 8;

pub struct Archive {
    path: PathBuf,
    reference: Option<String>,
    platform: Platform,
    members: Members,
    layers: Vec<FileRange>,
}

impl Archive {
    /// `reference` chooses where the archive holds several images: a tag as `docker save` was given it.
    pub fn open(path: impl Into<PathBuf>, reference: Option<String>, platform: Platform) -> Result<Self> {
        let path = path.into();
        let members = Members::read(&path)?;
        Ok(Self { path, reference, platform, members, layers: Vec::new() })
    }
}

impl Source for Archive {
    fn image(&mut self) -> Result<Image> {
        // An archive of Docker 25 or newer is both, and means the same.
        let (image, layers) = match self.members.find("manifest.json")? {
            Some(list) => docker(&self.members, list, self.reference.as_deref())?,
            None => oci::image(&self.members, &self.platform, self.reference.as_deref())?,
        };
        self.layers = layers;
        Ok(image)
    }

    fn layer(&mut self, index: usize) -> Result<Blob> {
        let missing = || Error::malformed(self.path.display().to_string(), format!("has no layer {index}"));
        self.layers.get(index).cloned().map(Blob::Range).ok_or_else(missing)
    }
}

/// `manifest.json` of `docker save`: the layers are plain tars, or (from other tools) compressed ones.
fn docker(members: &Members, list: FileRange, reference: Option<&str>) -> Result<(Image, Vec<FileRange>)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Saved {
        config: String,
        #[serde(default)]
        repo_tags: Option<Vec<String>>,
        #[serde(default)]
        layers: Option<Vec<String>>,
    }
    let place = format!("{}: manifest.json", members.place());
    let bytes = read_checked(list, MOST_BYTES, &place, None)?;
    let saved: Vec<Saved> = serde_json::from_slice(&bytes)
        .map_err(|error| Error::malformed(&place, format!("is no list of images: {error}")))?;
    let has_name = |saved: &&Saved| {
        let Some(reference) = reference else { return true };
        let latest = format!("{reference}:latest");
        saved.repo_tags.iter().flatten().any(|tag| tag == reference || *tag == latest)
    };
    let mut found = saved.iter().filter(has_name);
    let names =
        || saved.iter().flat_map(|saved| saved.repo_tags.iter().flatten()).map(String::as_str).collect::<Vec<_>>();
    let image = found.next().ok_or_else(|| {
        let wanted = reference.map(|name| format!(" named `{name}`")).unwrap_or_default();
        Error::malformed(&place, format!("has no image{wanted}; it has: {}", names().join(", ")))
    })?;
    if found.next().is_some() {
        return Err(Error::malformed(&place, format!("has several images, name one of them: {}", names().join(", "))));
    }
    let config_place = format!("{}: {}", members.place(), image.config);
    let bytes =
        read_checked(members.needed(&image.config)?, MOST_BYTES, &config_place, named_after(&image.config).as_ref())?;
    let config = Config::parse(&config_place, &bytes)?;
    let layers = image.layers.clone().unwrap_or_default();
    if layers.len() != config.diff_ids.len() {
        let why = format!("has {} layers, its configuration names {}", layers.len(), config.diff_ids.len());
        return Err(Error::malformed(place, why));
    }
    let ranges: Vec<FileRange> = layers.iter().map(|name| members.needed(name)).collect::<Result<_>>()?;
    let layer = |(id, range): (&Digest, &FileRange)| {
        let (digest, diff_id, size) = (None, Some(id.clone()), Some(range.left()));
        Layer { digest, diff_id, size }
    };
    let layers = config.diff_ids.iter().zip(&ranges).map(layer).collect();
    Ok((Image { config, layers }, ranges))
}

/// Configurations are named after their digest; some tools do otherwise.
fn named_after(name: &str) -> Option<Digest> {
    let last = name.rsplit('/').next()?;
    Digest::parse(&format!("sha256:{}", last.trim_end_matches(".json")))
}

/// Where the files of a tar lie in it.
struct Members {
    path: PathBuf,
    file: Arc<File>,
    places: HashMap<Vec<u8>, Member>,
}

enum Member {
    File { offset: u64, length: u64 },
    Link(Vec<u8>),
}

impl Members {
    fn read(path: &Path) -> Result<Self> {
        let what = || path.display().to_string();
        let file = File::open(path).reading(what)?;
        let length = file.metadata().reading(what)?.len();
        let file = Arc::new(file);
        let mut tar = TarReader::new(FileRange::new(Arc::clone(&file), 0, length), what());
        let mut places = HashMap::new();
        while let Some(entry) = tar.next()? {
            let name = clean(&entry.path);
            let member = match entry.kind {
                Kind::File(length) => Member::File { offset: tar.position(), length },
                Kind::Hardlink(target) => Member::Link(clean(&target)),
                // Old versions of Docker link layers that are the same: `../<id>/layer.tar`.
                Kind::Symlink(target) => Member::Link(beside(&name, &target)),
                _ => continue,
            };
            if places.len() == MOST_MEMBERS {
                return Err(Error::entry(&what(), &entry.path, "is too many: no image has 100,000 parts"));
            }
            places.insert(name, member);
        }
        Ok(Self { path: path.to_owned(), file, places })
    }
}

fn clean(path: &[u8]) -> Vec<u8> {
    components(path).map(|parts| parts.join(&b'/')).unwrap_or_default()
}

/// Where a link of that name leads, inside of the archive.
fn beside(name: &[u8], target: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = name.split(|byte| *byte == b'/').collect();
    parts.pop();
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join(&b'/')
}

impl Named for Members {
    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn find(&self, name: &str) -> Result<Option<FileRange>> {
        let mut name = clean(name.as_bytes());
        for _ in 0..MOST_LINKS {
            match self.places.get(&name) {
                None => return Ok(None),
                Some(Member::File { offset, length }) => {
                    return Ok(Some(FileRange::new(Arc::clone(&self.file), *offset, *length)));
                }
                Some(Member::Link(target)) => name.clone_from(target),
            }
        }
        Ok(None)
    }
}
