//! `yard sweep`: many runs from one search space, and what they found.

mod ask;
mod best;
mod live;
mod ls;
mod show;
mod write;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use trainyard_core::quote::posix_line;
use trainyard_core::space::Space;
use trainyard_core::spec::{JobSpec, Known, SweepSpec, TargetKind, TargetSpec};
use trainyard_engine::controller::Desk;
use trainyard_engine::ledger::{Ledger, SweepRow};
use trainyard_engine::submit::{self, Delivered, Plan, Wish};
use trainyard_engine::sweep::{self, First};

use super::run::{find_job, find_target, image_of, rules, secrets_of};
use crate::context::{Context, Project};
use crate::env;
use crate::errand::Errand;
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style};

/// Search for good parameters, and see what was found
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct SweepCommand {
    #[command(subcommand)]
    what: Option<What>,

    #[command(flatten)]
    start: Start,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List sweeps
    Ls,
    /// Who is ahead, which parameters matter, and what goes on
    Show(show::Show),
    /// The best parameters, ready to run
    Best(best::Best),
    /// Begin no more trials; what runs goes on
    Pause(ask::Pause),
    /// Go on with a paused sweep
    Resume(ask::Resume),
    /// End a sweep and its runs
    Stop(ask::Stop),
    /// Try more configurations, also after the end
    Extend(ask::Extend),
    /// Follow a sweep
    Watch(ask::Watch),
}

#[derive(Debug, Args)]
struct Start {
    /// The sweep, as named in trainyard.toml
    #[arg(required = true)]
    name: Option<String>,

    /// Where its runs go; several targets share the sweep
    #[arg(long = "on", value_name = "TARGET")]
    targets: Vec<String>,

    /// How many trials, instead of what the file says
    #[arg(long)]
    trials: Option<u32>,

    /// How many runs at once, instead of what the file says
    #[arg(long)]
    parallel: Option<u32>,

    /// The seed of the search, instead of what the file says
    #[arg(long)]
    seed: Option<u64>,

    /// Start it and return at once
    #[arg(long, short)]
    detach: bool,

    /// Let the cluster itself run the sweep, so that it goes on with this machine switched off; on Ray
    #[arg(long)]
    detach_controller: bool,

    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// More arguments for the program, handed over as they are
    #[arg(last = true, value_name = "ARGS")]
    extra: Vec<String>,
}

impl SweepCommand {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        match self.what {
            None => self.start.run(context),
            Some(What::Ls) => ls::list(context),
            Some(What::Show(show)) => show.run(context),
            Some(What::Best(best)) => best.run(context),
            Some(What::Pause(pause)) => pause.run(context),
            Some(What::Resume(resume)) => resume.run(context),
            Some(What::Stop(stop)) => stop.run(context),
            Some(What::Extend(extend)) => extend.run(context),
            Some(What::Watch(watch)) => watch.run(context),
        }
    }
}

impl Start {
    fn run(self, context: &Context) -> Result<Exit, CommandError> {
        if context.is_elsewhere() {
            return Err(CommandError::new(Exit::Usage, "`--at` looks at sweeps; `--on` says where one runs"));
        }
        let project = context.project()?;
        let mut spec = find_sweep(&project, self.name.as_deref().unwrap_or_default())?.clone();
        spec.trials = self.trials.or(spec.trials);
        spec.parallel = self.parallel.unwrap_or(spec.parallel);
        spec.seed = self.seed.unwrap_or(spec.seed);
        if spec.parallel == 0 || spec.trials == Some(0) {
            return Err(CommandError::new(Exit::Usage, "`--trials` and `--parallel` are at least 1"));
        }
        spec.known = self.known(context, &project, &spec)?;
        let job = sweep::job(find_job(&project, &spec.job)?, &spec);
        let first = sweep::preview(&spec)?;
        if self.dry_run {
            return self.show_plan(context, &project, &spec, &job, &first);
        }
        let secrets = secrets_of(&job)?;
        if self.detach_controller {
            return self.hand_over(context, &project, &spec, &job, &first);
        }
        let plans = self.deliver(context, &project, &job, &first)?;
        let mut ledger = context.ledger()?;
        let row = sweep::begin(&spec, plans, &mut ledger)?;
        let caller = context.knock(&secrets)?;
        if self.detach {
            context.printer.report(&Started { id: row.id, name: &row.name, at: None });
            return Ok(Exit::Done);
        }
        live::follow(context, ledger, Some(caller), row.id)
    }

