//! One attempt from claim to `result.json`.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant as Clock};

use trainyard_core::run::Outcome;
use trainyard_core::spec::JobSpec;
use trainyard_core::time::{Instant, Span};

use crate::checkpoint::{Doubt, Finder};
use crate::claim::Holder;
use crate::depot::AttemptFolder;
use crate::disk::{Durability, now, read_json, replace_json};
use crate::launch::{self, Circumstances, NOT_PREPARED, cannot};
use crate::log::LogWriter;
use crate::metrics::MetricReader;
use crate::order::{AttemptResult, Metrics, Order, Secrets, Source};
use crate::overseer::Overseer;
use crate::scratch::Keeper;
use crate::view::View;
use crate::watch::{self, Watched};
use crate::{claim, heir, scratch, work};

/// The attempt was not taken on; nothing was executed.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    #[error("another agent has this attempt")]
    Claimed,
    #[error("cannot make the attempt's folder: {0}")]
    Folder(io::Error),
}

/// What became of an attempt.
pub struct Ended {
    pub result: AttemptResult,
    /// The disk has not taken it yet.
    unwritten: Option<AttemptFolder>,
}

/// Executes the order and returns what became of it. By then `result.json` is written, unless the disk refused;
/// everything the program started has ended.
pub fn supervise(order: &Order, secrets: &Secrets, overseer: &mut dyn Overseer) -> Result<Ended, NotTaken> {
    let folder = order.depot.run(order.run).attempt(order.attempt);
    claim::take(&folder, &order.token).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => NotTaken::Claimed,
        _ => NotTaken::Folder(error),
    })?;
    await_earlier(order);
    let started = now();
    let result = match execute(order, secrets, &folder, started, overseer) {
        Ok(result) => result,
        Err(outcome) => AttemptResult {
            token: order.token.clone(),
            outcome,
            started,
            ended: now(),
            resumed_from: None,
            checkpoint: None,
            new_checkpoint: order.job.resume.checkpoint.is_some().then_some(false),
            peak_memory: 0,
            metrics: Metrics::new(),
            course: Vec::new(),
            notes: Vec::new(),
        },
    };
    let unwritten = record(&folder, &result).is_err().then_some(folder);
    Ok(Ended { result, unwritten })
}

const AGAIN: Duration = Duration::from_secs(2);
/// A shorter attempt is sooner repeated than its result is on the disk.
const WORTH_SYNCING: Span = Span::seconds(1);

fn record(folder: &AttemptFolder, result: &AttemptResult) -> io::Result<()> {
    let long = result.ended.since(result.started) >= WORTH_SYNCING;
    let durability = if long { Durability::Synced } else { Durability::Cached };
    replace_json(&folder.result(), result, durability)
}

impl Ended {
    /// Returns when the result is on the disk, or when its folder is gone. With the disk full this agent may be all
    /// that knows it: a yardmaster that has heard it may be killed before it can write it down.
    pub fn insist(&self) {
        let Some(folder) = &self.unwritten else { return };
        while record(folder, &self.result).is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
            std::thread::sleep(AGAIN);
        }
    }
}

fn execute(
    order: &Order,
    secrets: &Secrets,
    folder: &AttemptFolder,
    started: Instant,
    overseer: &mut dyn Overseer,
) -> Result<AttemptResult, Outcome> {
    let not_prepared = |why: String| cannot(NOT_PREPARED, why);
    let mut work =
        work::prepare(order).map_err(|error| not_prepared(format!("cannot make the working folder: {error}")))?;
    // Not the program's fault, nor that of its parameters.
    let inherited = heir::inherit(order, &work.view)
        .map_err(|error| Outcome::Lost { why: format!("cannot begin where another run is: {error}") })?;
    let log = LogWriter::create(folder).map_err(|error| not_prepared(format!("cannot make the log: {error}")))?;
    let metrics = MetricReader::new(&order.job, work.view.folder(), folder)
        .map_err(|error| not_prepared(format!("`metrics.stdout`: {error}")))?;
    let finder =
        order.job.resume.checkpoint.as_ref().map(|pattern| Finder::new(work.view.clone(), pattern)).transpose();
    let finder = finder.map_err(|error| not_prepared(error.to_string()))?;
    let childless = order.from.filter(|_| inherited.is_none() && !work::has_run(order));
    let resumed_from = inherited.or_else(|| finder.as_ref().and_then(|finder| earlier_checkpoint(order, finder)));
    let deadline = deadline(order, started);
    let around = Circumstances { work: &work, checkpoint: resumed_from.as_deref(), deadline };
    let launched = launch::launch(order, secrets, &around)?;

    let keeper = work.scratch.take().map(Keeper::start);
    let task = watch::Task {
        order,
        folder,
        started,
        deadline,
        finder: finder.as_ref(),
        log,
        metrics,
        keeper: keeper.as_ref(),
    };
    let mut watched = task.watch(launched, overseer);
    if let Some(from) = childless {
        watched.notes.push(format!("run {from} had no checkpoint to go on from, so it began anew"));
    }
    let (view, finder) = match keeper {
        Some(keeper) => brought_back(order, keeper, &mut watched),
        None => (work.view.clone(), finder),
    };
    if work.overlay.is_some() {
        work::tidy(&order.depot.run(order.run));
    }
    let ended = now();
    let checkpoint = finder.as_ref().and_then(|finder| finder.newest(&watched.doubt));
    let new_checkpoint = finder.is_some().then(|| checkpoint.is_some() && checkpoint != resumed_from);
    let outcome = judge(&watched, &order.job, &view);
    Ok(AttemptResult {
        token: order.token.clone(),
        outcome,
        started,
        ended,
        resumed_from,
        checkpoint,
        new_checkpoint,
        peak_memory: watched.peak_memory,
        metrics: watched.metrics,
        course: watched.course,
        notes: watched.notes,
    })
}

