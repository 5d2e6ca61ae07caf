//! The whole configuration, checked and typed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::group::GroupSpec;
use super::image::ImageSpec;
use super::job::JobSpec;
use super::sweep::SweepSpec;
use super::target::TargetSpec;

/// What all layers together say. Every name in it that refers to something else in it is known to exist.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    pub project: ProjectSpec,
    /// By profile; `[image]` is the profile [`ImageSpec::DEFAULT`].
    pub images: BTreeMap<String, ImageSpec>,
    pub jobs: BTreeMap<String, JobSpec>,
    #[serde(default)]
    pub groups: BTreeMap<String, GroupSpec>,
    pub sweeps: BTreeMap<String, SweepSpec>,
    /// Always holds one called `local`, of kind local.
    pub targets: BTreeMap<String, TargetSpec>,
    /// Where a job runs that names no target itself.
    pub default_target: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectSpec {
    /// The folder's name unless given.
    pub name: String,
    /// In the syntax of `.gitignore`.
    pub exclude: Vec<String>,
    /// Folders that may be larger than code usually is, in the same syntax.
    #[serde(default)]
    pub allow_large: Vec<String>,
}
