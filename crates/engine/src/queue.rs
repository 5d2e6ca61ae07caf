//! The queue of a machine that others send runs to: their side of it is [`crate::site`], this is the machine's own.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use trainyard_agent::depot::Depot;
use trainyard_agent::disk::now;
use trainyard_agent::look::{Finding, Question};
use trainyard_agent::order::{AttemptResult, Secrets, Source, Status};
use trainyard_agent::parcel::{Member, Parcel, Scheduler};
use trainyard_agent::post::NO_CODE;
use trainyard_agent::program::run_limited_with;
use trainyard_agent::site::SiteState;
use trainyard_core::id::RunId;
use trainyard_core::run::{State, Tie};
use trainyard_core::spec::{JobSpec, SecretRef, Setting};

use crate::ledger::{Batch, Ledger, LedgerError, NewRun, Request, RunRow};
use crate::site::{Standing, WANTS_SECRETS, secret_key};
use crate::target::Declared;

#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("the parcel cannot be read")]
    Parcel(#[source] io::Error),
    #[error("`{line}` of the target's `setup` failed{said}")]
    Setup { line: String, said: String },
    #[error("{NO_CODE}")]
    NoCode,
    #[error("the parcel is for another kind of site")]
    Kind,
}

/// Loading an environment from a slow disk takes a while.
const PATIENCE: Duration = Duration::from_secs(90);

/// Enters the runs of a parcel that are not there yet; so it can be done again in doubt. `env` is what a login has here.
pub fn add(ledger: &mut Ledger, depot: &Depot, parcel: &str, env: BTreeMap<String, String>) -> Result<(), QueueError> {
    let parcel = Parcel::read(depot, parcel).map_err(QueueError::Parcel)?;
    let Scheduler::Host { cpus, memory, gpus, setup } = &parcel.scheduler else { return Err(QueueError::Kind) };
    let mut new = Vec::new();
    for member in parcel.groups.iter().flatten() {
        if ledger.run(member.id)?.is_none() {
            new.push(member);
        }
    }
    if new.is_empty() {
        return Ok(());
    }
    if matches!(&parcel.source, Source::Snapshot(digest) if !depot.snapshot(digest).exists()) {
        return Err(QueueError::NoCode);
    }
    let mut env = after(setup, env)?;
    env.extend(parcel.env.clone());
    let declared = Declared { cpus: *cpus, memory: *memory, gpus: gpus.clone() };
    let batch = |first: &Member| Batch {
        project: depot.root().to_owned(),
        target: "local".to_owned(),
        declared: declared.clone(),
        depot: depot.clone(),
        job: with_own_secrets(parcel.job_of(first), &parcel.id),
        source: parcel.source.clone(),
        env: env.clone(),
        extra: parcel.extra.clone(),
        site: None,
        provenance: None,
        // The target is here.
        tie: first.tied.as_ref().map(|tied| Tie { at_target: false, ..tied.tie.clone() }),
    };
    // A group comes whole: each of its jobs is a submission, and all of them enter at once.
    let of_one_job = |a: &&Member, b: &&Member| step(a) == step(b);
    let parts = new.chunk_by(of_one_job).filter_map(|part| {
        let first = part.first()?;
        Some((batch(first), part.iter().map(|member| new_run(member)).collect()))
    });
    ledger.submit_all(&parts.collect::<Vec<_>>(), now())?;
    Ok(())
}

fn step(member: &Member) -> Option<u32> {
    member.tied.as_ref().map(|tied| tied.tie.step)
}

/// Where the sender found a secret means nothing here: its value came beside the parcel.
pub fn with_own_secrets(job: &JobSpec, parcel: &str) -> JobSpec {
    let mut job = job.clone();
    for (name, setting) in &mut job.env {
        if let Setting::Secret(reference) = setting {
            *reference = SecretRef::Env(secret_key(parcel, name));
        }
    }
    job
}

/// The values that came beside a parcel, under the names by which the yardmaster here is asked for them.
pub fn secrets(parcel: &str, sent: Secrets) -> BTreeMap<String, String> {
    sent.0.into_iter().map(|(name, value)| (secret_key(parcel, &name), value)).collect()
}

fn new_run(member: &Member) -> NewRun {
    NewRun {
        id: member.id,
        name: member.name.clone(),
        seed: member.seed,
        params: member.params.clone(),
        from: member.from,
        run: member.run.clone(),
        place: None,
        retry_of: None,
    }
}

/// The environment as the setup lines leave it.
fn after(setup: &[String], env: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, QueueError> {
    if setup.is_empty() {
        return Ok(env);
    }
    // Each line is read by itself, so that one that is no shell fails alone; what it prints is no part of the answer.
    let script = r#"for line do eval "$line" >&2 || { printf '%s' "$line" >&3; exit 1; }; done; env -0 >&3"#;
    let shell =
        if rustix::fs::access("/bin/bash", rustix::fs::Access::EXEC_OK).is_ok() { "/bin/bash" } else { "/bin/sh" };
    let answer = format!("{script}\n");
    let words = [shell, "-c", &format!("exec 3>&1; {answer}"), "yard"].map(str::to_owned);
    let argv: Vec<String> = words.into_iter().chain(setup.iter().cloned()).collect();
    let failed = |line: String, said: String| QueueError::Setup { line, said };
    let ran =
        run_limited_with(&argv, &env, PATIENCE).map_err(|error| failed(setup.join("; "), format!(": {error}")))?;
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
        return Err(failed(text, if said.is_empty() { said } else { format!(": {said}") }));
    }
    let pair = |entry: &str| entry.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(text.split('\0').filter_map(pair).collect())
}

pub fn report(ledger: &Ledger, questions: &[Question]) -> Result<Vec<Standing>, QueueError> {
    let mut told = Vec::with_capacity(questions.len());
    for question in questions {
        if let Some(row) = ledger.run(question.run)? {
            told.push(standing(ledger, question, row)?);
        }
    }
    Ok(told)
}

fn standing(ledger: &Ledger, question: &Question, row: RunRow) -> Result<Standing, QueueError> {
    let waiting = matches!(row.run.state, State::Queued { .. });
    let results: Vec<AttemptResult> = if row.run.last_attempt > question.known {
        let attempts = ledger.attempts(row.seq)?;
        attempts.into_iter().filter(|it| it.number > question.known).filter_map(|it| it.result).collect()
    } else {
        Vec::new()
    };
    let status = row.started.filter(|_| row.ended.is_none()).map(|started| Status {
        at: now(),
        started,
        metrics: row.metrics.clone(),
        course: row.course.clone(),
        memory: 0,
        checkpoint: None,
    });
    let state = Some(SiteState { run: row.run, ends: None });
    let wants_secrets = waiting && row.note.as_deref() == Some(WANTS_SECRETS);
    let waits = waiting.then(|| "waits for its turn on that machine".to_owned());
    Ok(Standing { finding: Finding { run: row.id, state, status, results }, waits, wants_secrets })
}

pub fn cancel(ledger: &mut Ledger, runs: &[RunId]) -> Result<(), QueueError> {
    Ok(ledger.request(runs, Request::Cancel, now())?)
}

/// Those that have not ended stay.
pub fn forget(ledger: &mut Ledger, runs: &[RunId]) -> Result<(), QueueError> {
    let mut ended = Vec::new();
    for run in runs {
        if ledger.run(*run)?.is_some_and(|row| row.run.state.has_ended()) {
            ended.push(*run);
        }
    }
    Ok(ledger.forget(&ended)?)
}
