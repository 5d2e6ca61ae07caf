//! A job as the rest of the house sees it: checked, with defaults filled in.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::target::{Container, Writable};
use crate::template::Size;
use crate::time::Span;
use crate::value::Params;

/// A named description of what to run. Texts that may hold placeholders are kept as written; see
/// [`crate::template`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    pub name: String,
    pub command: Command,
    pub env: BTreeMap<String, Setting>,
    pub params: Params,
    pub style: ParamStyle,
    /// There if `style` is [`ParamStyle::File`].
    #[serde(default)]
    pub params_file: Option<ParamsFile>,
    /// The image profile the job runs in; `None` runs bare.
    pub image: Option<String>,
    /// Where it runs unless the user says otherwise; `None` is the configuration's default target.
    pub target: Option<String>,
    /// On each node.
    pub gpus: Gpus,
    /// Runs in one allocation, where GPUs are shared; `None` is as many as fill one.
    #[serde(default)]
    pub pack: Option<u32>,
    /// At least 1; more than that only with whole GPUs.
    #[serde(default = "one")]
    pub nodes: u32,
    #[serde(default)]
    pub tasks: Tasks,
    /// On each node.
    pub cpus: u32,
    /// Bytes on each node; `None` is not counted.
    pub memory: Option<u64>,
    /// The only node to run on; `None` is any.
    #[serde(default)]
    pub node: Option<String>,
    /// What it holds of a cluster's own resources, in ten-thousandths.
    #[serde(default)]
    pub shares: BTreeMap<String, u64>,
    /// Runs that share out a node; `cpus`, `gpus` and `memory` say nothing then.
    #[serde(default)]
    pub per_node: Option<u32>,
    pub time: Option<Span>,
    /// Paths relative to the working folder, `/`-separated, without `..`.
    pub outputs: Vec<String>,
    pub seeds: Vec<u64>,
    /// Runs in the project folder itself; local targets only.
    pub in_place: bool,
    /// Its working folder holds copies of all files, however many; programs that hand the folder on need that.
    #[serde(default)]
    pub copy: bool,
    /// How long a program may take to end after SIGTERM before it is killed.
    pub grace: Span,
    pub resume: ResumeSpec,
    pub metrics: Vec<MetricSource>,
    /// The metric that says most, where one has to do.
    #[serde(default)]
    pub headline: Option<String>,
    /// The metric whose course its agent reports, for the sweep it is part of.
    #[serde(default)]
    pub objective: Option<String>,
    /// What its target adds; nothing until it is planned for one.
    #[serde(default)]
    pub around: Around,
}

/// What a program is surrounded with at its target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Around {
    pub container: Option<Contained>,
    /// A folder on the machine's own disk to work in; may hold variables, which are known there only.
    pub scratch: Option<String>,
}

/// An image, and how a program is put into it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contained {
    /// One that runs finished images: never Docker, Podman or none.
    pub by: Container,
    /// A path at the target.
    pub image: String,
    /// `SOURCE`, `SOURCE:INSIDE` or `SOURCE:INSIDE:OPTIONS`; may hold variables.
    pub binds: Vec<String>,
    pub writable: Writable,
    /// Paths in the image that are kept from run to run.
    pub cache: Vec<String>,
}

/// A job of an older ledger ran on one node.
const fn one() -> u32 {
    1
}

impl JobSpec {
    /// How a job says that any node will do.
    pub const ANY_NODE: &str = "any";

    /// Processes of one run on each node.
    pub fn tasks_per_node(&self) -> u32 {
        match (self.tasks, self.gpus) {
            (Tasks::PerGpu, Gpus::Whole(gpus)) => gpus.max(1),
            _ => 1,
        }
    }

    /// Processes of one run on all nodes: the world size.
    pub fn total_tasks(&self) -> u32 {
        self.nodes.saturating_mul(self.tasks_per_node())
    }

    /// What placeholders such as `{total_gpus}` stand for.
    pub fn size(&self) -> Size {
        Size {
            gpus: self.gpus.to_string(),
            nodes: self.nodes.to_string(),
            total_gpus: self.total_gpus().to_string(),
            tasks: self.total_tasks().to_string(),
        }
    }

