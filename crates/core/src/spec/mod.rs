//! `trainyard.toml` and what it means: layers of text → one tree whose values know where they come from →
//! checked, typed specs. Refuses anything it does not understand; an error names the place and what is allowed there.

mod check;
mod config;
mod content;
mod decode;
mod emit;
mod group;
mod image;
mod job;
mod merge;
mod nearest;
mod origin;
mod path;
mod preset;
mod problem;
mod quantity;
mod read;
mod rules;
mod schema;
mod set;
mod shape;
mod sweep;
mod target;
#[cfg(test)]
mod tests;
mod tree;

pub use crate::space::{Dimension, Domain};
pub use config::{Config, ProjectSpec};
pub use emit::Entry;
pub use group::{GroupSpec, Start};
pub use image::{ImageSpec, Login};
pub use job::{
    Around, Command, Contained, Gpus, JobSpec, MetricSource, ParamStyle, ParamsFile, ResumeReason, ResumeSpec,
    SecretRef, Setting, Signal, Tasks, Warn,
};
pub(crate) use nearest::nearest;
pub use origin::Origin;
pub use problem::{Problem, SpecError};
pub use quantity::{
    DurationError, GpusError, MOST_SEEDS, SeedsError, SizeError, format_duration, format_size, parse_duration,
    parse_gpus, parse_seeds, parse_size, round_size,
};
pub use schema::json_schema;
pub use set::set_param;
pub use sweep::{
    Aggregate, Budget, CurveValue, Goal, Known, More, Mutate, NotCounted, Repeats, SamplerKind, SchedulerKind,
    StopMode, StopSpec, SweepSpec,
};
pub use target::{
    Container, GpuLimit, KubernetesSpec, Limits, MemoryRequest, RaySpec, ResumeBy, RunaiSpec, SlurmSpec, SshSpec,
    TargetKind, TargetSpec, Writable,
};

/// One file, already read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// How errors call it.
    pub name: String,
    pub text: String,
}

/// A configuration in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    pub config: Config,
    /// Every value and where it comes from, defaults included.
    pub entries: Vec<Entry>,
}

/// Reads the layers, the later over the earlier (the user's file, then the project's), and over them the
/// `path=value` texts of `--set`, in their order. `folder_name` is the project's name where none is given.
///
/// Fails with every problem there is. Texts that cannot be read at all come alone, since what they would have
/// said is missing elsewhere.
pub fn load(layers: &[Layer], sets: &[String], folder_name: &str) -> Result<Loaded, SpecError> {
    let mut tree = merge::base(folder_name);
    let mut problems = Vec::new();
    for layer in layers {
        match tree::parse(layer) {
            Ok(node) => merge::put_over(&mut tree, node),
            Err(found) => problems.extend(found),
        }
    }
    for text in sets {
        match set::parse(text) {
            Ok(node) => merge::put_over(&mut tree, node),
            Err(found) => problems.push(found),
        }
    }
    if !problems.is_empty() {
        return Err(SpecError::new(problems));
    }
    problems.extend(check::check(&mut tree));
    let root = read::Reader::root(&tree);
    problems.extend(rules::check(&root));
    if !problems.is_empty() {
        return Err(SpecError::new(problems));
    }
    let config = decode::config(&root).map_err(|problem| SpecError::new(vec![problem]))?;
    Ok(Loaded { config, entries: emit::entries(&tree) })
}
