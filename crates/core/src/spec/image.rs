//! Where a container image comes from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::job::SecretRef;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageSpec {
    /// An image of this machine's Docker daemon.
    Docker(String),
    /// Built from the project; paths are relative to it.
    Dockerfile {
        file: String,
        context: String,
        args: BTreeMap<String, String>,
    },
    Registry {
        reference: String,
        login: Option<Login>,
    },
    /// A finished Apptainer image.
    Sif(String),
}

impl ImageSpec {
    /// The profile that `[image]` is, and that a job runs in unless it names another.
    pub const DEFAULT: &str = "default";
    /// What a job names to run without an image.
    pub const NONE: &str = "none";
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    pub username: String,
    pub password: SecretRef,
}
