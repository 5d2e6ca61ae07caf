//! `yard run`: from a job to results.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value, json};
use trainyard_core::quote::posix_line;
use trainyard_core::spec::{Config, JobSpec, SecretRef, Setting, format_duration, format_size, parse_seeds};
use trainyard_engine::ledger::RunRow;
use trainyard_engine::snapshot::Rules;
use trainyard_engine::submit::{self, Plan, Wish};

use super::follow;
use crate::context::{Context, Project};
use crate::env;
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style};

/// Run a job, once for each seed
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The job, as named in trainyard.toml
    job: String,

    /// Where to run it
    #[arg(long = "on", value_name = "TARGET")]
    target: Option<String>,

    /// Seeds, such as `1-5` or `1,2,7`, instead of the job's own
    #[arg(long)]
    seeds: Option<String>,

    /// A readable name instead of the job's
    #[arg(long)]
    name: Option<String>,

    /// Submit and return at once
    #[arg(long, short)]
    detach: bool,

    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// More arguments for the program, handed over as they are
    #[arg(last = true, value_name = "ARGS")]
    extra: Vec<String>,
}

impl Run {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let project = context.project()?;
        let job = find_job(&project, &self.job)?;
        let plan = self.plan(context, &project, job)?;
        if self.dry_run {
            context.printer.report(&DryRun { plan: &plan });
            return Ok(Exit::Done);
        }
        let secrets = secrets_of(job)?;
        let mut ledger = context.ledger()?;
        let ids = submit::carry_out(plan, &mut ledger)?;
        let caller = context.knock(&secrets)?;
        if self.detach {
            let rows: Vec<RunRow> =
                ids.iter().filter_map(|id| ledger.run(*id).transpose()).collect::<Result<_, _>>()?;
            context.printer.report(&Submitted { rows: &rows });
            return Ok(refused(&rows).unwrap_or(Exit::Done));
        }
        follow::follow(context, &ledger, caller, &ids)
    }

    fn plan(&self, context: &Context, project: &Project, job: &JobSpec) -> Result<Plan, CommandError> {
        let config = &project.loaded.config;
        let usage = |message: String| CommandError::new(Exit::Usage, message);
        let seeds = match &self.seeds {
            Some(text) => parse_seeds(text).map_err(|error| usage(format!("--seeds: {error}")))?,
            None => job.seeds.clone(),
        };
        if let Some(name) = &self.name {
            check_name(name)?;
        }
        let target = self.target.as_ref().or(job.target.as_ref()).unwrap_or(&config.default_target);
        let target = config.targets.get(target).ok_or_else(|| {
            let known: Vec<&str> = config.targets.keys().map(String::as_str).collect();
            CommandError::new(Exit::Settings, format!("no target `{target}`"))
                .hint(format!("known: {}", known.join(", ")))
        })?;
        let wish = Wish {
            project: &project.folder,
            rules: rules(config),
            job,
            target,
            seeds,
            name: self.name.clone(),
            extra: self.extra.clone(),
            env: env::handed_on(),
        };
        Ok(submit::plan(&wish, &context.home)?)
    }
}

/// Which of the project's files are shipped.
pub(super) fn rules(config: &Config) -> Rules {
    Rules { exclude: config.project.exclude.clone(), allow_large: config.project.allow_large.clone() }
}

fn check_name(name: &str) -> Result<(), CommandError> {
    let fine = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || name.len() > 64 || !name.chars().all(fine) || name.starts_with(['-', '.']) {
        let message = format!("--name: `{name}` is not a name: letters, digits, `-`, `_` and `.`, 64 at most");
        return Err(CommandError::new(Exit::Usage, message));
    }
    Ok(())
}

