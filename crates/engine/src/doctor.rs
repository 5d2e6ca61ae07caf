//! Looking whether everything is in order, before a long training finds out.

use std::path::Path;

use trainyard_core::plan::slots::Capacity;

use crate::home::Home;
use crate::ledger::Ledger;
use crate::yardmaster::Lock;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub what: &'static str,
    pub health: Health,
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    Good,
    /// Works, but somebody may wish to know.
    Remark,
    Bad,
}

/// Less room than this is worth a remark.
const LITTLE_SPACE: u64 = 10_000_000_000;

pub fn examine(home: &Home, capacity: &Capacity) -> Vec<Finding> {
    vec![folder(home), ledger(home), yardmaster(home), space(home.depot().root()), machine(capacity), gpus(capacity)]
}

fn finding(what: &'static str, health: Health, detail: impl Into<String>) -> Finding {
    Finding { what, health, detail: detail.into() }
}

fn folder(home: &Home) -> Finding {
    match home.prepare() {
        Ok(()) if is_network_disk(home.state()) => finding(
            "home",
            Health::Bad,
            format!("{} is on a network disk, where the ledger is not safe", home.state().display()),
        ),
        Ok(()) => finding("home", Health::Good, home.state().display().to_string()),
        Err(error) => finding("home", Health::Bad, format!("{}: {}", error.path.display(), error.source)),
    }
}

/// SQLite's WAL needs shared memory, which no network file system has.
fn is_network_disk(path: &Path) -> bool {
    // From <linux/magic.h>: NFS, SMB, SMB2, CEPH, Lustre.
    const NETWORK: [u64; 5] = [0x6969, 0x517b, 0xfe53_4d42, 0x00c3_6400, 0x0bd0_0bd0];
    rustix::fs::statfs(path).is_ok_and(|data| u64::try_from(data.f_type).is_ok_and(|kind| NETWORK.contains(&kind)))
}

fn ledger(home: &Home) -> Finding {
    match Ledger::open(&home.ledger()).and_then(|ledger| Ok((ledger.check()?, ledger.open_count()?))) {
        Ok((said, open)) if said == "ok" => finding("ledger", Health::Good, format!("sound, {open} open runs")),
        Ok((said, _)) => finding("ledger", Health::Bad, said),
        Err(error) => finding("ledger", Health::Bad, error.to_string()),
    }
}

fn yardmaster(home: &Home) -> Finding {
    match Lock::take(home) {
        Ok(_) => finding("yardmaster", Health::Good, "not needed now"),
        Err(crate::yardmaster::LockError::Taken) => finding("yardmaster", Health::Good, "at work"),
        Err(error) => finding("yardmaster", Health::Bad, error.to_string()),
    }
}

fn space(depot: &Path) -> Finding {
    let there = depot.ancestors().find(|path| path.exists()).unwrap_or(depot);
    match rustix::fs::statvfs(there) {
        Ok(data) => {
            let free = data.f_bavail.saturating_mul(data.f_frsize);
            let health = if free < LITTLE_SPACE { Health::Remark } else { Health::Good };
            finding("depot", health, format!("{}, {} GB free", depot.display(), free / 1_000_000_000))
        }
        Err(error) => finding("depot", Health::Bad, error.to_string()),
    }
}

fn machine(capacity: &Capacity) -> Finding {
    let memory = capacity.memory / 1_000_000_000;
    finding("machine", Health::Good, format!("{} CPUs, {memory} GB of memory", capacity.cpus))
}

fn gpus(capacity: &Capacity) -> Finding {
    match capacity.gpus.len() {
        0 => finding("gpus", Health::Remark, "none found by nvidia-smi, none declared in `targets.local.gpus`"),
        count => finding("gpus", Health::Good, format!("{count}: {}", capacity.gpus.join(", "))),
    }
}
