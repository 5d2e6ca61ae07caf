//! `yard target check`: proves a target step by step, up to a job on one of its nodes.

use std::io::IsTerminal;
use std::time::{Duration, Instant as Clock};

use clap::Args;
use trainyard_agent::inspect::{self, Inspection};
use trainyard_core::plan::slurm::{self, Facts};
use trainyard_core::spec::{Container, SlurmSpec, TargetKind, TargetSpec, format_size, parse_duration};
use trainyard_engine::host::Person;
use trainyard_engine::pipe::PipeError;
use trainyard_engine::proof::{self, Proof, ProofError, Standing};

use super::steps::Steps;
use super::{host, summary};
use crate::context::Context;
use crate::errand::{self, Errand};
use crate::error::{CommandError, Exit};
use crate::interrupt;
use crate::report::plural;

/// A few large checkpoints.
const LITTLE: u64 = 10_000_000_000;
const INSPECTION: Duration = Duration::from_secs(150);
/// SLURM's manual asks programs not to ask in a loop.
const PAUSE: Duration = Duration::from_secs(1);
const LONG_PAUSE: Duration = Duration::from_secs(5);

/// Prove a target step by step: connection, depot, settings, and a test job on a node; leaves nothing behind
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The target
    name: String,

    /// How long the test job may wait for its turn
    #[arg(long, default_value = "10m", value_name = "TIME")]
    wait: String,

    /// Send no test job
    #[arg(long)]
    no_job: bool,

    /// GPUs that the test job asks for; one where the target has any, unless given
    #[arg(long, value_name = "COUNT")]
    gpus: Option<u32>,
}

/// Which step it was.
pub(super) type Failure = (&'static str, CommandError);

impl Check {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let usage = |error: String| CommandError::new(Exit::Usage, format!("--wait: {error}"));
        let wait = parse_duration(&self.wait).map_err(|error| usage(error.to_string()))?;
        let loaded = context.anywhere()?;
        let targets = &loaded.config.targets;
        let target = targets.get(&self.name).ok_or_else(|| {
            let known: Vec<&str> = targets.keys().map(String::as_str).collect();
            CommandError::new(Exit::Settings, format!("no target `{}`", self.name)).hint(format!(
                "known: {}; `yard target add {}` makes one",
                known.join(", "),
                self.name
            ))
        })?;
        context.check_clusters(target)?;
        let mut steps = Steps::new(context.printer, &target.name);
        let checked = match &target.kind {
            TargetKind::Local(_) => here(context, target, &mut steps),
            TargetKind::Ssh(_) | TargetKind::Slurm(_) => {
                self.site(context, target, Duration::from_millis(wait.0), &mut steps)
            }
            TargetKind::Ray(_) => super::ray::check(context, target, self.no_job, &mut steps),
            other => {
                let message = format!("targets of kind `{}` cannot be checked yet", other.name());
                return Err(CommandError::new(Exit::Refused, message));
            }
        };
        let exit = match checked {
            Ok(()) => Exit::Done,
            Err((step, error)) => {
                steps.failed(step, &error);
                error.exit
            }
        };
        steps.report();
        if exit == Exit::Done {
            let works = if self.no_job { "looks right" } else { "works" };
            context.printer.say(&format!("`{0}` {works}; next: `yard run JOB --on {0}`", target.name));
        }
        Ok(exit)
    }

    fn site(&self, context: &Context, target: &TargetSpec, wait: Duration, steps: &mut Steps) -> Result<(), Failure> {
        connect(context, target, steps)?;
        let mut errand = Errand::new(context, target);
        let agent = |error: PipeError| ("agent", CommandError::from(error));
        steps.now("agent", "brought there if it is not there yet");
        let pipe = errand.pipe().map_err(agent)?;
        let (path, chatter) = (pipe.agent().to_owned(), pipe.chatter());
        steps.passed("agent", path);
        if chatter > 0 {
            steps.noted("login shell", format!("says {}, which are passed over", plural(chatter, "line")));
        }
        steps.now("depot", "");
        let seen: Inspection = pipe.task(&["inspect"], &(), INSPECTION).map_err(|error| ("depot", error.into()))?;
        depot(&seen, steps)?;
        steps.now("site", "asked what it has");
        let known = errand.ask().map_err(|error| ("site", error))?;
        let facts = known.facts.as_ref();
        steps.passed("site", facts.map_or_else(|| format!("{}, {} cores", seen.system, seen.cpus), summary));
        if let (TargetKind::Slurm(slurm), Some(facts)) = (&target.kind, facts) {
            settings(slurm, facts, self.gpus.unwrap_or_else(|| proof::gpus(target, Some(facts))), steps)?;
        } else {
            machine(&seen, steps);
        }
        if self.no_job {
            steps.noted("test job", "not sent");
            return Ok(());
        }
        let gpus = self.gpus.unwrap_or_else(|| proof::gpus(target, facts));
        let node = test_job(context, target, &mut errand, facts, gpus, wait, steps)?;
        if let TargetKind::Slurm(slurm) = &target.kind {
            on_node(slurm, &node, gpus, steps)?;
        }
        Ok(())
    }
}

