//! The batch script: `#SBATCH` lines, the site's environment, and the agent in the shell's place.
//!
//! There is no `--signal`: the agent is the batch process, SLURM sends it SIGTERM at the limit, and it knows the
//! limit beforehand. A signal from SLURM may come a minute early, and would only cut runs short.

mod resources;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;

use std::fmt;

use thiserror::Error;

use super::facts::Facts;
use super::fit;
use super::text::{self, DirectiveError};
use crate::quote::{self, QuoteError};
use crate::spec::{JobSpec, ResumeBy, SlurmSpec};
use crate::template::TemplateError;
use crate::time::Span;

/// What a script is made from.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    pub job: &'a JobSpec,
    pub target: &'a SlurmSpec,
    pub facts: &'a Facts,
    /// SLURM's name of the job, by which it is found again.
    pub name: &'a str,
    /// Exists before the job is submitted: SLURM writes into it.
    pub parcel_folder: &'a str,
    /// Becomes the batch process; ends with `--group`, and the script adds which.
    pub agent: &'a [String],
    pub array: Array,
    pub mechanism: ResumeBy,
    /// Names of environment variables that `sbatch` is given and the job gets.
    pub secrets: &'a [String],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Array {
    /// One job, group 0.
    None,
    /// One task for each group, first and last included.
    Groups { first: u32, last: u32, at_most: Option<u32> },
    /// As many tasks one after another, all of them group 0.
    Attempts(u32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    pub directives: Vec<Directive>,
    pub body: Vec<String>,
    /// The time limit that is asked for; `None` leaves it to the partition.
    pub time: Option<Span>,
}