/// Only what has come back to the depot counts.
fn brought_back(order: &Order, keeper: Keeper, watched: &mut Watched) -> (View, Option<Finder>) {
    let doubt = std::mem::take(&mut watched.doubt);
    if let Err(error) = keeper.finish(&doubt) {
        let why = format!("results could not be brought back from `scratch`: {error}");
        if watched.outcome == (Outcome::Exited { code: 0 }) {
            watched.outcome = Outcome::Lost { why };
        } else {
            watched.notes.push(why);
        }
    }
    let view = View::of(&order.depot, order.run);
    let pattern = order.job.resume.checkpoint.as_ref();
    // It was made from the same pattern before.
    let finder = pattern.and_then(|pattern| Finder::new(view.clone(), pattern).ok());
    (view, finder)
}

/// The job's own limit, or the moment at which it takes its whole grace to be gone before the lease ends.
fn deadline(order: &Order, started: Instant) -> Option<Instant> {
    let own = order.job.time.map(|time| started + time);
    let leased = order.lease.as_ref().and_then(|lease| lease.ends).map(|ends| {
        let longest = Span(ends.since(started).0 / 5);
        Instant(ends.0.saturating_sub_unsigned(Span(order.job.grace.0 + AFTERWARDS.0).min(longest).0))
    });
    own.into_iter().chain(leased).min()
}

/// What is left to do after the program is gone: writing down, asking for the next turn.
const AFTERWARDS: Span = Span::seconds(10);
/// An agent that lives writes its status more often than this.
const SILENCE: Duration = Duration::from_secs(12);
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// The attempt before may still run on a machine that its scheduler took for dead. Its agent sees our claim, ends the
/// program and writes a result, or it is silent because it is gone.
fn await_earlier(order: &Order) {
    let Some(before) = order.attempt.checked_sub(1).filter(|before| *before > 0 && order.lease.is_some()) else {
        return;
    };
    let folder = order.depot.run(order.run).attempt(before);
    if matches!(claim::holder(&folder), Holder::Nobody | Holder::Void) {
        return;
    }
    let sign = || folder.last_sign();
    let (began, mut last, mut since) = (Clock::now(), sign(), Clock::now());
    let fresh = last.is_some_and(|at| at.elapsed().is_ok_and(|age| age < SILENCE));
    while fresh && !folder.result().exists() && since.elapsed() < SILENCE && began.elapsed() < LONGEST_WAIT {
        std::thread::sleep(Duration::from_millis(200));
        let newest = sign();
        if newest != last {
            (last, since) = (newest, Clock::now());
        }
    }
}

/// What the attempt before ended with, if it could still say so; otherwise what lies there now. A fresh run in the
/// project folder itself does not take up what other runs left there.
fn earlier_checkpoint(order: &Order, finder: &Finder) -> Option<String> {
    let before = order.attempt.checked_sub(1).filter(|before| *before > 0);
    let Some(before) = before else {
        let handed_over = matches!(order.source, Source::Snapshot(_));
        return if handed_over { finder.newest(&Doubt::default()) } else { None };
    };
    let folder = order.depot.run(order.run).attempt(before);
    match read_json::<AttemptResult>(&folder.result()) {
        Some(result) => result.checkpoint,
        // What came back from scratch is whole, however short before the end.
        None if scratch::is_wanted(order) => finder.newest(&Doubt::default()),
        None => finder.newest_of_the_dead(folder.last_sign()),
    }
}

fn judge(watched: &Watched, job: &JobSpec, view: &View) -> Outcome {
    let outcome = watched.outcome.clone();
    if outcome != (Outcome::Exited { code: 0 }) {
        return outcome;
    }
    let missing: Vec<String> =
        job.outputs.iter().filter(|path| view.follow(Path::new(path)).is_none()).cloned().collect();
    if missing.is_empty() { outcome } else { Outcome::OutputsMissing { paths: missing } }
}
