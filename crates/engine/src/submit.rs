//! From a job to runs in the ledger. Planning touches nothing; carrying out writes the snapshot, then the ledger,
//! and nothing else: from there on the yardmaster sees to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trainyard_agent::depot::Depot;
use trainyard_agent::disk::now;
use trainyard_agent::order::Source;
use trainyard_core::id::RunId;
use trainyard_core::plan::arguments::{ArgumentError, Invocation, command_line};
use trainyard_core::run::{Policy, Run};
use trainyard_core::spec::{GpuLimit, JobSpec, Limits, TargetKind, TargetSpec};
use trainyard_core::template::Values;
use trainyard_core::value::Params;

use crate::home::{Home, locate};
use crate::ledger::{Batch, Ledger, LedgerError, NewRun};
use crate::provenance::inquire;
use crate::snapshot::{self, Rules, SnapshotError};
use crate::target::Declared;

/// What somebody wants to run.
#[derive(Debug, Clone)]
pub struct Wish<'a> {
    pub project: &'a Path,
    pub rules: Rules,
    pub job: &'a JobSpec,
    pub target: &'a TargetSpec,
    pub seeds: Vec<u64>,
    /// The readable name; the job's own when none is given.
    pub name: Option<String>,
    pub extra: Vec<String>,
    pub env: BTreeMap<String, String>,
}

/// What would be done, as plain data.
#[derive(Debug, Clone)]
pub struct Plan {
    pub project: PathBuf,
    pub rules: Rules,
    /// What the project's files hashed to last time.
    pub cache: PathBuf,
    pub job: JobSpec,
    pub target: String,
    pub declared: Declared,
    pub depot: Depot,
    pub extra: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub runs: Vec<PlannedRun>,
}

#[derive(Debug, Clone)]
pub struct PlannedRun {
    pub id: RunId,
    pub name: String,
    pub seed: Option<u64>,
    pub params: Params,
    pub call: Invocation,
}

#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    #[error("`jobs.{job}`: {source}")]
    Arguments { job: String, source: ArgumentError },
    #[error("target `{target}` is of kind `{kind}`, which this yard cannot run on yet")]
    Kind { target: String, kind: &'static str },
    #[error("job `{job}` runs in an image, which this yard cannot do yet")]
    Image { job: String },
    #[error("job `{job}` runs in place: several runs at once would share one folder")]
    SharedFolder { job: String },
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Checks everything that can be checked here.
pub fn plan(wish: &Wish<'_>, home: &Home) -> Result<Plan, SubmitError> {
    let TargetKind::Local(limits) = &wish.target.kind else {
        return Err(SubmitError::Kind { target: wish.target.name.clone(), kind: wish.target.kind.name() });
    };
    if wish.job.image.is_some() {
        return Err(SubmitError::Image { job: wish.job.name.clone() });
    }
    if wish.job.in_place && wish.seeds.len() > 1 {
        return Err(SubmitError::SharedFolder { job: wish.job.name.clone() });
    }
    let seeds: Vec<Option<u64>> =
        if wish.seeds.is_empty() { vec![None] } else { wish.seeds.iter().copied().map(Some).collect() };
    let runs = seeds.into_iter().map(|seed| plan_run(wish, seed)).collect::<Result<_, _>>()?;
    Ok(Plan {
        project: wish.project.to_owned(),
        rules: wish.rules.clone(),
        cache: home.scan_cache(wish.project),
        job: wish.job.clone(),
        target: wish.target.name.clone(),
        declared: declared(limits),
        depot: depot(wish, home),
        extra: wish.extra.clone(),
        env: wish.env.clone(),
        runs,
    })
}

fn depot(wish: &Wish<'_>, home: &Home) -> Depot {
    let named = wish.target.depot.as_ref();
    named.map_or_else(|| home.depot(), |path| Depot::new(locate(Path::new(path), wish.project)))
}

/// Random below the millisecond: a counter there would make all ids of a submission alike but for their last digits.
fn new_id() -> RunId {
    RunId(uuid::Uuid::new_v7(uuid::Timestamp::now(uuid::NoContext)))
}

fn plan_run(wish: &Wish<'_>, seed: Option<u64>) -> Result<PlannedRun, SubmitError> {
    let base = wish.name.as_deref().unwrap_or(&wish.job.name);
    let name = seed.map_or_else(|| base.to_owned(), |seed| format!("{base}-s{seed}"));
    let id = new_id();
    let params = wish.job.params.clone();
    let values = Values {
        seed,
        run: id.to_string(),
        name: name.clone(),
        job: wish.job.name.clone(),
        attempt: 1,
        checkpoint: None,
        size: wish.job.size(),
        params: &params,
    };
    let call = command_line(wish.job, &values, &wish.extra)
        .map_err(|source| SubmitError::Arguments { job: wish.job.name.clone(), source })?;
    Ok(PlannedRun { id, name, seed, params, call })
}

pub fn declared(limits: &Limits) -> Declared {
    let gpus = limits.gpus.as_ref().map(|gpus| match gpus {
        GpuLimit::Count(count) => (0..*count).map(|device| device.to_string()).collect(),
        GpuLimit::Devices(names) => names.clone(),
    });
    Declared { cpus: limits.cpus, memory: limits.memory, gpus }
}

/// Git has had as long as the snapshot took; a large repository that nobody has looked at for long takes longer.
const GIT_PATIENCE: Duration = Duration::from_millis(50);

/// Afterwards the ledger holds all runs of the plan, or none.
pub fn carry_out(plan: Plan, ledger: &mut Ledger) -> Result<Vec<RunId>, SubmitError> {
    let inquiry = inquire(&plan.project);
    let source = if plan.job.in_place {
        Source::InPlace(plan.project.clone())
    } else {
        Source::Snapshot(snapshot::take(&plan.project, &plan.rules, &plan.cache, &plan.depot)?.digest)
    };
    let provenance = inquiry.and_then(|inquiry| inquiry.finish(GIT_PATIENCE));
    let policy = Policy { attempts: plan.job.resume.attempts, on: plan.job.resume.on.clone() };
    let batch = Batch {
        project: plan.project,
        target: plan.target,
        declared: plan.declared,
        depot: plan.depot,
        job: plan.job,
        source,
        env: plan.env,
        extra: plan.extra,
        site: None,
        provenance,
    };
    let moment = now();
    let new = |run: PlannedRun| NewRun {
        id: run.id,
        name: run.name,
        seed: run.seed,
        params: run.params,
        run: Run::new(policy.clone(), moment),
        retry_of: None,
    };
    let runs: Vec<NewRun> = plan.runs.into_iter().map(new).collect();
    ledger.submit(&batch, &runs, moment)?;
    Ok(runs.into_iter().map(|run| run.id).collect())
}

/// The same again: a new run with the code, settings, seed and parameters of one that has ended.
pub fn again(ledger: &mut Ledger, run: &crate::ledger::RunRow) -> Result<RunId, LedgerError> {
    let batch = ledger.batch(run.batch)?;
    let moment = now();
    let id = new_id();
    let new = NewRun {
        id,
        name: run.name.clone(),
        seed: run.seed,
        params: run.params.clone(),
        run: Run::new(run.run.policy.clone(), moment),
        retry_of: Some(run.id),
    };
    ledger.submit(&batch, &[new], moment)?;
    Ok(id)
}
