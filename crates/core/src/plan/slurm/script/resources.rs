//! Nodes, processes, cores, memory and GPUs of one allocation.

use super::{Directive, Lines, PlanError};
use crate::plan::slurm::{fit, text};
use crate::spec::{Gpus, JobSpec, MemoryRequest, SlurmSpec};
use crate::template;

const MIB: u64 = 1 << 20;

pub(super) fn put(lines: &mut Lines, job: &JobSpec, target: &SlurmSpec) -> Result<(), PlanError> {
    let lanes = fit::lanes(job);
    let tasks = job.tasks_per_node();
    let cpus = job.cpus.saturating_mul(lanes).div_ceil(tasks);
    lines.put("nodes", &job.nodes.to_string());
    lines.put("ntasks-per-node", &tasks.to_string());
    lines.put("cpus-per-task", &cpus.to_string());
    if let Some(memory) = job.memory {
        let memory = memory.saturating_mul(u64::from(lanes));
        match target.memory_request {
            MemoryRequest::Node => lines.put("mem", &format!("{}M", memory.div_ceil(MIB))),
            MemoryRequest::Cpu => {
                let cores = u64::from(cpus.saturating_mul(tasks).max(1));
                lines.put("mem-per-cpu", &format!("{}M", memory.div_ceil(MIB).div_ceil(cores)));
            }
        }
    }
    lines.0.extend(gpus(job, target)?);
    Ok(())
}

/// As the site wants to be asked; nothing if the job has none.
fn gpus(job: &JobSpec, target: &SlurmSpec) -> Result<Vec<Directive>, PlanError> {
    let gpus = match job.gpus {
        Gpus::Whole(0) => return Ok(Vec::new()),
        Gpus::Whole(gpus) => gpus,
        Gpus::Share(_) => 1,
    };
    let tasks = job.tasks_per_node();
    let values = [
        ("gpus", gpus),
        ("gpus_per_task", gpus.div_ceil(tasks)),
        ("total_gpus", gpus.saturating_mul(job.nodes)),
        ("nodes", job.nodes),
        ("tasks", job.total_tasks()),
    ];
    let filled = template::fill_from(&target.gpu_request, &values.map(|(name, value)| (name, value.to_string())))?;
    let mut options: Vec<Directive> = Vec::new();
    for word in text::words(&filled)? {
        match options.last_mut() {
            Some(Directive(words)) if !word.starts_with('-') => words.push(word),
            _ => options.push(Directive(vec![word])),
        }
    }
    Ok(options)
}
