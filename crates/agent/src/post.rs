//! Hands a parcel to SLURM at the login node: once, however often it is asked.
//!
//! `sbatch` knows no idempotency. What was begun and what was answered lie beside the script, and SLURM is asked for the
//! job's name before anything is submitted again.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use trainyard_core::id::Digest;
use trainyard_core::plan::slurm;
use trainyard_core::time::Instant;

use crate::depot::Depot;
use crate::disk::{Durability, now, read_json, replace_json};
use crate::process::{run_limited, run_limited_with};

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Posted {
    /// SLURM has it.
    Job { id: u32, at: Instant },
    /// It would say so again.
    Refused { why: String },
    /// Nothing arrived.
    Unreachable { why: String },
    /// It may have arrived: to be asked again.
    Unsure { why: String },
}

/// Whoever sent the parcel was sure of it; somebody has cleaned the depot since.
pub const NO_CODE: &str = "the code of the run is no longer at the site; `yard run` sends it again";

const PATIENCE: Duration = Duration::from_secs(60);
/// An `sbatch` that somebody began and nobody saw the end of has given up by then.
const IN_FLIGHT: Duration = Duration::from_secs(75);
const AGAIN: Duration = Duration::from_secs(2);

/// `secrets` go into the job's environment by way of `sbatch`'s own, and nowhere else.
pub fn post(
    depot: &Depot,
    parcel: &str,
    name: &str,
    snapshot: Option<&Digest>,
    secrets: &BTreeMap<String, String>,
) -> io::Result<Posted> {
    let folder = depot.parcel(parcel);
    let (posted, posting) = (folder.join("posted.json"), folder.join("posting"));
    if let Some(known) = read_json::<Posted>(&posted) {
        return Ok(known);
    }
    if snapshot.is_some_and(|digest| !depot.snapshot(digest).exists()) {
        return Ok(Posted::Refused { why: NO_CODE.to_owned() });
    }
    if !begin(&posting)? {
        if let Some(found) = find_begun(&posting, name)? {
            return found.keep(&posted);
        }
        // Nobody has it, and nobody is about to.
        fs_err::write(&posting, "")?;
    }
    let outcome = submit(&folder.join("job.sh"), secrets)?;
    match &outcome {
        Posted::Job { .. } => return outcome.keep(&posted),
        Posted::Refused { .. } | Posted::Unreachable { .. } => fs_err::remove_file(&posting)?,
        Posted::Unsure { .. } => {}
    }
    Ok(outcome)
}

impl Posted {
    fn keep(self, path: &Path) -> io::Result<Self> {
        if matches!(self, Self::Job { .. }) {
            replace_json(path, &self, Durability::Synced)?;
        }
        Ok(self)
    }
}

/// False when somebody began before.
fn begin(posting: &PathBuf) -> io::Result<bool> {
    match std::fs::File::options().write(true).create_new(true).open(posting) {
        Ok(file) => file.sync_all().map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// `None` when it is certain that what was begun came to nothing.
fn find_begun(posting: &Path, name: &str) -> io::Result<Option<Posted>> {
    loop {
        match find(name) {
            Ok(Some(id)) => return Ok(Some(Posted::Job { id, at: now() })),
            Ok(None) => {}
            Err(error) => return Ok(Some(Posted::Unsure { why: error.to_string() })),
        }
        let age = std::fs::metadata(posting)?.modified()?;
        if SystemTime::now().duration_since(age).is_ok_and(|age| age >= IN_FLIGHT) {
            return Ok(None);
        }
        std::thread::sleep(AGAIN);
    }
}

/// The number of the job of this name, if SLURM knows one: in its queue, or in its books where it keeps any.
pub fn find(name: &str) -> io::Result<Option<u32>> {
    let words = ["squeue", "--me", "-h", "-t", "all", "-o", "%F", "-n", name];
    let listed = ask(&words.map(str::to_owned))?;
    let first = |text: &str| text.lines().find_map(|line| line.trim().split('_').next()?.parse().ok());
    if let Some(id) = first(&listed) {
        return Ok(Some(id));
    }
    let words = ["sacct", "-X", "-P", "-n", "-S", "now-7days", "-o", "JobID", &format!("--name={name}")];
    // A site without accounting has no books to look into.
    Ok(ask(&words.map(str::to_owned)).ok().and_then(|text| first(&text)))
}

fn submit(script: &Path, secrets: &BTreeMap<String, String>) -> io::Result<Posted> {
    let output = match run_limited_with(&slurm::submit(&script.to_string_lossy()), secrets, PATIENCE) {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(Posted::Unsure { why: error.to_string() }),
        ran => ran?,
    };
    let id = slurm::parse_submitted(&String::from_utf8_lossy(&output.stdout));
    if let Some(id) = id.filter(|_| output.status.success()) {
        return Ok(Posted::Job { id, at: now() });
    }
    Ok(judge(&complaint(&output.stderr)))
}

/// What `sbatch` said, without its own name before every line.
fn complaint(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines = text.lines().map(|line| line.trim_start_matches("sbatch: ").trim_start_matches("error: ").trim());
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

fn judge(why: &str) -> Posted {
    let why = why.to_owned();
    // What the controller may have heard before the connection broke is for the next question to find out.
    if ["Socket timed out", "Zero Bytes were transmitted", "Unexpected message", "Connection reset"]
        .iter()
        .any(|it| why.contains(it))
    {
        Posted::Unsure { why }
    } else if ["Unable to contact", "connect failure", "Connection refused", "temporarily", "backup controller"]
        .iter()
        .any(|it| why.contains(it))
    {
        Posted::Unreachable { why }
    } else {
        Posted::Refused { why }
    }
}

fn ask(argv: &[String]) -> io::Result<String> {
    let output = run_limited(argv, PATIENCE)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(io::Error::other(complaint(&output.stderr)))
}
