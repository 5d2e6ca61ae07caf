//! Where a container image comes from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::job::SecretRef;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageSpec {
    /// An image of this machine's Docker daemon.
    Docker(String),
    /// An image of this machine's Podman.
    Podman(String),
    /// A file made by `docker save` or the like; relative to the project.
    Archive {
        path: String,
        reference: Option<String>,
    },
    /// An OCI layout; a folder.
    Oci {
        path: String,
        reference: Option<String>,
    },
    /// Files as they lie there.
    Folder(String),
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

    /// The key of the file that this was written with.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Docker(_) => "docker",
            Self::Podman(_) => "podman",
            Self::Archive { .. } => "archive",
            Self::Oci { .. } => "oci",
            Self::Folder(_) => "folder",
            Self::Dockerfile { .. } => "dockerfile",
            Self::Registry { .. } => "registry",
            Self::Sif(_) => "sif",
        }
    }

    /// What the key says.
    pub fn named(&self) -> &str {
        match self {
            Self::Docker(name) | Self::Podman(name) | Self::Folder(name) | Self::Sif(name) => name,
            Self::Archive { path, .. } | Self::Oci { path, .. } => path,
            Self::Dockerfile { file, .. } => file,
            Self::Registry { reference, .. } => reference,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    pub username: String,
    pub password: SecretRef,
}