    /// Nothing of it is in the ledger here: this machine may be switched off, or thrown away.
    fn hand_over(
        &self,
        context: &Context,
        project: &Project,
        spec: &SweepSpec,
        job: &JobSpec,
        first: &[First],
    ) -> Result<Exit, CommandError> {
        let targets = self.targets(project, job)?;
        let [target] = targets[..] else {
            return Err(CommandError::new(Exit::Usage, "a controller is on one cluster; give one `--on`"));
        };
        let mut desk = Desk::open(&context.reach()?, target)?;
        let mut plans = self.deliver(context, project, job, first)?;
        let Some((plan, delivered)) = plans.pop() else { return Ok(Exit::Unknown) };
        let id = desk.hand_over(spec, plan, delivered)?;
        let started = Started { id, name: &spec.name, at: Some(&target.name) };
        if self.detach {
            context.printer.report(&started);
            return Ok(Exit::Done);
        }
        context.printer.say(started.text(context.printer.talk_style()).trim_end());
        let there = context.clone().at(Some(target.name.clone()));
        live::follow(&there, there.ledger()?, None, id)
    }

    /// What earlier sweeps have found.
    fn known(&self, context: &Context, project: &Project, spec: &SweepSpec) -> Result<Vec<Known>, CommandError> {
        if spec.from.is_empty() {
            return Ok(Vec::new());
        }
        let failed = |error: String| CommandError::new(Exit::Settings, error);
        let space = Space::new(&spec.space, &spec.constraints).map_err(|error| failed(error.to_string()))?;
        let known = sweep::known(spec, &space, &context.ledger()?, &project.folder);
        known.map_err(|error| failed(format!("`sweeps.{}`: {error}", spec.name)))
    }

    /// The code at every target, before the ledger knows of the sweep.
    fn deliver(
        &self,
        context: &Context,
        project: &Project,
        job: &JobSpec,
        first: &[First],
    ) -> Result<Vec<(Plan, Delivered)>, CommandError> {
        let mut plans = Vec::new();
        for target in self.targets(project, job)? {
            let mut errand = Errand::new(context, target);
            let is_site = !matches!(target.kind, TargetKind::Local(_));
            let known = if is_site { errand.known(false)? } else { None };
            let facts = known.as_ref().and_then(trainyard_engine::site::Known::about);
            let mut plan = self.plan(context, project, job, target, first.first(), facts)?;
            errand.bring_image(&mut plan)?;
            let delivered = submit::deliver(&plan, &mut errand)?;
            plans.push((plan, delivered));
        }
        Ok(plans)
    }

    fn plan(
        &self,
        context: &Context,
        project: &Project,
        job: &JobSpec,
        target: &TargetSpec,
        first: Option<&First>,
        facts: Option<&trainyard_core::plan::slurm::Facts>,
    ) -> Result<Plan, CommandError> {
        let config = &project.loaded.config;
        let wish = Wish {
            project: &project.folder,
            rules: rules(config),
            job,
            image: image_of(config, job),
            target,
            seeds: vec![first.map_or(1, |first| first.seed)],
            name: self.name.clone(),
            extra: self.extra.clone(),
            env: env::handed_on(),
        };
        let params = first.map(|first| first.params.clone()).unwrap_or_default();
        Ok(sweep::plan(&wish, &params, &context.home, facts)?)
    }