fn connect(context: &Context, target: &TargetSpec, steps: &mut Steps) -> Result<(), Failure> {
    let Some(name) = host(target) else { return Ok(()) };
    let failed = |error: PipeError| ("connection", CommandError::from(error));
    let reach = context.reach().map_err(|error| ("connection", error))?;
    let host = reach.host(target).map_err(|error| failed(error.into()))?;
    let person = if std::io::stdin().is_terminal() { Person::AtTerminal } else { Person::Nobody };
    steps.begin();
    host.connect(person, errand::PATIENCE).map_err(|error| failed(error.into()))?;
    steps.passed("connection", format!("`{name}` lets us in"));
    Ok(())
}

fn depot(seen: &Inspection, steps: &mut Steps) -> Result<(), Failure> {
    let disk = &seen.depot;
    if let Some(why) = &seen.unwritable {
        let message = format!("{} cannot be written to: {why}", disk.path);
        let error = CommandError::new(Exit::Refused, message).hint("name another folder as `depot` of the target");
        return Err(("depot", error));
    }
    steps.passed("depot", format!("{} can be written to, {} free, {}", disk.path, format_size(disk.free), disk.kind));
    if disk.free < LITTLE {
        steps.noted("space", format!("only {} are left; `yard clean` frees what yard holds", format_size(disk.free)));
    }
    if disk.is_shared == Some(false) {
        steps.noted("space", format!("{} lies in the memory of `{}` alone", disk.path, seen.host));
    }
    Ok(())
}

