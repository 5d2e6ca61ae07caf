//! `yard run`: from a job, or a group of them, to results.

mod dry;

use std::collections::BTreeMap;
use std::time::{Duration, Instant as Clock};

use clap::Args;
use serde_json::{Value, json};
use trainyard_agent::container::NO_IMAGE;
use trainyard_agent::post::NO_CODE;
use trainyard_core::id::RunId;
use trainyard_core::plan::slurm::Facts;
use trainyard_core::spec::{
    Config, GroupSpec, ImageSpec, JobSpec, SecretRef, Setting, TargetKind, TargetSpec, parse_seeds,
};
use trainyard_engine::ledger::{Ledger, RunRow};
use trainyard_engine::site::Known;
use trainyard_engine::snapshot::{self, Rules};
use trainyard_engine::submit::{self, Delivered, Destination, Plan, Wish};
use trainyard_engine::yardmaster::Caller;

use super::follow;
use crate::context::{Context, Project};
use crate::env;
use crate::errand::Errand;
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style};
use dry::{DryRun, DryRuns};

/// Run a job, once for each seed, or the jobs of a group
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The job or group, as named in trainyard.toml
    job: String,

    /// Where to run it
    #[arg(long = "on", value_name = "TARGET")]
    target: Option<String>,

    /// Seeds, such as `1-5` or `1,2,7`, instead of the job's own
    #[arg(long)]
    seeds: Option<String>,

    /// A readable name instead of the job's; with a group, what the jobs' names begin with
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

/// A job that is run, alone or as one of a group.
struct Part<'a> {
    job: JobSpec,
    target: &'a TargetSpec,
    /// The way to its target, in the list of ways.
    way: usize,
}

/// What is known of a target, and how it is reached.
struct Way<'a> {
    target: &'a TargetSpec,
    errand: Errand<'a>,
    known: Option<Known>,
}

