//! Hands a parcel to SLURM at the login node: once, however often it is asked.
//!
//! `sbatch` knows no idempotency. `parcel.json` is on the disk before it is called, under its name only if nobody else
//! has begun; what SLURM answered lies beside it; and SLURM is asked for the job's name before anything is submitted
//! again.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use trainyard_core::id::Digest;
use trainyard_core::plan::slurm;
use trainyard_core::time::Instant;

use crate::depot::Depot;
use crate::disk::{Durability, now, read_json, replace, replace_json};
use crate::order::Secrets;
use crate::parcel::is_id;
use crate::program::{run_limited, run_limited_without};

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

/// A parcel on its way.
#[derive(Debug, Clone, Copy)]
pub struct Letter<'a> {
    pub parcel: &'a str,
    /// SLURM's name of it.
    pub name: &'a str,
    /// Must be in the depot.
    pub snapshot: Option<&'a Digest>,
    /// `parcel.json`
    pub text: &'a [u8],
    /// `job.sh`
    pub script: &'a [u8],
}

/// `secrets` go into the job's environment by way of `sbatch`'s own, and nowhere else. What SLURM answered is safe
/// against the end of any process; [`sync_answer`] makes it safe against a power cut.
pub fn post(depot: &Depot, letter: &Letter<'_>, secrets: &Secrets) -> io::Result<Posted> {
    if !is_id(letter.parcel) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{}` is no parcel", letter.parcel)));
    }
    let folder = depot.parcel(letter.parcel);
    if let Some(known) = read_json::<Posted>(&answer(&folder)) {
        return Ok(known);
    }
    if letter.snapshot.is_some_and(|digest| !depot.snapshot(digest).exists()) {
        return Ok(Posted::Refused { why: NO_CODE.to_owned() });
    }
    let parcel = folder.join("parcel.json");
    fs_err::create_dir_all(&folder)?;
    if !begin(&parcel, letter.text)? {
        if let Some(found) = find_begun(&parcel, letter.name)? {
            return found.keep(&folder);
        }
        // Nobody has it, and nobody is about to.
        replace(&parcel, letter.text, Durability::Synced)?;
    }
    let script = folder.join("job.sh");
    if let Err(error) = replace(&script, letter.script, Durability::Cached) {
        drop(fs_err::remove_dir_all(&folder));
        return Err(error);
    }
    let outcome = submit(&script, secrets)?;
    match outcome {
        Posted::Job { .. } => return outcome.keep(&folder),
        Posted::Refused { .. } | Posted::Unreachable { .. } => fs_err::remove_dir_all(&folder)?,
        Posted::Unsure { .. } => {}
    }
    Ok(outcome)
}

/// What SLURM answered is on the disk when this returns. Whoever waits for the answer need not wait for that: without
/// it the job is found by its name, as it has to be after a power cut a moment earlier.
pub fn sync_answer(depot: &Depot, parcel: &str) {
    if let Ok(file) = File::open(answer(&depot.parcel(parcel))) {
        drop(file.sync_all());
    }
}

fn answer(folder: &Path) -> std::path::PathBuf {
    folder.join("posted.json")
}

impl Posted {
    fn keep(self, folder: &Path) -> io::Result<Self> {
        if matches!(self, Self::Job { .. }) {
            replace_json(&answer(folder), &self, Durability::Cached)?;
        }
        Ok(self)
    }
}

/// False when somebody began before. The file is on the disk, name and contents, when this returns; one that is torn
/// by a power cut shows that `sbatch` was not called, or will be found out like any other.
fn begin(parcel: &Path, text: &[u8]) -> io::Result<bool> {
    let mut file = match fs_err::OpenOptions::new().write(true).create_new(true).open(parcel) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        opened => opened?,
    };
    let written = file.write_all(text).and_then(|()| file.sync_all());
    if written.is_err() {
        // A full disk; the first error says more than a failed tidy-up would.
        drop(fs_err::remove_file(parcel));
    }
    written.map(|()| true)
}

/// `None` when it is certain that what was begun came to nothing.
fn find_begun(parcel: &Path, name: &str) -> io::Result<Option<Posted>> {
    loop {
        match find(name) {
            Ok(Some(id)) => return Ok(Some(Posted::Job { id, at: now() })),
            Ok(None) => {}
            Err(error) => return Ok(Some(Posted::Unsure { why: error.to_string() })),
        }
        let age = std::fs::metadata(parcel)?.modified()?;
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

fn submit(script: &Path, secrets: &Secrets) -> io::Result<Posted> {
    let argv = slurm::submit(&script.to_string_lossy());
    let output = match run_limited_without(&argv, &slurm::UNSET, &secrets.0, PATIENCE) {
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