fn settings(slurm: &SlurmSpec, facts: &Facts, gpus: u32, steps: &mut Steps) -> Result<(), Failure> {
    let refused = |why: String, hint: &str| ("settings", CommandError::new(Exit::Refused, why).hint(hint));
    let job = proof::job(gpus).map_err(|error| ("settings", told(error)))?;
    if let Some(why) = slurm::refuse(&job, slurm, facts) {
        return Err(refused(why, "correct the target in the file; `yard show-config` says where it is written"));
    }
    if let Some(why) = slurm.qos.as_deref().and_then(|qos| slurm::unknown_qos(facts, qos)) {
        return Err(refused(why, "correct `qos` of the target"));
    }
    let named = |what: &str, value: Option<&str>| value.map(|value| format!("{what} `{value}`"));
    let parts = [
        named("partition", slurm.partition.as_deref()),
        named("account", slurm.account.as_deref()),
        named("QOS", slurm.qos.as_deref()),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let limit = slurm::allocation_time(&job, slurm, facts).and(longest(slurm, facts));
    let limit = limit.map_or_else(|| "no time limit".to_owned(), |limit| format!("at most {limit} at a time"));
    let what = if parts.is_empty() { "the default partition".to_owned() } else { parts.join(", ") };
    steps.passed("settings", format!("{what}: there, {limit}"));
    Ok(())
}

fn longest(slurm: &SlurmSpec, facts: &Facts) -> Option<String> {
    let partitions = facts.partitions_for(slurm.partition.as_deref())?;
    let limits: Option<Vec<_>> = partitions.iter().map(|partition| partition.max_time).collect();
    let limit = limits?.into_iter().max().into_iter().chain(slurm.max_time).min()?;
    Some(trainyard_core::spec::format_duration(limit))
}

/// A machine without a scheduler: what is there is there.
fn machine(seen: &Inspection, steps: &mut Steps) {
    gpus_of(seen, steps);
    abilities(seen, steps);
}

fn gpus_of(seen: &Inspection, steps: &mut Steps) {
    match (&seen.gpus[..], &seen.no_gpus) {
        ([], why) => steps.noted("gpus", why.clone().unwrap_or_else(|| "none".to_owned())),
        (gpus, _) => gpus.iter().for_each(|gpu| steps.seen("gpu", gpu.clone())),
    }
}

fn abilities(seen: &Inspection, steps: &mut Steps) {
    let runtimes: Vec<String> = seen.containers.iter().map(|(name, version)| format!("{name} {version}")).collect();
    match runtimes.is_empty() {
        true => steps.noted("containers", "no runtime; jobs run bare"),
        false => steps.seen("containers", runtimes.join(", ")),
    }
    match &seen.no_overlay {
        None => steps.seen("folders", "large projects are shared between runs (overlay)"),
        Some(why) => steps.noted("folders", format!("every run gets a copy of its project (no overlay: {why})")),
    }
}

fn here(context: &Context, target: &TargetSpec, steps: &mut Steps) -> Result<(), Failure> {
    let named = target.depot.as_ref().map(std::path::Path::new);
    let folder = named.map(|path| trainyard_engine::home::locate(path, &context.folder));
    let place = folder.map_or_else(|| context.home.depot(), trainyard_agent::depot::Depot::new);
    let seen = inspect::inspect(&place, None);
    steps.seen("machine", format!("{}, {}, {} cores", seen.host, seen.system, seen.cpus));
    depot(&seen, steps)?;
    machine(&seen, steps);
    Ok(())
}

/// Sends it, waits for it and removes it, whatever comes.
fn test_job(
    context: &Context,
    target: &TargetSpec,
    errand: &mut Errand<'_>,
    facts: Option<&Facts>,
    gpus: u32,
    wait: Duration,
    steps: &mut Steps,
) -> Result<Inspection, Failure> {
    let failed = |error: CommandError| ("test job", error);
    interrupt::count();
    steps.begin();
    steps.now("test job", "sent");
    let reach = context.reach().map_err(failed)?;
    let pipe = errand.pipe().map_err(|error| failed(error.into()))?;
    let sent = Proof::send(&reach, pipe, target, &context.home, facts, gpus);
    let mut proof = match sent {
        Err(_) if interrupt::take() > 0 => return Err(failed(interrupted())),
        sent => sent.map_err(|error| failed(told(error)))?,
    };
    let outcome = watch(&mut proof, wait, steps);
    steps.now("test job", "cleaning up");
    let (name, ended) = (proof.name(), proof.end());
    let node = match (outcome, &ended) {
        (Ok(node), _) => node,
        (Err(error), Ok(())) => return Err(failed(error)),
        (Err(error), Err(why)) => return Err(failed(error.hint(format!("it may still be there, as `{name}`: {why}")))),
    };
    let device = if gpus > 0 { format!(" with {}", plural(gpus as usize, "GPU")) } else { String::new() };
    steps.passed("test job", format!("ran on {}{device}", node.host));
    ended.map_err(|error| {
        (
            "cleaning up",
            CommandError::from(error)
                .hint("a small parcel named `yard-check` may be left in the depot; it does no harm"),
        )
    })?;
    Ok(*node)
}

fn interrupted() -> CommandError {
    CommandError::new(Exit::Interrupted, "interrupted; the test job was cancelled")
}

fn watch(proof: &mut Proof<'_>, wait: Duration, steps: &mut Steps) -> Result<Box<Inspection>, CommandError> {
    let until = Clock::now() + wait;
    let mut pause = PAUSE;
    loop {
        let standing = proof.look();
        if interrupt::take() > 0 {
            return Err(interrupted());
        }
        let why = match standing? {
            Standing::Ended(Ok(node)) => return Ok(node),
            Standing::Ended(Err(why)) => return Err(CommandError::new(Exit::Refused, why)),
            Standing::Running => {
                steps.now("test job", "runs");
                None
            }
            Standing::Waiting(why) => {
                let words = why.clone().unwrap_or_else(|| "the scheduler has not looked at it yet".to_owned());
                steps.now("test job", &format!("waits: {words}"));
                Some(words)
            }
        };
        if let Some(why) = why.filter(|_| Clock::now() >= until) {
            let message = format!("the test job did not start within {}: {why}; it was cancelled", told_time(wait));
            return Err(CommandError::new(Exit::Refused, message)
                .hint("`--wait 1h` waits longer, `--no-job` checks all but this"));
        }
        if Clock::now() >= until + LONGEST {
            return Err(CommandError::new(Exit::Refused, "the test job did not end; it was cancelled"));
        }
        std::thread::sleep(pause.min(until.saturating_duration_since(Clock::now()).max(PAUSE)));
        pause = (pause * 5 / 4).min(LONG_PAUSE);
    }
}

/// A job of one minute that has begun has ended by then.
const LONGEST: Duration = Duration::from_secs(180);

fn told_time(time: Duration) -> String {
    let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    trainyard_core::spec::format_duration(trainyard_core::time::Span(milliseconds))
}

fn on_node(slurm: &SlurmSpec, node: &Inspection, gpus: u32, steps: &mut Steps) -> Result<(), Failure> {
    steps.seen("node", format!("{}, {}, {} cores for the job", node.host, node.system, node.cpus));
    if gpus > 0 || node.no_gpus.is_none() {
        gpus_of(node, steps);
    }
    let disk = &node.depot;
    steps.seen("depot there", format!("the same folder, {} free, {}", format_size(disk.free), disk.kind));
    let scratch = &node.scratch;
    steps.seen("scratch", format!("{}, {} free, {}", scratch.path, format_size(scratch.free), scratch.kind));
    let wanted = match slurm.container {
        Some(Container::Apptainer) => Some("apptainer"),
        Some(Container::Singularity) => Some("singularity"),
        Some(Container::Pyxis) => Some("enroot"),
        _ => None,
    };
    if let Some(name) = wanted.filter(|name| !node.containers.contains_key(*name)) {
        let message = format!("the target says `container`, but {} has no `{name}`", node.host);
        let error = CommandError::new(Exit::Refused, message)
            .hint("does it come with a module? `modules` of the target loads one; without images, drop `container`");
        return Err(("containers", error));
    }
    for (name, why) in &node.opened {
        match why {
            None => steps.seen("image", format!("{name} opens a test image of ours")),
            Some(why) if wanted == Some(name) => {
                let message = format!("{name} on {} does not open a test image of ours: {why}", node.host);
                let error = CommandError::new(Exit::Refused, message);
                return Err(("image", error.hint("ask those who run the cluster, or name another `container`")));
            }
            Some(why) => steps.noted("image", format!("{name} does not open a test image of ours: {why}")),
        }
    }
    abilities(node, steps);
    Ok(())
}

fn told(error: ProofError) -> CommandError {
    match error {
        ProofError::Submit(error) => error.into(),
        ProofError::Transfer(error) => error.into(),
        ProofError::Pipe(error) => error.into(),
        ProofError::Refused(why) => CommandError::new(Exit::Refused, format!("the test job was refused: {why}")),
        ProofError::Unreachable(why) => CommandError::new(Exit::Unreachable, why).hint("it is safe to try again"),
        ProofError::Folder { .. } => CommandError::new(Exit::Settings, error.to_string()),
    }
}
