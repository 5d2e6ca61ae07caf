//! What a job needs of a node, and which nodes there are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Usage;
use crate::spec::{JobSpec, RaySpec, format_size};

/// Of one node: Ray starts a job's program on one.
#[derive(Debug, Clone, PartialEq)]
pub struct Need {
    pub cpus: f64,
    pub gpus: f64,
    pub memory: Option<u64>,
    pub resources: BTreeMap<String, f64>,
}

/// A node that is alive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    pub id: String,
    pub ip: String,
    pub name: String,
    pub is_head: bool,
    /// `CPU`, `GPU`, `memory` and whatever else it was given.
    pub resources: BTreeMap<String, f64>,
}

impl Node {
    /// The resource that every node has and no other.
    pub fn own_resource(&self) -> String {
        format!("node:{}", self.ip)
    }

    fn is_called(&self, name: &str) -> bool {
        self.id == name || self.ip == name || self.name == name
    }

    fn has(&self, resource: &str) -> f64 {
        self.resources.get(resource).copied().unwrap_or(0.0)
    }
}

/// So small that a node never runs out of it.
const A_TOUCH: f64 = 0.001;

impl Need {
    /// Of a job on this target. `nodes` are those that are known.
    pub fn of(job: &JobSpec, target: &RaySpec, nodes: &[Node]) -> Result<Self, String> {
        let shares = target.shares.iter().chain(&job.shares);
        let mut resources: BTreeMap<String, f64> =
            shares.map(|(name, share)| (name.clone(), *share as f64 / 1e4)).collect();
        let node = job.node.as_ref().or(target.node.as_ref()).map(|name| called(name, nodes)).transpose()?;
        resources.extend(node.map(|node| (node.own_resource(), A_TOUCH)));
        let Some(runs) = job.per_node else {
            return Ok(Self { cpus: f64::from(job.cpus), gpus: job.gpus.as_f64(), memory: job.memory, resources });
        };
        let part = |resource: &str| part(node.map_or(nodes, std::slice::from_ref), resource, runs);
        let memory = Some(part("memory") as u64).filter(|bytes| *bytes > 0);
        Ok(Self { cpus: part("CPU"), gpus: part("GPU"), memory, resources })
    }

    pub fn nothing() -> Self {
        Self { cpus: 0.0, gpus: 0.0, memory: None, resources: BTreeMap::new() }
    }

    /// Nothing, but on this node.
    pub fn place(node: &Node) -> Self {
        Self { resources: BTreeMap::from([(node.own_resource(), A_TOUCH)]), ..Self::nothing() }
    }

    fn parts(&self) -> Vec<(&str, f64)> {
        let memory = self.memory.map(|bytes| ("memory", bytes as f64));
        let resources = self.resources.iter().map(|(name, amount)| (name.as_str(), *amount));
        let parts = [("GPU", self.gpus), ("CPU", self.cpus)].into_iter().chain(memory).chain(resources);
        parts.filter(|(_, amount)| *amount > 0.0).collect()
    }

    fn fits(&self, node: &Node) -> bool {
        self.parts().iter().all(|(resource, amount)| node.has(resource) >= *amount)
    }
}

fn called<'a>(name: &str, nodes: &'a [Node]) -> Result<&'a Node, String> {
    let node = nodes.iter().find(|node| node.is_called(name));
    node.ok_or_else(|| format!("there is no node `{name}`; there are {}", names(nodes)))
}

/// What each of so many runs gets of the smallest node that is for such work: one with GPUs, if any has them. Ray gives
/// parts of a GPU, but no GPU and a half.
fn part(nodes: &[Node], resource: &str, runs: u32) -> f64 {
    let has_gpus = nodes.iter().any(|node| node.has("GPU") > 0.0);
    let fit = nodes.iter().filter(|node| node.has(if has_gpus { "GPU" } else { "CPU" }) > 0.0);
    let part = fit.map(|node| node.has(resource)).reduce(f64::min).unwrap_or(0.0) / f64::from(runs.max(1));
    if part >= 1.0 { part.floor() } else { (part * 1e4).floor() / 1e4 }
}

fn names(nodes: &[Node]) -> String {
    nodes.iter().map(|node| format!("`{}`", node.name)).collect::<Vec<_>>().join(", ")
}

/// Why no node would ever start it.
pub fn refuse(need: &Need, nodes: &[Node]) -> Option<String> {
    if nodes.is_empty() || nodes.iter().any(|node| need.fits(node)) {
        return None;
    }
    let lacking = need.parts().into_iter().find_map(|(resource, amount)| {
        let most = nodes.iter().map(|node| node.has(resource)).fold(0.0, f64::max);
        (most < amount).then(|| {
            format!("it needs {}, and the largest node has {}", words(resource, amount), words(resource, most))
        })
    });
    let all = || {
        let parts: Vec<String> = need.parts().iter().map(|(name, amount)| words(name, *amount)).collect();
        format!("no node has {} at once", parts.join(", "))
    };
    Some(lacking.unwrap_or_else(all))
}

/// Why the cluster could never start all of them at once, even if nothing else ran.
pub fn refuse_together(needs: &[Need], nodes: &[Node]) -> Option<String> {
    if let Some(why) = needs.iter().find_map(|need| refuse(need, nodes)) {
        return Some(why);
    }
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for (resource, amount) in needs.iter().flat_map(Need::parts) {
        *sums.entry(resource).or_default() += amount;
    }
    sums.into_iter().filter(|_| !nodes.is_empty()).find_map(|(resource, amount)| {
        let all = nodes.iter().map(|node| node.has(resource)).sum::<f64>();
        (all + A_TOUCH < amount).then(|| {
            format!("together they need {}, and all nodes have {}", words(resource, amount), words(resource, all))
        })
    })
}

/// How many of these could start now, as far as the sums tell.
pub fn room(need: &Need, usage: &Usage) -> f64 {
    let fits = need.parts().into_iter().filter_map(|(resource, amount)| {
        let (used, total) = usage.0.get(resource).copied()?;
        Some(((total - used) / amount).floor())
    });
    fits.fold(f64::from(u32::MAX), f64::min)
}

/// Why it has not started yet.
pub fn waiting(need: &Need, nodes: &[Node], usage: &Usage) -> Option<String> {
    if let Some(why) = refuse(need, nodes) {
        return Some(why);
    }
    let short = need.parts().into_iter().find_map(|(resource, amount)| {
        let (used, total) = usage.0.get(resource).copied()?;
        let free = total - used;
        (free < amount).then(|| {
            format!(
                "waits for {}; {} of {} are free",
                words(resource, amount),
                amount_of(resource, free),
                amount_of(resource, total)
            )
        })
    });
    short.or_else(|| Some("Ray prepares it, or waits until one node has enough free at once".to_owned()))
}

fn words(resource: &str, amount: f64) -> String {
    let plural = if amount == 1.0 { "" } else { "s" };
    match resource {
        "GPU" | "CPU" => format!("{} {resource}{plural}", number(amount)),
        "memory" => format!("{} of memory", amount_of(resource, amount)),
        other => format!("{} of `{other}`", number(amount)),
    }
}

fn amount_of(resource: &str, amount: f64) -> String {
    match resource {
        "memory" => format_size(amount.max(0.0) as u64),
        _ => number(amount),
    }
}

/// Without the noise of binary fractions.
fn number(amount: f64) -> String {
    let rounded = (amount * 1e4).round() / 1e4;
    format!("{rounded}")
}