/// One `#SBATCH` line, unquoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive(pub Vec<String>);

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    #[error(transparent)]
    Directive(#[from] DirectiveError),
    #[error(transparent)]
    Quote(#[from] QuoteError),
    #[error("cannot fill in `gpu-request`")]
    GpuRequest(#[from] TemplateError),
    #[error("{name:?} cannot be handed to a job: it is no name of an environment variable, or one SLURM reads itself")]
    Export { name: String },
    #[error("{path:?} holds a backslash, after which SLURM reads file names differently; choose another `depot`")]
    Path { path: String },
    #[error("an array of {size} is more than the {most} the site allows{way_out}")]
    ArrayTooLarge { size: u32, most: u32, way_out: &'static str },
    #[error(
        "`resume-by = \"array\"` gives one run all tasks of an array, and here are {groups} groups of runs; \
         use `requeue` or `chain`"
    )]
    ArrayOfGroups { groups: u32 },
    #[error("{0}")]
    Conflict(String),
}

impl Wanted<'_> {
    /// Fails with what no `sbatch` could read. What the site would never run is said by [`super::refuse`].
    pub fn script(&self) -> Result<Script, PlanError> {
        if let Some(sentence) = fit::conflict(self.job, self.target) {
            return Err(PlanError::Conflict(sentence));
        }
        let time = fit::allocation_time(self.job, self.target, self.facts);
        let directives = self.directives(time)?;
        for Directive(words) in &directives {
            words.iter().try_for_each(|word| text::quoted(word).map(drop))?;
        }
        Ok(Script { directives, body: self.body()?, time })
    }

    fn directives(&self, time: Option<Span>) -> Result<Vec<Directive>, PlanError> {
        let target = self.target;
        let mut lines = Lines(Vec::new());
        lines.put("job-name", self.name);
        lines.put("chdir", self.parcel_folder);
        lines.put("output", &self.output()?);
        lines.put("open-mode", "append");
        lines.put("export", &self.export()?);
        lines.put_some("account", target.account.as_deref());
        lines.put_some("partition", target.partition.as_deref());
        lines.put_some("qos", target.qos.as_deref());
        lines.put_some("reservation", target.reservation.as_deref());
        lines.put_some("constraint", target.constraint.as_deref());
        lines.put_some("nodelist", self.job.node.as_deref());
        resources::put(&mut lines, self.job, target)?;
        lines.put_some("time", time.map(fit::time_text).as_deref());
        lines.put_some("array", self.array_text()?.as_deref());
        lines.flag(if self.is_requeued() { "requeue" } else { "no-requeue" });
        self.mail(&mut lines);
        for directive in &target.directives {
            lines.0.push(Directive(text::words(directive)?));
        }
        Ok(lines.0)
    }

    fn is_requeued(&self) -> bool {
        self.mechanism == ResumeBy::Requeue && self.job.resume.attempts > 1
    }

    fn output(&self) -> Result<String, PlanError> {
        if self.parcel_folder.contains('\\') {
            return Err(PlanError::Path { path: self.parcel_folder.to_owned() });
        }
        let name = if self.array == Array::None { "slurm-%j.out" } else { "slurm-%A_%a.out" };
        Ok(format!("{}/{name}", self.parcel_folder.replace('%', "%%")))
    }

    /// Never `ALL`: what happens to be set at the login node is not part of a run. SLURM adds HOME, PATH and the
    /// like of a login on the node itself.
    fn export(&self) -> Result<String, PlanError> {
        if self.secrets.is_empty() {
            return Ok("NONE".to_owned());
        }
        let is_name = |name: &String| {
            let fits = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            let begins = !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty();
            fits && begins && !["ALL", "NONE", "NIL"].iter().any(|word| name.eq_ignore_ascii_case(word))
        };
        match self.secrets.iter().find(|name| !is_name(name)) {
            Some(name) => Err(PlanError::Export { name: name.clone() }),
            None => Ok(self.secrets.join(",")),
        }
    }

    fn array_text(&self) -> Result<Option<String>, PlanError> {
        let most = self.facts.array_size();
        let (last, text, way_out) = match self.array {
            Array::None => return Ok(None),
            Array::Groups { first, last, at_most } => {
                let at_most = at_most.map(|most| format!("%{most}")).unwrap_or_default();
                (last, format!("{first}-{last}{at_most}"), "")
            }
            Array::Attempts(attempts) => {
                let last = attempts.saturating_sub(1);
                (last, format!("0-{last}%1"), "; lower `resume.attempts`, or set `resume-by` to `requeue` or `chain`")
            }
        };
        match last.saturating_add(1) {
            size if size > most => Err(PlanError::ArrayTooLarge { size, most, way_out }),
            _ => Ok(Some(text)),
        }
    }

    fn mail(&self, lines: &mut Lines) {
        let target = self.target;
        if target.mail.is_none() && target.mail_type.is_empty() {
            return;
        }
        let types = if target.mail_type.is_empty() { "END,FAIL".to_owned() } else { target.mail_type.join(",") };
        lines.put("mail-type", &types);
        lines.put_some("mail-user", target.mail.as_deref());
    }

    fn body(&self) -> Result<Vec<String>, PlanError> {
        let target = self.target;
        let mut body = vec![
            // Where a site's nodes cannot look the user's environment up, SLURM goes on without.
            r#"export HOME="${HOME:-$(echo ~)}" USER="${USER:-$(id -un)}""#.to_owned(),
            "printenv PATH >/dev/null || export PATH=/usr/local/bin:/usr/bin:/bin".to_owned(),
            // What `--export` says would otherwise hold for every `srun` in the job, too.
            "export SLURM_EXPORT_ENV=ALL".to_owned(),
            // `srun` does not take this over by itself since 22.05.
            r#"export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}""#.to_owned(),
        ];
        for (name, value) in &target.env {
            body.push(format!("export {name}={}", quote::posix(value)?));
        }
        if !target.modules.is_empty() || !target.setup.is_empty() {
            body.push("type module >/dev/null 2>&1 || [ ! -r /etc/profile ] || . /etc/profile".to_owned());
        }
        for module in &target.modules {
            let line = format!("module load {}", quote::posix(module)?);
            let failed = quote::posix(&line)?;
            body.push(format!("{line} || {}", failure(&failed)));
        }
        for text in &target.setup {
            let text = quote::posix(text)?;
            // Read by `eval`, a line that is no shell fails alone.
            body.push(format!("eval {text} || {}", failure(&text)));
        }
        let group = if let Array::Groups { .. } = self.array { r#""${SLURM_ARRAY_TASK_ID:-0}""# } else { "0" };
        body.push(format!("exec {} {group}", quote::posix_line(self.agent)?));
        Ok(body)
    }
}

/// The agent starts all the same, and ends the run with this text: a job that never says why it failed is worse.
fn failure(quoted: &str) -> String {
    format!(r#"[ -n "${{YARD_SETUP_FAILED:-}}" ] || export YARD_SETUP_FAILED={quoted}"#)
}

struct Lines(Vec<Directive>);

impl Lines {
    fn put(&mut self, option: &str, value: &str) {
        self.0.push(Directive(vec![format!("--{option}={value}")]));
    }

    fn put_some(&mut self, option: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.put(option, value);
        }
    }

    fn flag(&mut self, option: &str) {
        self.0.push(Directive(vec![format!("--{option}")]));
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "#!/bin/bash")?;
        for Directive(words) in &self.directives {
            f.write_str("#SBATCH")?;
            for word in words {
                // Checked when the script was made.
                write!(f, " {}", text::quoted(word).map_err(|_unfit| fmt::Error)?)?;
            }
            writeln!(f)?;
        }
        writeln!(f)?;
        self.body.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