    /// GPUs of one run on all nodes; a share stays one.
    pub fn total_gpus(&self) -> Gpus {
        match self.gpus {
            Gpus::Whole(gpus) => Gpus::Whole(self.nodes.saturating_mul(gpus)),
            share @ Gpus::Share(_) => share,
        }
    }
}

/// How many processes a run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tasks {
    #[default]
    PerNode,
    PerGpu,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    Argv(Vec<String>),
    /// Handed to `/bin/sh -c` as one argument; parameters and extra arguments follow as `"$@"`.
    Shell(String),
}

/// The value of an environment variable: plain text, or a secret that is looked up at the last moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setting {
    Text(String),
    Secret(SecretRef),
}

/// Where a secret is found; never the secret itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecretRef {
    Env(String),
    File(PathBuf),
    Command(Vec<String>),
}

/// How parameters become arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParamStyle {
    /// `--lr=0.1`
    #[default]
    Flags,
    /// `agent.lr=0.1`, quoted by Hydra's own grammar.
    Hydra,
    /// `LR=0.1` in the environment.
    Env,
    /// In a file that is made from another.
    File,
}

/// A file of the project with placeholders, and the file that is made of it before the program starts. Paths relative to
/// the working folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParamsFile {
    pub template: String,
    pub to: String,
}

/// GPUs of one run: whole ones, or an equal share of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gpus {
    Whole(u32),
    /// `Share(4)`: a quarter, so four runs fit on one GPU. 2 to [`Gpus::MOST_SHARES`].
    Share(u32),
}

impl Gpus {
    /// GPUs as a number, for sums of hours.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Whole(gpus) => f64::from(gpus),
            Self::Share(parts) => 1.0 / f64::from(parts.max(1)),
        }
    }

    /// Every share up to this one is a whole number of [`Gpus::UNITS`].
    pub const MOST_SHARES: u32 = 16;
    /// One GPU in units that all shares divide: the least common multiple of 1 to 16.
    pub const UNITS: u32 = 720_720;

    /// What a run takes of each GPU it is given.
    pub fn units(self) -> u32 {
        match self {
            Self::Whole(_) => Self::UNITS,
            Self::Share(of) => Self::UNITS / of.max(1),
        }
    }
}

impl std::fmt::Display for Gpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(count) => count.fmt(f),
            Self::Share(of) => {
                let text = format!("{:.3}", 1.0 / f64::from(*of));
                f.write_str(text.trim_end_matches('0'))
            }
        }
    }
}

/// When and how a run goes on after an attempt that did not finish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeSpec {
    /// Attempts in all, the first included; at least 1.
    pub attempts: u32,
    pub on: Vec<ResumeReason>,
    /// Glob relative to the working folder.
    pub checkpoint: Option<String>,
    /// Added to the command when there is a checkpoint.
    pub args: Vec<String>,
    pub warn: Option<Warn>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResumeReason {
    TimeLimit,
    Preempted,
    NodeFailure,
    /// The program itself ended with an error.
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warn {
    pub signal: Signal,
    pub before: Span,
}

/// Signals a program can be warned with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    Usr1,
    Usr2,
    Term,
    Int,
    Hup,
}

/// Where the numbers of a training come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetricSource {
    /// A folder of TensorBoard event files.
    Tensorboard(String),
    /// A file of JSON objects, one a line; `step` is the step, other numbers are metrics.
    Jsonl(String),
    /// A table with a header, in a file of lines.
    Csv(String),
    /// A regular expression over the log; each named group is a metric.
    Stdout(String),
    /// The program says them by itself, with `yard report` or in the file that `YARD_METRICS` names. It may do so in
    /// any case; this is for jobs that do nothing else.
    Report,
}

impl MetricSource {
    /// Where it lies in the working folder.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Tensorboard(path) | Self::Jsonl(path) | Self::Csv(path) => Some(path),
            Self::Stdout(_) | Self::Report => None,
        }
    }
}
