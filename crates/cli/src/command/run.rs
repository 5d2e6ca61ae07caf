//! `yard run`: from a job to results.

use std::collections::BTreeMap;
use std::time::{Duration, Instant as Clock};

use clap::Args;
use serde_json::{Value, json};
use trainyard_agent::container::NO_IMAGE;
use trainyard_agent::post::NO_CODE;
use trainyard_agent::snapshot::{Entry, Kind, decode};
use trainyard_core::id::RunId;
use trainyard_core::plan::slurm::Facts;
use trainyard_core::quote::posix_line;
use trainyard_core::spec::{
    Config, ImageSpec, JobSpec, SecretRef, Setting, TargetKind, TargetSpec, format_duration, format_size, parse_seeds,
};
use trainyard_engine::ledger::{Ledger, RunRow};
use trainyard_engine::site::{Known, depot_of};
use trainyard_engine::snapshot::{self, Rules, Snapshot};
use trainyard_engine::submit::{self, Destination, Plan, Wish};
use trainyard_engine::yardmaster::Caller;

use super::follow;
use crate::context::{Context, Project};
use crate::env;
use crate::errand::Errand;
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style, plural};

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

    /// The image to run in, by its name in `[images]`, instead of the job's; `none` for none
    #[arg(long, value_name = "NAME")]
    image: Option<String>,

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
        let job = &in_image(&project, find_job(&project, &self.job)?, self.image.as_deref())?;
        let target = find_target(&project, job, self.target.as_deref())?;
        let mut errand = Errand::new(context, target);
        let is_site = !matches!(target.kind, TargetKind::Local(_));
        let known = if is_site { errand.known(self.dry_run)? } else { None };
        let facts = known.as_ref().and_then(Known::about);
        let mut plan = self.plan(context, &project, job, target, facts)?;
        if self.dry_run {
            return self.show_plan(context, &plan, known.as_ref());
        }
        let secrets = secrets_of(job)?;
        errand.bring_image(&mut plan)?;
        let mut ledger = context.ledger()?;
        let delivered = submit::deliver(&plan, &mut errand)?;
        let mut recorded = submit::record(plan, delivered, &mut ledger)?;
        let mut caller = context.knock(&secrets)?;
        let ids = std::mem::take(&mut recorded.runs);
        if self.detach && is_site {
            await_site(&ledger, &mut caller, &ids)?;
        }
        recorded.finish(&mut ledger)?;
        if self.detach {
            let rows: Vec<RunRow> =
                ids.iter().filter_map(|id| ledger.run(*id).transpose()).collect::<Result<_, _>>()?;
            context.printer.report(&Submitted { rows: &rows });
            forget_wiped(context, target, rows.first());
            return Ok(refused(&rows).unwrap_or(Exit::Done));
        }
        let exit = follow::follow(context, &ledger, caller, &ids, errand.into_pipe())?;
        if is_site && let Some(first) = ids.first() {
            forget_wiped(context, target, ledger.run(*first)?.as_ref());
        }
        Ok(exit)
    }

    fn show_plan(&self, context: &Context, plan: &Plan, known: Option<&Known>) -> Result<Exit, CommandError> {
        let (scripts, snapshot) = match &plan.destination {
            Destination::Here { .. } => (Vec::new(), None),
            Destination::Site(_) => {
                let snapshot = snapshot::scan(&plan.project, &plan.rules, std::path::Path::new(""))?;
                (submit::scripts(plan, known).map_err(|why| CommandError::new(Exit::Refused, why))?, Some(snapshot))
            }
        };
        context.printer.report(&DryRun { plan, scripts, snapshot });
        Ok(Exit::Done)
    }

    fn plan(
        &self,
        context: &Context,
        project: &Project,
        job: &JobSpec,
        target: &TargetSpec,
        facts: Option<&Facts>,
    ) -> Result<Plan, CommandError> {
        let config = &project.loaded.config;
        let usage = |message: String| CommandError::new(Exit::Usage, message);
        let seeds = match &self.seeds {
            Some(text) => parse_seeds(text).map_err(|error| usage(format!("--seeds: {error}")))?,
            None => job.seeds.clone(),
        };
        if let Some(name) = &self.name {
            check_name(name)?;
        }
        let wish = Wish {
            project: &project.folder,
            rules: rules(config),
            job,
            image: image_of(config, job),
            target,
            seeds,
            name: self.name.clone(),
            extra: self.extra.clone(),
            env: env::handed_on(),
        };
        Ok(submit::plan(&wish, &context.home, facts)?)
    }
}