impl Run {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let project = context.project()?;
        let group = project.loaded.config.groups.get(&self.job);
        let (parts, mut ways) = self.parts(context, &project, group)?;
        let mut plans = self.plans(context, &project, group, &parts, &ways)?;
        if self.dry_run {
            return show_plans(context, group, &plans, &parts, &ways);
        }
        let mut secrets = BTreeMap::new();
        for part in &parts {
            secrets.extend(secrets_of(&part.job)?);
        }
        for (plan, part) in plans.iter_mut().zip(&parts) {
            if let Some(way) = ways.get_mut(part.way) {
                way.errand.bring_image(plan)?;
            }
        }
        let mut ledger = context.ledger()?;
        let delivered = deliver(plans, &parts, &mut ways)?;
        let mut recorded = submit::record(delivered, &mut ledger)?;
        let mut caller = context.knock(&secrets)?;
        let ids = std::mem::take(&mut recorded.runs);
        if self.detach && ways.iter().any(|way| is_site(way.target)) {
            await_site(&ledger, &mut caller, &ids)?;
        }
        recorded.finish(&mut ledger)?;
        if self.detach {
            let rows = rows(&ledger, &ids)?;
            context.printer.report(&Submitted { rows: &rows });
            ways.iter().for_each(|way| forget_wiped(context, way.target, &rows));
            return Ok(refused(&rows).unwrap_or(Exit::Done));
        }
        let targets: Vec<&TargetSpec> = ways.iter().map(|way| way.target).collect();
        let pipe = ways.into_iter().next().and_then(|way| way.errand.into_pipe());
        let exit = follow::follow(context, &ledger, caller, &ids, pipe)?;
        let rows = rows(&ledger, &ids)?;
        targets.into_iter().filter(|target| is_site(target)).for_each(|target| forget_wiped(context, target, &rows));
        Ok(exit)
    }

    /// What is run, in its order, and one way to each target.
    fn parts<'a>(
        &self,
        context: &'a Context,
        project: &'a Project,
        group: Option<&GroupSpec>,
    ) -> Result<(Vec<Part<'a>>, Vec<Way<'a>>), CommandError> {
        if group.is_some_and(|group| group.jobs.len() > 1) && !self.extra.is_empty() {
            let message = format!("`{}` is a group, and the arguments after `--` are for one program", self.job);
            return Err(CommandError::new(Exit::Usage, message).hint("run one of its jobs by its own name"));
        }
        let (mut parts, mut ways) = (Vec::new(), Vec::<Way<'a>>::new());
        for name in group.map_or(std::slice::from_ref(&self.job), |group| &group.jobs) {
            let job = in_image(project, find_job(project, name)?, self.image.as_deref())?;
            let named = self.target.as_deref().or(group.and_then(|group| group.target.as_deref()));
            let target = find_target(project, &job, named)?;
            let way = match ways.iter().position(|way| way.target == target) {
                Some(way) => way,
                None => {
                    let mut errand = Errand::new(context, target);
                    let known = if is_site(target) { errand.known(self.dry_run)? } else { None };
                    ways.push(Way { target, errand, known });
                    ways.len() - 1
                }
            };
            parts.push(Part { job, target, way });
        }
        Ok((parts, ways))
    }

    fn plans(
        &self,
        context: &Context,
        project: &Project,
        group: Option<&GroupSpec>,
        parts: &[Part<'_>],
        ways: &[Way<'_>],
    ) -> Result<Vec<Plan>, CommandError> {
        if let Some(name) = &self.name {
            check_name(name)?;
        }
        let plan = |part: &Part<'_>| {
            let facts = ways.get(part.way).and_then(|way| way.known.as_ref()).and_then(Known::about);
            let name = match (&self.name, group) {
                (Some(name), Some(_)) => Some(format!("{name}-{}", part.job.name)),
                (name, _) => name.clone(),
            };
            self.plan(context, project, part, name, facts)
        };
        let mut plans = parts.iter().map(plan).collect::<Result<Vec<_>, _>>()?;
        if let Some(group) = group {
            submit::tie(group, &mut plans)?;
        }
        Ok(plans)
    }

    fn plan(
        &self,
        context: &Context,
        project: &Project,
        part: &Part<'_>,
        name: Option<String>,
        facts: Option<&Facts>,
    ) -> Result<Plan, CommandError> {
        let (config, job) = (&project.loaded.config, &part.job);
        let usage = |message: String| CommandError::new(Exit::Usage, message);
        let seeds = match &self.seeds {
            Some(text) => parse_seeds(text).map_err(|error| usage(format!("--seeds: {error}")))?,
            None => job.seeds.clone(),
        };
        let wish = Wish {
            project: &project.folder,
            rules: rules(config),
            job,
            image: image_of(config, job),
            target: part.target,
            seeds,
            name,
            extra: self.extra.clone(),
            env: env::handed_on(),
        };
        Ok(submit::plan(&wish, &context.home, facts)?)
    }
}

fn is_site(target: &TargetSpec) -> bool {
    !matches!(target.kind, TargetKind::Local(_))
}

fn rows(ledger: &Ledger, ids: &[RunId]) -> Result<Vec<RunRow>, CommandError> {
    Ok(ids.iter().filter_map(|id| ledger.run(*id).transpose()).collect::<Result<_, _>>()?)
}

/// The code goes to each target once: all jobs of a group get the project as it was at one moment.
fn deliver(plans: Vec<Plan>, parts: &[Part<'_>], ways: &mut [Way<'_>]) -> Result<Vec<(Plan, Delivered)>, CommandError> {
    let mut there: Vec<(usize, bool, Delivered)> = Vec::new();
    let mut all = Vec::new();
    for (plan, part) in plans.into_iter().zip(parts) {
        let of = (part.way, part.job.in_place);
        let delivered = match there.iter().find(|(way, in_place, _)| (*way, *in_place) == of) {
            Some((_, _, delivered)) => delivered.shared(),
            None => {
                let Some(way) = ways.get_mut(part.way) else { continue };
                let delivered = submit::deliver(&plan, &mut way.errand)?;
                there.push((of.0, of.1, delivered.shared()));
                delivered
            }
        };
        all.push((plan, delivered));
    }
    Ok(all)
}

fn show_plans(
    context: &Context,
    group: Option<&GroupSpec>,
    plans: &[Plan],
    parts: &[Part<'_>],
    ways: &[Way<'_>],
) -> Result<Exit, CommandError> {
    let mut shown = Vec::new();
    for (plan, part) in plans.iter().zip(parts) {
        let known = ways.get(part.way).and_then(|way| way.known.as_ref());
        let (scripts, snapshot) = match &plan.destination {
            Destination::Here { .. } => (Vec::new(), None),
            Destination::Site(_) => {
                let snapshot = snapshot::scan(&plan.project, &plan.rules, std::path::Path::new(""))?;
                (submit::scripts(plan, known).map_err(|why| CommandError::new(Exit::Refused, why))?, Some(snapshot))
            }
        };
        shown.push(DryRun { plan, scripts, snapshot });
    }
    context.printer.report(&DryRuns { group, plans: shown });
    Ok(Exit::Done)
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
        let groups: Vec<&str> = project.loaded.config.groups.keys().map(String::as_str).collect();
        let mut error = CommandError::new(Exit::Settings, format!("no job `{name}` in trainyard.toml"));
        for (what, known) in [("jobs", known), ("groups", groups)].into_iter().filter(|(_, known)| !known.is_empty()) {
            error = error.hint(format!("{what}: {}", known.join(", ")));
        }
        error
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
fn forget_wiped(context: &Context, target: &TargetSpec, rows: &[RunRow]) {
    let mut reasons = rows.iter().filter(|row| row.target == target.name).filter_map(|row| row.reason.as_deref());
    let is_wiped = reasons.any(|why| why.contains(NO_CODE) || why.contains(NO_IMAGE));
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
    // One that waits for others of its group says so.
    let on_its_way = |row: &RunRow| row.state == "starting" || (row.state == "queued" && row.note.is_none());
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
