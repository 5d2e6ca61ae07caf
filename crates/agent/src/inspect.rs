//! What one machine is like for those who want to run something on it, seen from a depot: the login node when somebody
//! connects, a compute node when it is called from a job.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::depot::Depot;
use crate::disk::remove_folder;
use crate::program::run_limited;
use crate::work;

/// A driver that hangs is as good as none.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspection {
    pub host: String,
    /// `Linux 6.1.0 x86_64`
    pub system: String,
    /// Cores this process may use.
    pub cpus: usize,
    pub depot: Disk,
    /// Why nothing can be written to the depot.
    pub unwritable: Option<String>,
    /// The node's own disk for temporary files.
    pub scratch: Disk,
    /// One line for each, as the driver tells.
    pub gpus: Vec<String>,
    /// Why there is no line.
    pub no_gpus: Option<String>,
    /// Container runtimes and their versions.
    pub containers: BTreeMap<String, String>,
    /// Why working folders cannot be overlays of the depot's trees.
    pub no_overlay: Option<String>,
    /// Runtimes that were given an image to open: nothing, or why they did not.
    #[serde(default)]
    pub opened: BTreeMap<String, Option<String>>,
    /// What the file said that was to be handed back.
    pub proof: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    pub path: String,
    /// `nfs`, `ext4`, …, or its number.
    pub kind: String,
    /// Whether other machines see it too; `None` where the kind does not tell.
    pub is_shared: Option<bool>,
    /// Bytes for us.
    pub free: u64,
}

/// In an image that is to be tried, and the status it ends with.
pub const TRIAL_PROGRAM: &str = "/check";
pub const TRIAL: i32 = 42;
/// Small, but the first one on a node may have to wait for much.
const OPENING: Duration = Duration::from_secs(50);

/// Leaves nothing behind. An image that lies beside the proof is tried.
pub fn inspect(depot: &Depot, proof: Option<&Path>) -> Inspection {
    let name = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let (gpus, no_gpus) = match gpus() {
        Ok(gpus) => (gpus, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let (unwritable, no_overlay) = try_out(depot);
    let scratch = std::env::var("TMPDIR").ok().filter(|path| Path::new(path).is_dir());
    let containers = containers();
    let image = proof.map(|path| path.with_extension("sif")).filter(|path| path.is_file());
    let opened = image.map(|image| open(&image, &containers)).unwrap_or_default();
    Inspection {
        opened,
        host: text(name.nodename()),
        system: [name.sysname(), name.release(), name.machine()].map(text).join(" "),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        depot: disk(depot.root()),
        unwritable,
        scratch: disk(Path::new(scratch.as_deref().unwrap_or("/tmp"))),
        gpus,
        no_gpus,
        containers,
        no_overlay,
        proof: proof.and_then(|path| std::fs::read_to_string(path).ok()),
    }
}

fn disk(path: &Path) -> Disk {
    let free = rustix::fs::statvfs(path).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
    let number = rustix::fs::statfs(path).map_or(0, |stat| u64::try_from(stat.f_type).unwrap_or(0) & 0xffff_ffff);
    let known = KINDS.iter().find(|(magic, ..)| *magic == number);
    let kind = known.map_or_else(|| format!("{number:#x}"), |(_, name, _)| (*name).to_owned());
    let is_shared = known.and_then(|(.., is_shared)| *is_shared);
    Disk { path: path.display().to_string(), kind, is_shared, free }
}

/// `statfs(2)`, and the sources of those that are not in the kernel.
const KINDS: [(u64, &str, Option<bool>); 16] = [
    (0x6969, "nfs", Some(true)),
    (0x0bd0_0bd0, "lustre", Some(true)),
    (0x4750_4653, "gpfs", Some(true)),
    (0x1983_0326, "beegfs", Some(true)),
    (0x00c3_6400, "ceph", Some(true)),
    (0xff53_4d42, "cifs", Some(true)),
    (0xfe53_4d42, "smb", Some(true)),
    (0x6b41_4653, "afs", Some(true)),
    (0x0102_1994, "tmpfs", Some(false)),
    (0x8584_58f6, "ramfs", Some(false)),
    (0xef53, "ext4", None),
    (0x5846_5342, "xfs", None),
    (0x9123_683e, "btrfs", None),
    (0x2fc1_2fc1, "zfs", None),
    (0x794c_7630, "overlay", None),
    (0x6573_5546, "fuse", None),
];

/// Why nothing can be written there, and why nothing can be mounted.
fn try_out(depot: &Depot) -> (Option<String>, Option<String>) {
    let name = rustix::system::uname();
    let host = name.nodename().to_string_lossy();
    let folder = depot.root().join(format!("inspect-{host}-{}", std::process::id()));
    let made = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(folder.join("file"), "x"));
    let unwritable = made.err().map(|error| error.to_string());
    let no_overlay = match unwritable {
        None => work::try_out(&folder).err().map(|error| error.to_string()),
        Some(_) => Some("the depot cannot be written to".to_owned()),
    };
    // One that could not be made need not be removed.
    drop(remove_folder(&folder));
    (unwritable, no_overlay)
}

fn gpus() -> Result<Vec<String>, String> {
    let words = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"];
    match run_limited(&words.map(str::to_owned), PATIENCE) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err("there is no `nvidia-smi`".to_owned()),
        Err(error) => Err(format!("`nvidia-smi`: {error}")),
        Ok(ran) => {
            let text = String::from_utf8_lossy(&ran.stdout).into_owned();
            let lines: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
            match ran.status.success() && !lines.is_empty() {
                true => Ok(lines),
                false => Err(format!("`nvidia-smi` says: {}", text.lines().next().unwrap_or("nothing").trim())),
            }
        }
    }
}

