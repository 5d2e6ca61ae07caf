//! What is known about a site, asked once and kept for a while.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use trainyard_agent::disk::{Durability, now, read_json, replace_json};
use trainyard_core::id::Digest;
use trainyard_core::plan::slurm::{Facts, machine_script, probe_script};
use trainyard_core::spec::{TargetKind, TargetSpec};
use trainyard_core::time::{Instant, Span};

use crate::pipe::{Pipe, PipeError};

/// Partitions and limits change rarely; what they were an hour ago is good enough for a plan.
const FRESH: Span = Span::seconds(3600);
/// All of the probe's questions together; each has a limit of its own.
const PATIENCE: Duration = Duration::from_secs(120);

/// A site as it was when it was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Known {
    pub at: Instant,
    /// As the file names them: when they change, it is another site.
    pub host: Option<String>,
    pub depot: String,
    /// The depot as the site knows it.
    pub root: String,
    /// The agent's path there.
    pub agent: String,
    /// Of a SLURM cluster.
    pub facts: Option<Facts>,
    /// Of a plain machine: which container runtimes it has.
    #[serde(default)]
    pub machine: Option<Facts>,
    /// Snapshots that were found or put there, and when.
    #[serde(default)]
    pub sent: BTreeMap<Digest, Instant>,
    /// The newest snapshot of each project that was sent there, however long ago.
    #[serde(default)]
    newest: BTreeMap<PathBuf, Digest>,
}

/// What cleans at the site leaves alone for longer than this.
const SURE: Span = Span::seconds(1200);
/// More are not worth remembering.
const MOST_SENT: usize = 50;

impl Known {
    /// What the pipe tells, and for SLURM what its commands do.
    pub fn ask(pipe: &mut Pipe, target: &TargetSpec) -> Result<Self, PipeError> {
        let (facts, machine) = match &target.kind {
            TargetKind::Slurm(_) => (Some(facts(pipe)?), None),
            TargetKind::Ssh(ssh) => (None, Some(machine(pipe, &ssh.setup)?)),
            _ => (None, None),
        };
        Ok(Self {
            at: now(),
            host: host(target),
            depot: super::depot_of(target),
            root: pipe.depot().to_owned(),
            agent: pipe.agent().to_owned(),
            facts,
            machine,
            sent: BTreeMap::new(),
            newest: BTreeMap::new(),
        })
    }

    /// What was kept, if it is of this site; however old.
    pub fn recall(path: &Path, target: &TargetSpec) -> Option<Self> {
        read_json::<Self>(path).filter(|known| known.host == host(target) && known.depot == super::depot_of(target))
    }

    /// What a plan for this site has to know.
    pub fn about(&self) -> Option<&Facts> {
        self.facts.as_ref().or(self.machine.as_ref())
    }

    /// Whether the code is there for certain, or nearly so: who submits looks again.
    pub fn has(&self, snapshot: &Digest) -> bool {
        self.sent.get(snapshot).is_some_and(|at| now().since(*at) < SURE)
    }

    pub fn newest(&self, project: &Path) -> Option<&Digest> {
        self.newest.get(project)
    }

    pub fn note_newest(&mut self, project: &Path, snapshot: &Digest) {
        self.newest.insert(project.to_owned(), snapshot.clone());
        while self.newest.len() > MOST_SENT {
            self.newest.pop_first();
        }
    }

    pub fn note_sent(&mut self, snapshot: &Digest) {
        self.sent.insert(snapshot.clone(), now());
        self.sent.retain(|_, at| now().since(*at) < SURE);
        while self.sent.len() > MOST_SENT {
            self.sent.pop_first();
        }
    }

    pub fn is_fresh(&self) -> bool {
        now().since(self.at) < FRESH
    }

    /// Keeping is a convenience; a disk that refuses costs the next command a question.
    pub fn keep(&self, path: &Path) {
        let made = path.parent().map_or(Ok(()), fs_err::create_dir_all);
        drop(made.and_then(|()| replace_json(path, self, Durability::Cached)));
    }
}

fn host(target: &TargetSpec) -> Option<String> {
    match &target.kind {
        TargetKind::Ssh(ssh) => Some(ssh.host.clone()),
        TargetKind::Slurm(slurm) => slurm.host.clone(),
        TargetKind::Ray(ray) => Some(ray.addresses.join(" ")),
        _ => None,
    }
}

fn facts(pipe: &mut Pipe) -> Result<Facts, PipeError> {
    let argv = ["sh".to_owned(), "-s".to_owned()];
    let ran = pipe.run(&argv, probe_script().as_bytes(), &BTreeMap::new(), PATIENCE)?;
    Facts::parse(&ran.stdout()).map_err(|error| PipeError::Refused(format!("{error}: {}", ran.stderr().trim())))
}

fn machine(pipe: &mut Pipe, setup: &[String]) -> Result<Facts, PipeError> {
    let mut argv = ["sh".to_owned(), "-s".to_owned(), "--".to_owned()].to_vec();
    argv.extend(setup.iter().cloned());
    let ran = pipe.run(&argv, machine_script().as_bytes(), &BTreeMap::new(), PATIENCE)?;
    Facts::parse_machine(&ran.stdout()).map_err(|error| PipeError::Refused(format!("{error}: {}", ran.stderr().trim())))
}
