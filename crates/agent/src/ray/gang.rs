//! Runs of a group that start together on a Ray cluster: one Ray job holds places for all of them.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::prepare;
use crate::depot::Depot;

/// The variable with the list of [`Seat`]s.
pub const GANG: &str = "YARD_GANG";
const SCRIPT: &str = include_str!("gang.py");

/// What one run needs, and how its agent is started there.
#[derive(Debug, Clone, Serialize)]
pub struct Seat {
    pub group: u32,
    pub command: String,
    pub cpus: f64,
    pub gpus: f64,
    pub memory: Option<u64>,
    pub resources: BTreeMap<String, f64>,
}

/// What the job says of its runs, by their groups, in the depot of its own node.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Seating {
    pub nodes: BTreeMap<u32, String>,
    pub ended: BTreeMap<u32, i32>,
    pub lost: BTreeMap<u32, String>,
}

/// Where that lies in the depot.
pub fn seating_name(parcel: &str) -> String {
    format!("parcels/{parcel}/gang.json")
}

/// Becomes the program that holds the places.
pub fn lead(depot: &Depot, agent: &str, parcel: &str) -> io::Result<i32> {
    prepare(depot, agent)?;
    let mut command = Command::new(python());
    command.args(["-c", SCRIPT]).arg(depot.root().join(seating_name(parcel)));
    Err(command.exec())
}

/// The Python that Ray itself runs on is told by the daemon that starts its workers, somewhere above us.
fn python() -> String {
    let mut pid = std::process::id();
    while pid > 1 {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        let worker = words.split('\0').find_map(|word| word.strip_prefix("--python_worker_command="));
        if let Some(python) = worker.and_then(|line| line.split_whitespace().next()) {
            return python.to_owned();
        }
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        pid = parent.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    }
    "python3".to_owned()
}