/// The image a job runs in, with its name.
pub(super) fn image_of<'a>(config: &'a Config, job: &JobSpec) -> Option<(&'a str, &'a ImageSpec)> {
    config.images.get_key_value(job.image.as_ref()?).map(|(name, spec)| (name.as_str(), spec))
}

/// The job in another image than its own, if a person named one.
fn in_image(project: &Project, job: &JobSpec, named: Option<&str>) -> Result<JobSpec, CommandError> {
    let mut job = job.clone();
    let Some(name) = named else { return Ok(job) };
    job.image = Some(name.to_owned()).filter(|name| name != ImageSpec::NONE);
    let images = &project.loaded.config.images;
    if job.image.as_ref().is_some_and(|name| !images.contains_key(name)) {
        return Err(no_image(images.keys(), name));
    }
    Ok(job)
}

pub(super) fn no_image<'a>(known: impl Iterator<Item = &'a String>, name: &str) -> CommandError {
    let known: Vec<&str> = known.map(String::as_str).collect();
    let error = CommandError::new(Exit::Settings, format!("no image `{name}` in trainyard.toml"));
    if known.is_empty() {
        error.hint("add `[images.NAME]` with `docker`, `registry`, `archive` or the like")
    } else {
        error.hint(format!("images: {}", known.join(", ")))
    }
}

/// The target a person named, the job's own, or the default.
pub(super) fn find_target<'a>(
    project: &'a Project,
    job: &JobSpec,
    named: Option<&str>,
) -> Result<&'a TargetSpec, CommandError> {
    let config = &project.loaded.config;
    let name = named.or(job.target.as_deref()).unwrap_or(&config.default_target);
    named_target(project, name)
}

pub(super) fn named_target<'a>(project: &'a Project, name: &str) -> Result<&'a TargetSpec, CommandError> {
    let targets = &project.loaded.config.targets;
    targets.get(name).ok_or_else(|| no_target(targets.keys(), name))
}

pub(super) fn no_target<'a>(known: impl Iterator<Item = &'a String>, name: &str) -> CommandError {
    let known: Vec<&str> = known.map(String::as_str).collect();
    CommandError::new(Exit::Settings, format!("no target `{name}`")).hint(format!("known: {}", known.join(", ")))
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

pub(super) fn find_job<'a>(project: &'a Project, name: &str) -> Result<&'a JobSpec, CommandError> {
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

/// A depot that somebody has wiped since is not taken for full again.
fn forget_wiped(context: &Context, target: &TargetSpec, row: Option<&RunRow>) {
    let is_wiped =
        row.and_then(|row| row.reason.as_deref()).is_some_and(|why| why.contains(NO_CODE) || why.contains(NO_IMAGE));
    let path = context.home.site(&target.name);
    if let Some(mut known) = is_wiped.then(|| Known::recall(&path, target)).flatten() {
        known.sent.clear();
        known.keep(&path);
    }
}

/// A site that takes longer has the runs later; they are in the ledger.
const SITE_PATIENCE: Duration = Duration::from_secs(30);

