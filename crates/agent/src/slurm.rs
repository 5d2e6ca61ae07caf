//! A SLURM job, seen from inside.

use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use trainyard_core::spec::ResumeBy;
use trainyard_core::time::{Instant, Span};

use crate::disk::{Durability, now, read_json, replace_json};
use crate::lessor::Lessor;
use crate::order::Lease;
use crate::process::run_limited;

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
    pub(crate) group: u32,
    /// When this agent began.
    pub(crate) began: Instant,
}

impl Slurm {
    /// What `scontrol` and `scancel` call this job; an array's task by its place in the array, since its own number
    /// may be the whole array's.
    fn id() -> Option<String> {
        match (variable("SLURM_ARRAY_JOB_ID"), variable("SLURM_ARRAY_TASK_ID")) {
            (Some(array), Some(task)) => Some(format!("{array}_{task}")),
            _ => variable("SLURM_JOB_ID"),
        }
    }

    fn successor_file(&self) -> PathBuf {
        self.folder.join(format!("successor-{}.json", self.group))
    }

    /// Submits the same script for this group alone.
    fn submit(&self, after: Option<&str>) -> io::Result<String> {
        let mut command = Command::new("sbatch");
        command.arg("--parsable").arg(format!("--array={}", self.group));
        command.args(after.map(|id| format!("--dependency=afterany:{id}")));
        command.arg(self.folder.join("job.sh"));
        let text = ask(command)?;
        let id = text.lines().rev().find_map(|line| line.trim().split(';').next()?.parse::<u64>().ok());
        id.map(|id| id.to_string()).ok_or_else(|| io::Error::other(format!("sbatch gave no job number: {text}")))
    }

    fn cancel_pending(&self, id: &str) -> io::Result<()> {
        let mut command = Command::new("scancel");
        command.arg("--state=PENDING").arg(format!("--name={}", self.name)).arg(id);
        ask(command).map(drop)
    }
}

impl Lessor for Slurm {
    fn lease(&self) -> Lease {
        let told = variable("SLURM_JOB_END_TIME").and_then(|text| text.parse::<i64>().ok());
        let ends = told.map(|seconds| Instant(seconds.saturating_mul(1000))).or_else(|| {
            let mut command = Command::new("squeue");
            command.args(["-h", "-o", "%L", "-j"]).arg(Self::id()?);
            let left = ask(command).ok().and_then(|text| time_left(text.trim()))?;
            Some(now() + left)
        });
        Lease { ends: ends.or_else(|| Some(self.began + self.limit?)), notice: self.notice }
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
        let Some(id) = Self::id() else { return Err(io::Error::other("not in a SLURM job")) };
        // Begun before by the same job, if SLURM restarted it against our wish.
        let known = read_json::<(String, String)>(&self.successor_file());
        if known.is_some_and(|(of, _)| of == id) {
            return Ok(());
        }
        let successor = self.submit(Some(&id))?;
        replace_json(&self.successor_file(), &(id, successor), Durability::Synced)
    }

    fn go_on(&mut self) -> io::Result<()> {
        if self.by != ResumeBy::Requeue {
            return Ok(());
        }
        let Some(id) = Self::id() else { return Err(io::Error::other("not in a SLURM job")) };
        let mut command = Command::new("scontrol");
        command.args(["requeue", &id]);
        match ask(command) {
            // SLURM now ends this job, and with it this agent.
            Ok(_) => Ok(()),
            // The site does not allow it after all.
            Err(_) => self.submit(None).map(drop),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        match self.by {
            ResumeBy::Requeue => Ok(()),
            ResumeBy::Array => variable("SLURM_ARRAY_JOB_ID").map_or(Ok(()), |id| self.cancel_pending(&id)),
            ResumeBy::Chain => match read_json::<(String, String)>(&self.successor_file()) {
                Some((_, successor)) => self.cancel_pending(&successor),
                None => Ok(()),
            },
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// What the command printed, or what it complained about. Settings for `sbatch` in the environment are not ours.
fn ask(mut command: Command) -> io::Result<String> {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SBATCH_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    let output = run_limited(command, PATIENCE)?;
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
