//! An image as its configuration describes it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::digest::Digest;
use crate::error::{Error, Result};

/// What a source tells before any layer is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    pub config: Config,
    /// Lowest first.
    pub layers: Vec<Layer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Of the layer as the source stores it, where that is told.
    pub digest: Option<Digest>,
    /// Of the layer's tar, uncompressed. Only a plain folder has none.
    pub diff_id: Option<Digest>,
    /// Bytes as stored, where that is told.
    pub size: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    pub os: String,
    pub architecture: String,
    pub variant: Option<String>,
}

impl Platform {
    /// Linux on this machine's processor, in the words of OCI.
    pub fn here() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "x86" => "386",
            "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
            "loongarch64" => "loong64",
            other => other,
        };
        Self { os: "linux".to_owned(), architecture: architecture.to_owned(), variant: None }
    }
}

/// What an image says about how it wants to be run. Built from either vendor's JSON; only what means the same in both
/// is kept, so that an image has one configuration however it came here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    pub architecture: String,
    pub os: String,
    pub run: RunConfig,
    pub diff_ids: Vec<Digest>,
}

/// The `config` object, with the names it has there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RunConfig {
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub user: String,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub exposed_ports: BTreeMap<String, Nothing>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    #[serde(deserialize_with = "words", skip_serializing_if = "Vec::is_empty")]
    pub entrypoint: Vec<String>,
    #[serde(deserialize_with = "words", skip_serializing_if = "Vec::is_empty")]
    pub cmd: Vec<String>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub volumes: BTreeMap<String, Nothing>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub working_dir: String,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub stop_signal: String,
}

/// `{}`: how Go writes a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nothing {}

fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(input: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

/// A list of words; images of before 2014 may have one string.
fn words<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Words {
        Many(Vec<String>),
        One(String),
    }
    Ok(match Option::deserialize(input)? {
        Some(Words::Many(words)) => words,
        Some(Words::One(word)) => vec![word],
        None => Vec::new(),
    })
}

impl Config {
    /// From the JSON that the manifest's `config` names. `place` stands in the error.
    pub fn parse(place: &str, json: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct File {
            #[serde(default, deserialize_with = "nullable")]
            architecture: String,
            #[serde(default, deserialize_with = "nullable")]
            os: String,
            #[serde(default, deserialize_with = "nullable")]
            config: RunConfig,
            rootfs: RootFs,
        }
        #[derive(Deserialize)]
        struct RootFs {
            #[serde(default, deserialize_with = "nullable")]
            diff_ids: Vec<Digest>,
        }
        let file: File = serde_json::from_slice(json)
            .map_err(|error| Error::malformed(place, format!("is no image configuration: {error}")))?;
        if !matches!(file.os.as_str(), "" | "linux") {
            return Err(Error::malformed(place, format!("is for {}, not for linux", file.os)));
        }
        let (architecture, os) = (file.architecture, "linux".to_owned());
        Ok(Self { architecture, os, run: file.config, diff_ids: file.rootfs.diff_ids })
    }
}
