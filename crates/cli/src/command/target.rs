//! `yard target`: the places that runs can go to.

mod add;
mod check;
mod ls;
mod ray;
mod steps;
mod write;

use clap::{Args, Subcommand};
use trainyard_core::plan::slurm::Facts;
use trainyard_core::spec::{TargetKind, TargetSpec};

use crate::context::Context;
use crate::error::{CommandError, Exit};

/// List, add and check the places that runs can go to
#[derive(Debug, Args)]
pub(crate) struct Target {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Ls(ls::Ls),
    Add(Box<add::Add>),
    Check(check::Check),
}

impl Target {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        match self.task {
            Task::Ls(command) => command.run(context),
            Task::Add(command) => command.run(context),
            Task::Check(command) => command.run(context),
        }
    }
}

/// As `ssh` knows it; `None` is this machine.
fn host(target: &TargetSpec) -> Option<&str> {
    match &target.kind {
        TargetKind::Ssh(ssh) => Some(&ssh.host),
        TargetKind::Slurm(slurm) => slurm.host.as_deref(),
        TargetKind::Ray(ray) => ray.addresses.first().map(String::as_str),
        _ => None,
    }
}

/// What a SLURM cluster has, in one line.
fn summary(facts: &Facts) -> String {
    let mut parts = vec![format!("SLURM {}", facts.version.known().map_or("of an unknown version", String::as_str))];
    if let Some(partitions) = facts.partitions.known() {
        let names: Vec<&str> = partitions.iter().map(|one| one.name.as_str()).collect();
        parts.push(format!("partitions {}", shortened(&names)));
    }
    let gpus = gpus(facts);
    parts.push(if gpus.is_empty() { "no GPUs".to_owned() } else { format!("GPUs {}", gpus.join(", ")) });
    parts.join("; ")
}

/// A site may have dozens.
fn shortened(names: &[&str]) -> String {
    const MOST: usize = 6;
    match names.len().checked_sub(MOST).filter(|more| *more > 0) {
        Some(more) => format!("{} and {more} more", names.iter().take(MOST).copied().collect::<Vec<_>>().join(", ")),
        None => names.join(", "),
    }
}

/// `8x a100`, the partitions' nodes taken together; a node may be in several, so the largest number is told.
fn gpus(facts: &Facts) -> Vec<String> {
    let mut most: Vec<(String, u32)> = Vec::new();
    for partition in facts.partitions.known().into_iter().flatten() {
        let mut here: Vec<(String, u32)> = Vec::new();
        for nodes in &partition.nodes {
            for gpu in &nodes.gpus {
                let kind = gpu.kind.clone().unwrap_or_else(|| "of no type".to_owned());
                add_up(&mut here, kind, gpu.count.saturating_mul(nodes.count), u32::saturating_add);
            }
        }
        here.into_iter().for_each(|(kind, count)| add_up(&mut most, kind, count, u32::max));
    }
    most.into_iter().map(|(kind, count)| format!("{count}x {kind}")).collect()
}

fn add_up(all: &mut Vec<(String, u32)>, kind: String, count: u32, with: fn(u32, u32) -> u32) {
    match all.iter_mut().find(|(known, _)| *known == kind) {
        Some((_, sum)) => *sum = with(*sum, count),
        None => all.push((kind, count)),
    }
}