    fn targets<'a>(&self, project: &'a Project, job: &JobSpec) -> Result<Vec<&'a TargetSpec>, CommandError> {
        if self.targets.is_empty() {
            return Ok(vec![find_target(project, job, None)?]);
        }
        self.targets.iter().map(|name| find_target(project, job, Some(name))).collect()
    }

    fn show_plan(
        &self,
        context: &Context,
        project: &Project,
        spec: &SweepSpec,
        job: &JobSpec,
        first: &[First],
    ) -> Result<Exit, CommandError> {
        let mut lines = Vec::new();
        for run in first {
            let target = self.targets(project, job)?.into_iter().next();
            let Some(target) = target else { break };
            let known = trainyard_engine::site::Known::recall(&context.home.site(&target.name), target);
            let facts = known.as_ref().and_then(trainyard_engine::site::Known::about);
            let plan = self.plan(context, project, job, target, Some(run), facts)?;
            lines.extend(plan.runs.into_iter().map(|planned| (run, planned.call.argv)));
        }
        let targets = self.targets(project, job)?.into_iter().map(|target| target.name.clone()).collect();
        context.printer.report(&DryRun { spec, targets, lines });
        Ok(Exit::Done)
    }
}

fn find_sweep<'a>(project: &'a Project, name: &str) -> Result<&'a SweepSpec, CommandError> {
    let sweeps = &project.loaded.config.sweeps;
    sweeps.get(name).ok_or_else(|| {
        let known: Vec<&str> = sweeps.keys().map(String::as_str).collect();
        let error = CommandError::new(Exit::Settings, format!("no sweep `{name}` in trainyard.toml"));
        if known.is_empty() {
            error.hint("add `[sweeps.NAME]` with `job`, `metric`, `goal` and a `space`")
        } else {
            error.hint(format!("sweeps: {}", known.join(", ")))
        }
    })
}

/// A sweep that was begun, by its number or the newest of its name.
fn find_row(context: &Context, ledger: &Ledger, given: &str) -> Result<SweepRow, CommandError> {
    ledger.find_sweep(given)?.ok_or_else(|| {
        let at = context.at_flag();
        let error = CommandError::new(Exit::Usage, format!("no sweep `{given}` was begun"));
        let error = error.hint(format!("`yard sweep ls{at}` lists them"));
        let hint = "one that was begun with `--detach-controller` is looked at with `--at TARGET`";
        if context.is_elsewhere() { error } else { error.hint(hint) }
    })
}

/// What `--detach` prints.
struct Started<'a> {
    id: i64,
    name: &'a str,
    /// Where its controller is, if not here.
    at: Option<&'a str>,
}

impl Report for Started<'_> {
    fn json(&self) -> Value {
        json!({ "sweep": self.id, "name": self.name, "at": self.at })
    }

    fn text(&self, _: Style) -> String {
        let Self { id, name, at } = self;
        match at {
            None => format!("{name}  begun as sweep {id}; `yard sweep watch {name}` follows it\n"),
            Some(at) => format!(
                "{name}  begun on {at} as sweep {id}; `yard sweep watch {name} --at {at}` follows it, from any machine\n"
            ),
        }
    }
}

/// What `--dry-run` prints.
struct DryRun<'a> {
    spec: &'a SweepSpec,
    targets: Vec<String>,
    lines: Vec<(&'a First, Vec<String>)>,
}

impl Report for DryRun<'_> {
    fn json(&self) -> Value {
        let line =
            |(run, argv): &(&First, Vec<String>)| json!({ "seed": run.seed, "params": run.params, "argv": argv });
        json!({
            "dry_run": true,
            "sweep": self.spec,
            "targets": self.targets,
            "first": self.lines.iter().map(line).collect::<Vec<_>>(),
        })
    }

    fn text(&self, style: Style) -> String {
        let mut text = format!("{}  {}\n", style.bold("targets"), self.targets.join(", "));
        for (_, argv) in &self.lines {
            let call = posix_line(argv).unwrap_or_else(|_| format!("{argv:?}"));
            text.push_str(&format!("{}  {call}\n", style.bold("begins ")));
        }
        text + "nothing was sent\n"
    }
}