fn find_job<'a>(project: &'a Project, name: &str) -> Result<&'a JobSpec, CommandError> {
    let jobs = &project.loaded.config.jobs;
    jobs.get(name).ok_or_else(|| {
        let known: Vec<&str> = jobs.keys().map(String::as_str).collect();
        let error = CommandError::new(Exit::Settings, format!("no job `{name}` in trainyard.toml"));
        if known.is_empty() { error } else { error.hint(format!("jobs: {}", known.join(", "))) }
    })
}

/// Secrets that only this shell knows. Missing ones are told now, not when the run's turn comes.
pub(super) fn secrets_of(job: &JobSpec) -> Result<BTreeMap<String, String>, CommandError> {
    let mut found = BTreeMap::new();
    for (variable, setting) in &job.env {
        if let Setting::Secret(SecretRef::Env(name)) = setting {
            let value = env::secret(name).ok_or_else(|| {
                let message = format!("`jobs.{}.env.{variable}` comes from {name}, which is not set", job.name);
                CommandError::new(Exit::Settings, message).hint(format!("`export {name}=…` and run again"))
            })?;
            found.insert(name.clone(), value);
        }
    }
    Ok(found)
}

/// A run that the target would not take, as against one that failed at work.
pub(super) fn refused(rows: &[RunRow]) -> Option<Exit> {
    use trainyard_core::run::{Reason, State};
    let is_refused = |row: &RunRow| matches!(&row.run.state, State::Failed { reason: Reason::Refused { .. }, .. });
    rows.iter().any(is_refused).then_some(Exit::Refused)
}

/// More runs than this are not listed one by one.
const MOST_LINES: usize = 40;

/// What `--detach` prints.
struct Submitted<'a> {
    rows: &'a [RunRow],
}

impl Report for Submitted<'_> {
    fn json(&self) -> Value {
        let brief = |row: &RunRow| json!({ "id": row.id, "name": row.name, "state": row.state });
        json!({ "runs": self.rows.iter().map(brief).collect::<Vec<_>>() })
    }

    fn text(&self, _: Style) -> String {
        let Some(first) = self.rows.first() else { return String::new() };
        let line = |row: &RunRow| match &row.reason {
            Some(reason) => format!("{}  {}: {reason}\n", row.name, row.state),
            None => format!("{}  {}\n", row.name, row.state),
        };
        if self.rows.len() > MOST_LINES {
            return format!("{}  and {} more\n", line(first).trim_end(), self.rows.len() - 1);
        }
        self.rows.iter().map(line).collect()
    }
}

/// What `--dry-run` prints.
struct DryRun<'a> {
    plan: &'a Plan,
}

impl Report for DryRun<'_> {
    fn json(&self) -> Value {
        let plan = self.plan;
        let run = |run: &submit::PlannedRun| json!({ "name": run.name, "seed": run.seed, "argv": run.call.argv, "env": run.call.env });
        json!({
            "dry_run": true,
            "target": plan.target,
            "project": plan.project,
            "depot": plan.depot.root(),
            "job": plan.job,
            "runs": plan.runs.iter().map(run).collect::<Vec<_>>(),
        })
    }

    fn text(&self, style: Style) -> String {
        let plan = self.plan;
        let job = &plan.job;
        let mut lines = vec![
            format!("{}  {}", style.bold("target "), plan.target),
            format!("{}  {}", style.bold("project"), plan.project.display()),
            format!("{}  {}", style.bold("depot  "), plan.depot.root().display()),
        ];
        let memory = job.memory.map(|bytes| format!(", {}", format_size(bytes))).unwrap_or_default();
        let time = job.time.map(|time| format!(", {} at most", format_duration(time))).unwrap_or_default();
        lines.push(format!("{}  {} CPU, {} GPU{memory}{time}", style.bold("each   "), job.cpus, job.gpus));
        for run in &plan.runs {
            let call = posix_line(&run.call.argv).unwrap_or_else(|_| format!("{:?}", run.call.argv));
            lines.push(format!("{}  {call}", style.bold(&run.name)));
        }
        lines.push("nothing was sent".to_owned());
        lines.join("\n") + "\n"
    }
}
