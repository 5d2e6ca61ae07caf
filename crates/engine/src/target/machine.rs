//! What this machine has: CPUs, memory, GPUs.

use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use trainyard_core::plan::slots::Capacity;
use trainyard_core::spec::{GpuLimit, Limits};

/// What the target's settings say about the machine; the rest is looked up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declared {
    pub cpus: Option<u32>,
    pub memory: Option<u64>,
    pub gpus: Option<Vec<String>>,
}

impl Declared {
    pub fn of(limits: &Limits) -> Self {
        let gpus = limits.gpus.as_ref().map(|gpus| match gpus {
            GpuLimit::Count(count) => (0..*count).map(|device| device.to_string()).collect(),
            GpuLimit::Devices(names) => names.clone(),
        });
        Self { cpus: limits.cpus, memory: limits.memory, gpus }
    }
}

/// A driver that hangs must not hang the yard.
const PATIENCE: Duration = Duration::from_secs(20);

pub async fn capacity(declared: &Declared) -> Capacity {
    let cpus = std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX));
    let gpus = match &declared.gpus {
        Some(gpus) => gpus.clone(),
        None => nvidia_gpus().await,
    };
    Capacity {
        cpus: declared.cpus.unwrap_or(cpus),
        memory: declared.memory.or_else(total_memory).unwrap_or(u64::MAX),
        gpus,
    }
}

fn total_memory() -> Option<u64> {
    let text = fs_err::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok()? * 1024)
}

/// Indices as `nvidia-smi` lists them; none when it is absent or does not answer.
async fn nvidia_gpus() -> Vec<String> {
    let mut command = tokio::process::Command::new("nvidia-smi");
    command.args(["--query-gpu=index", "--format=csv,noheader"]);
    command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    match tokio::time::timeout(PATIENCE, command.output()).await {
        Ok(Ok(output)) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.lines().map(|line| line.trim().to_owned()).filter(|line| line.parse::<u32>().is_ok()).collect()
        }
        _ => Vec::new(),
    }
}
