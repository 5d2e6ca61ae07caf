//! A SLURM job, seen from inside.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use trainyard_core::plan::slurm::{self, Task};
use trainyard_core::spec::ResumeBy;
use trainyard_core::time::{Instant, Span};

use crate::disk::{Durability, now, read_json, replace, replace_json};
use crate::lessor::Lessor;
use crate::order::{Lease, Told};
use crate::program::{run_limited, run_limited_without};

/// A controller that does not answer makes its clients wait for some ten seconds.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Slurm {
    pub(crate) name: String,
    pub(crate) by: ResumeBy,
    pub(crate) limit: Option<Span>,
    pub(crate) notice: Span,
    /// Where the script and what is known of successors lie.
    pub(crate) folder: PathBuf,
    pub(crate) script: String,
    pub(crate) group: u32,
    /// When this agent began.
    pub(crate) began: Instant,
}

/// What goes on when a job of a chain has ended.
#[derive(Debug, Serialize, Deserialize)]
struct Successor {
    of: Task,
    job: u32,
}

impl Slurm {
    /// An array's task is known by its place in the array, since its own number may be the whole array's.
    fn own() -> io::Result<Task> {
        let number = |name: &str| variable(name).and_then(|text| text.parse().ok());
        let task = match (number("SLURM_ARRAY_JOB_ID"), number("SLURM_ARRAY_TASK_ID")) {
            (Some(job), Some(index)) => Some(Task { job, index: Some(index) }),
            _ => number("SLURM_JOB_ID").map(|job| Task { job, index: None }),
        };
        task.ok_or_else(|| io::Error::other("not in a SLURM job"))
    }

    fn successor_file(&self) -> PathBuf {
        self.folder.join(format!("successor-{}.json", self.group))
    }

    /// The file beside the parcel is not promised to survive a power cut; what the parcel says is.
    fn script(&self) -> io::Result<String> {
        let path = self.folder.join("job.sh");
        if std::fs::read(&path).ok().as_deref() != Some(self.script.as_bytes()) {
            replace(&path, self.script.as_bytes(), Durability::Synced)?;
        }
        Ok(path.to_string_lossy().into_owned())
    }

    fn succeed(&self, own: Task) -> io::Result<u32> {
        let argv = slurm::successor(&self.script()?, own);
        let text = answer(run_limited_without(&argv, &slurm::UNSET, &BTreeMap::new(), PATIENCE)?)?;
        slurm::parse_submitted(&text).ok_or_else(|| io::Error::other(format!("sbatch gave no job number: {text}")))
    }

    /// Waiting tasks only; this job's own may be among the running ones.
    fn cancel_pending(&self, job: u32) -> io::Result<()> {
        let words = ["scancel", "--state=PENDING", &format!("--name={}", self.name), &job.to_string()];
        ask(&words.map(str::to_owned)).map(drop)
    }
}

impl Lessor for Slurm {
    fn lease(&self) -> Lease {
        let told = variable("SLURM_JOB_END_TIME").and_then(|text| text.parse::<i64>().ok());
        let ends = told.map(|seconds| Instant(seconds.saturating_mul(1000))).or_else(|| {
            let words = ["squeue", "-h", "-o", "%L", "-j", &Self::own().ok()?.to_string()];
            let left = ask(&words.map(str::to_owned)).ok().and_then(|text| time_left(text.trim()))?;
            Some(now() + left)
        });
        Lease { ends: ends.or_else(|| Some(self.began + self.limit?)), notice: self.notice, told: Told::ToLeave }
    }

    fn devices(&self) -> Option<Vec<String>> {
        let names = ["CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES"];
        let text = names.into_iter().find_map(variable)?;
        Some(text.split(',').map(|device| device.trim().to_owned()).collect())
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.by != ResumeBy::Chain {
            return Ok(());
        }
        let own = Self::own()?;
        // Begun before by the same job, if SLURM restarted it against our wish.
        let known = read_json::<Successor>(&self.successor_file());
        if known.is_some_and(|known| known.of == own) {
            return Ok(());
        }
        let job = self.succeed(own)?;
        replace_json(&self.successor_file(), &Successor { of: own, job }, Durability::Synced)
    }

    fn go_on(&mut self) -> io::Result<()> {
        if self.by != ResumeBy::Requeue {
            return Ok(());
        }
        let own = Self::own()?;
        match ask(&slurm::requeue(own)) {
            // SLURM now ends this job, and with it this agent.
            Ok(_) => Ok(()),
            // The site does not allow it after all.
            Err(_) => self.succeed(own).map(drop),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        match self.by {
            ResumeBy::Requeue => Ok(()),
            ResumeBy::Array => self.cancel_pending(Self::own()?.job),
            ResumeBy::Chain => match read_json::<Successor>(&self.successor_file()) {
                Some(successor) => self.cancel_pending(successor.job),
                None => Ok(()),
            },
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// What the command printed, or what it complained about.
fn ask(argv: &[String]) -> io::Result<String> {
    answer(run_limited(argv, PATIENCE)?)
}

fn answer(output: Output) -> io::Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io::Error::other(if complaint.is_empty() { output.status.to_string() } else { complaint }))
}

/// `[D-]HH:MM:SS` or `MM:SS`; `None` for `UNLIMITED` and whatever else stands there.
fn time_left(text: &str) -> Option<Span> {
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let days: u64 = days.parse().ok()?;
    let mut seconds = 0_u64;
    let parts: Vec<&str> = clock.split(':').collect();
    if !(2..=3).contains(&parts.len()) {
        return None;
    }
    for part in parts {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    Some(Span::seconds(days.checked_mul(86_400)?.checked_add(seconds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_in_all_its_forms() {
        assert_eq!(time_left("1-02:03:04"), Some(Span::seconds(93_784)));
        assert_eq!(time_left("23:00:00"), Some(Span::seconds(82_800)));
        assert_eq!(time_left("0:57"), Some(Span::seconds(57)));
        for odd in ["UNLIMITED", "INVALID", "NOT_SET", "", "1:2:3:4", "x-1:00"] {
            assert_eq!(time_left(odd), None, "{odd}");
        }
    }
}