fn open(image: &Path, containers: &BTreeMap<String, String>) -> BTreeMap<String, Option<String>> {
    let image = std::path::absolute(image).unwrap_or_else(|_| image.to_owned());
    let tried = ["apptainer", "singularity"].into_iter().filter(|name| containers.contains_key(*name));
    let open = |name: &str| {
        let words = [name, "exec", &image.to_string_lossy(), TRIAL_PROGRAM].map(str::to_owned);
        let why = match run_limited(&words, OPENING) {
            Ok(ran) if ran.status.code() == Some(TRIAL) => None,
            Ok(ran) => {
                let said = String::from_utf8_lossy(&ran.stderr).into_owned();
                let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing").trim().to_owned();
                Some(format!("it ended with {} and said: {last}", ran.status))
            }
            Err(error) => Some(error.to_string()),
        };
        (name.to_owned(), why)
    };
    tried.map(open).collect()
}

fn containers() -> BTreeMap<String, String> {
    let known = [
        ("apptainer", "--version"),
        ("singularity", "--version"),
        ("enroot", "version"),
        ("podman", "--version"),
        ("docker", "--version"),
    ];
    let version = |(name, word): (&str, &str)| {
        let ran = run_limited(&[name.to_owned(), word.to_owned()], PATIENCE).ok().filter(|ran| ran.status.success())?;
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        let number = text.split([' ', ',', '\n']).find(|part| part.starts_with(|first: char| first.is_ascii_digit()));
        Some((name.to_owned(), number.unwrap_or("?").to_owned()))
    };
    known.into_iter().filter_map(version).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_depot_is_looked_at_and_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let depot = Depot::new(folder.path());
        let seen = inspect(&depot, Some(Path::new("/proc/self/comm")));
        assert_eq!(seen.unwritable, None);
        assert!(seen.depot.free > 0 && !seen.host.is_empty() && seen.proof.is_some(), "{seen:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_depot_that_cannot_be_written_to_says_why() {
        let seen = inspect(&Depot::new("/proc/nowhere"), None);
        assert!(seen.unwritable.is_some_and(|why| !why.is_empty()));
    }
}