/// Until the site has taken or refused them.
pub(super) fn await_site(ledger: &Ledger, caller: &mut Caller, ids: &[RunId]) -> Result<(), CommandError> {
    let until = Clock::now() + SITE_PATIENCE;
    let on_its_way = |row: &RunRow| matches!(row.state.as_str(), "queued" | "starting");
    while let Some(left) = until.checked_duration_since(Clock::now()) {
        let mut last = ids.iter().rev().filter_map(|id| ledger.run(*id).ok().flatten());
        if !last.any(|row| on_its_way(&row)) {
            break;
        }
        caller.wait(left.min(Duration::from_millis(500)))?;
    }
    Ok(())
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
    /// Batch scripts, and the files whose contents a site would get.
    scripts: Vec<String>,
    snapshot: Option<Snapshot>,
}

impl DryRun<'_> {
    fn depot(&self) -> String {
        match &self.plan.destination {
            Destination::Here { depot, .. } => depot.root().display().to_string(),
            Destination::Site(site) => depot_of(&site.target),
        }
    }

    fn files(&self) -> Vec<(String, u64)> {
        let entries = self.snapshot.iter().flat_map(|snapshot| &snapshot.manifest.entries);
        let file = |entry: &Entry| match entry.kind {
            Kind::File { size, .. } => Some((decode(&entry.path).display().to_string(), size)),
            Kind::Folder | Kind::Link { .. } => None,
        };
        entries.filter_map(file).collect()
    }
}

impl Report for DryRun<'_> {
    fn json(&self) -> Value {
        let plan = self.plan;
        let run = |run: &submit::PlannedRun| json!({ "name": run.name, "seed": run.seed, "argv": run.call.argv, "env": run.call.env });
        let file = |(path, bytes): &(String, u64)| json!({ "path": path, "bytes": bytes });
        json!({
            "dry_run": true,
            "target": plan.target,
            "project": plan.project,
            "depot": self.depot(),
            "job": plan.job,
            "runs": plan.runs.iter().map(run).collect::<Vec<_>>(),
            "scripts": self.scripts,
            "files": self.files().iter().map(file).collect::<Vec<_>>(),
        })
    }

    fn text(&self, style: Style) -> String {
        let plan = self.plan;
        let job = &plan.job;
        let mut lines = vec![
            format!("{}  {}", style.bold("target "), plan.target),
            format!("{}  {}", style.bold("project"), plan.project.display()),
            format!("{}  {}", style.bold("depot  "), self.depot()),
        ];
        let memory = job.memory.map(|bytes| format!(", {}", format_size(bytes))).unwrap_or_default();
        let time = job.time.map(|time| format!(", {} at most", format_duration(time))).unwrap_or_default();
        lines.push(format!("{}  {} CPU, {} GPU{memory}{time}", style.bold("each   "), job.cpus, job.gpus));
        for run in &plan.runs {
            let call = posix_line(&run.call.argv).unwrap_or_else(|_| format!("{:?}", run.call.argv));
            lines.push(format!("{}  {call}", style.bold(&run.name)));
        }
        lines.extend(self.sent(style));
        lines.push("nothing was sent".to_owned());
        lines.join("\n") + "\n"
    }
}

impl DryRun<'_> {
    /// What a site would get.
    fn sent(&self, style: Style) -> Vec<String> {
        let Some(snapshot) = &self.snapshot else { return Vec::new() };
        let files = self.files();
        let total = format!("{}, {}", plural(files.len(), "file"), format_size(snapshot.bytes));
        let mut lines = vec![format!("{}  {total}, less what is there already", style.bold("files  "))];
        lines.extend(files.iter().take(MOST_LINES).map(|(path, bytes)| format!("  {path}  {}", format_size(*bytes))));
        if let Some(more) = files.len().checked_sub(MOST_LINES).filter(|more| *more > 0) {
            lines.push(format!("  and {more} more"));
        }
        if let Some(script) = self.scripts.first() {
            let others = match self.scripts.len() {
                1 => String::new(),
                count => format!(" (the first of {count}, which are alike)"),
            };
            lines.push(format!("{}{others}", style.bold("script")));
            lines.extend(script.lines().map(|line| format!("  {line}")));
        }
        lines
    }
}
