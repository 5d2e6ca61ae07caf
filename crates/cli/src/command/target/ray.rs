//! `yard target check` for Ray clusters.

use trainyard_core::plan::ray::Node;
use trainyard_core::spec::{self, Layer, TargetSpec, format_size};
use trainyard_engine::site;

use super::check::Failure;
use super::steps::Steps;
use crate::context::Context;
use crate::errand::Errand;
use crate::error::{CommandError, Exit};
use crate::report::plural;

/// What the clusters say of themselves, and what an agent says that a small job brought to each node.
pub(super) fn check(context: &Context, target: &TargetSpec, no_job: bool, steps: &mut Steps) -> Result<(), Failure> {
    let mut answers = 0;
    let mut trouble = None;
    steps.begin();
    for (address, found) in site::overview(target) {
        match found {
            Ok(found) => {
                answers += 1;
                let gpus: f64 = found.nodes.iter().map(|node| amount(node, "GPU")).sum();
                let nodes = plural(found.nodes.len(), "node");
                steps.passed("cluster", format!("{address}: Ray {}, {nodes}, {gpus} GPUs", found.version));
            }
            Err(error) => {
                let error = CommandError::from(error);
                steps.noted("cluster", format!("{address} is passed over: {}", error.chain.join(": ")));
                trouble = Some(error);
            }
        }
    }
    if let (0, Some(error)) = (answers, trouble) {
        return Err(("cluster", error));
    }
    if no_job {
        steps.noted("test job", "not sent");
        return Ok(());
    }
    let mut errand = Errand::new(context, target);
    let pipe = errand.pipe().map_err(|error| ("agent", error.into()))?;
    let mut failed = None;
    steps.now("test job", "sent to every node");
    let asked = site::inspect(pipe, &mut |node, seen| match seen {
        Ok(seen) => {
            let gpus = match (&seen.gpus[..], &seen.no_gpus) {
                ([], Some(why)) => why.clone(),
                ([], None) => "no GPU".to_owned(),
                (gpus, _) => gpus.join(", "),
            };
            let (cpus, memory) = (amount(node, "CPU"), format_size(amount(node, "memory") as u64));
            let declared = format!("declared: {cpus} CPUs, {} GPUs, {memory}", amount(node, "GPU"));
            let free = format!("{} free in {}", format_size(seen.depot.free), seen.depot.path);
            steps.passed("node", format!("{} ({}): {declared}; seen: {gpus}; {free}", node.name, node.ip));
        }
        Err(error) => {
            let error = CommandError::from(error);
            let message = format!("{} ({}): {}", node.name, node.ip, error.chain.join(": "));
            failed = Some(CommandError::new(Exit::Refused, message));
        }
    });
    asked.map_err(|error| ("test job", CommandError::from(error)))?;
    failed.map_or(Ok(()), |error| Err(("test job", error)))
}

/// Says what a target that is about to be written down leads to; fails when none of its clusters answers.
pub(super) fn greet(context: &Context, name: &str, keys: &[String]) -> Result<(), CommandError> {
    let layer = Layer { name: format!("targets.{name}"), text: format!("[targets.{name}]\n{}\n", keys.join("\n")) };
    let config = spec::load(&[layer], &[], "")?.config;
    let Some(target) = config.targets.get(name) else { return Ok(()) };
    let mut trouble = None;
    for (address, found) in site::overview(target) {
        match found {
            Ok(found) => {
                let gpus: f64 = found.nodes.iter().map(|node| amount(node, "GPU")).sum();
                let nodes = plural(found.nodes.len(), "node");
                context.printer.say(&format!("{address}: Ray {}, {nodes}, {gpus} GPUs", found.version));
                return Ok(());
            }
            Err(error) => trouble = Some(error),
        }
    }
    trouble.map_or(Ok(()), |error| Err(error.into()))
}

fn amount(node: &Node, resource: &str) -> f64 {
    node.resources.get(resource).copied().unwrap_or(0.0)
}
