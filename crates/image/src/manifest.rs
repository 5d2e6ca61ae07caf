//! Manifests and indexes, in both vendors' dialects, and the choice of a platform.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::image::{Config, Image, Layer, Platform};

/// More than any registry takes.
pub(crate) const MOST_BYTES: u64 = 8 << 20;

/// A reference to a blob.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    pub digest: Digest,
    #[serde(default)]
    pub size: u64,
    #[serde(default)]
    pub platform: Option<Named>,
    #[serde(default)]
    pub annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Named {
    #[serde(default)]
    pub architecture: String,
    #[serde(default)]
    pub os: String,
    #[serde(default)]
    pub variant: Option<String>,
}

/// What a manifest's bytes turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Manifest {
    Index(Vec<Descriptor>),
    Image { config: Descriptor, layers: Vec<Descriptor> },
}

impl Manifest {
    pub fn parse(place: &str, json: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct File {
            #[serde(default)]
            manifests: Option<Vec<Descriptor>>,
            #[serde(default)]
            config: Option<Descriptor>,
            #[serde(default)]
            layers: Option<Vec<Descriptor>>,
        }
        let file: File = serde_json::from_slice(json)
            .map_err(|error| Error::malformed(place, format!("is no image manifest: {error}")))?;
        match (file.manifests, file.config, file.layers) {
            (Some(list), None, None) => Ok(Self::Index(list)),
            (None, Some(config), Some(layers)) => Ok(Self::Image { config, layers }),
            (None, None, None) => Err(Error::malformed(place, "is a manifest of version 1, which nobody should use")),
            _ => Err(Error::malformed(place, "is neither an image's manifest nor an index")),
        }
    }
}

/// The image for a platform out of an index. Attestations and the like are no images.
pub fn choose<'a>(list: &'a [Descriptor], platform: &Platform) -> Result<&'a Descriptor> {
    let images: Vec<&Descriptor> = list.iter().filter(|entry| is_image(entry)).collect();
    let fits = |entry: &&&Descriptor| {
        let Some(named) = &entry.platform else { return true };
        named.os == platform.os && named.architecture == platform.architecture
    };
    let fitting: Vec<&Descriptor> = images.iter().filter(fits).copied().collect();
    let variant = |entry: &&&Descriptor| entry.platform.as_ref().is_some_and(|named| named.variant == platform.variant);
    let found = fitting.iter().find(variant).or(fitting.first()).copied();
    found.ok_or_else(|| {
        let there: Vec<String> = images.iter().filter_map(|entry| entry.platform.as_ref()).map(words).collect();
        let there = if there.is_empty() { "no image at all".to_owned() } else { there.join(", ") };
        Error::Platform { wanted: format!("{}/{}", platform.os, platform.architecture), there }
    })
}

fn is_image(entry: &Descriptor) -> bool {
    let kind = entry.annotations.as_ref().and_then(|notes| notes.get("vnd.docker.reference.type"));
    let unknown = entry.platform.as_ref().is_some_and(|named| named.os == "unknown");
    let foreign =
        !entry.media_type.is_empty() && !entry.media_type.contains("manifest") && !entry.media_type.contains("index");
    kind.is_none() && !unknown && !foreign
}

fn words(named: &Named) -> String {
    let variant = named.variant.as_deref().map(|variant| format!("/{variant}")).unwrap_or_default();
    crate::error::shown(format!("{}/{}{variant}", named.os, named.architecture).as_bytes())
}

impl Image {
    /// From a manifest's layers and the configuration it names, which must agree on their number.
    pub fn new(place: &str, config: Config, layers: &[Descriptor]) -> Result<Self> {
        if layers.len() != config.diff_ids.len() {
            let why = format!("has {} layers, its configuration names {}", layers.len(), config.diff_ids.len());
            return Err(Error::malformed(place, why));
        }
        let foreign = layers
            .iter()
            .find(|layer| layer.media_type.contains("nondistributable") || layer.media_type.contains("foreign"));
        if let Some(layer) = foreign {
            return Err(Error::malformed(
                place,
                format!("has the layer {} that its vendor does not hand on", layer.digest),
            ));
        }
        let pairs = layers.iter().zip(&config.diff_ids);
        let layer = |(layer, diff_id): (&Descriptor, &Digest)| Layer {
            digest: Some(layer.digest.clone()),
            diff_id: Some(diff_id.clone()),
            size: Some(layer.size),
        };
        let layers = pairs.map(layer).collect();
        Ok(Self { config, layers })
    }
}
