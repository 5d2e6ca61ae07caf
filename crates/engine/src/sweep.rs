//! A sweep for people: begun from a file, and read back from the ledger at any moment.

mod known;

use std::collections::HashMap;

use trainyard_agent::disk::now;
use trainyard_core::id::RunId;
use trainyard_core::plan::slurm::Facts;
use trainyard_core::search::{Fate, Leg, Phase, Spent, Sweep};
use trainyard_core::spec::{JobSpec, SweepSpec};
use trainyard_core::time::{Instant, Span};
use trainyard_core::value::Params;

use crate::home::Home;
use crate::ledger::{Ledger, LedgerError, RunRow, SweepRow};
use crate::submit::{self, Delivered, Plan, SubmitError, Wish};

pub use known::{KnownError, known};

/// The job as its trials run it: its agent reports the course of the metric.
pub fn job(job: &JobSpec, spec: &SweepSpec) -> JobSpec {
    JobSpec { objective: Some(spec.metric.clone()), ..job.clone() }
}

/// A run that a sweep would begin with.
#[derive(Debug)]
pub struct First {
    pub seed: u64,
    pub params: Params,
}

pub fn preview(spec: &SweepSpec) -> Result<Vec<First>, LedgerError> {
    let failed = |error| LedgerError::Sweep { name: spec.name.clone(), error };
    let mut sweep = Sweep::new(spec.clone()).map_err(failed)?;
    sweep.fill(Spent::default(), 1);
    let first = |leg: &Leg| Some(First { seed: leg.seed, params: sweep.params_of(leg.trial)? });
    Ok(sweep.open().filter_map(|leg| first(sweep.leg(leg)?)).collect())
}

/// Checks everything that can be checked here, with the parameters of the first trial.
pub fn plan(wish: &Wish<'_>, first: &Params, home: &Home, facts: Option<&Facts>) -> Result<Plan, SubmitError> {
    let mut with_params = wish.job.clone();
    with_params.params.extend(first.clone());
    let mut plan = submit::plan(&Wish { job: &with_params, ..wish.clone() }, home, facts)?;
    plan.job.params.clone_from(&wish.job.params);
    Ok(plan)
}

/// Afterwards the ledger holds the sweep with all its targets, or nothing of it.
pub fn begin(spec: &SweepSpec, plans: Vec<(Plan, Delivered)>, ledger: &mut Ledger) -> Result<SweepRow, SubmitError> {
    let batches: Vec<_> = plans.into_iter().map(|(plan, delivered)| submit::batch(plan, delivered).0).collect();
    let id = ledger.begin_sweep(spec, &batches, now())?;
    let row = ledger.sweep(id)?;
    row.ok_or_else(|| LedgerError::Sql(rusqlite::Error::QueryReturnedNoRows).into())
}

/// All that is known of a sweep.
pub struct Overview {
    pub row: SweepRow,
    pub sweep: Sweep,
    pub phase: Phase,
    /// The run of each leg that has begun.
    pub runs: Vec<Option<RunId>>,
    /// Runs that go on, by their leg.
    pub going: HashMap<u32, RunRow>,
    /// All its runs have been running for, together.
    pub seconds: f64,
    pub now: Instant,
}

impl Overview {
    pub fn of(ledger: &Ledger, row: SweepRow) -> Result<Self, LedgerError> {
        let now = now();
        let record = ledger.sweep_record(&row)?;
        let failed = |error| LedgerError::Sweep { name: row.name.clone(), error };
        let sweep = Sweep::restore(record.record).map_err(failed)?;
        let mut going = HashMap::new();
        for leg in sweep.open() {
            let run = record.runs.get(leg as usize).copied().flatten();
            let found = run.map(|run| ledger.run(run)).transpose()?.flatten();
            going.extend(found.filter(|found| found.ended.is_none()).map(|found| (leg, found)));
        }
        let seconds = ledger.seconds_of_sweep(&row, now)?;
        let job = row.batches.first().map(|batch| ledger.batch(*batch)).transpose()?.map(|batch| batch.job);
        let gpus = job.map_or(0.0, |job| job.total_gpus().as_f64());
        let phase = sweep.phase(ledger.spent_by_sweep(&row, gpus, now)?);
        Ok(Self { row, sweep, phase, runs: record.runs, going, seconds, now })
    }

    /// Trials whose fate is known, and how many there are to be, if that is counted.
    pub fn progress(&self) -> (usize, Option<u32>) {
        let ended = self.sweep.ended_legs();
        (ended, self.sweep.expected_legs())
    }

    /// How long it will still take if runs go on taking as long as they did.
    pub fn left(&self) -> Option<Span> {
        let (ended, expected) = self.progress();
        let remaining = f64::from(expected?) - ended as f64;
        if ended == 0 || self.row.ended.is_some() {
            return None;
        }
        let each = self.seconds / (ended as f64 + 0.5 * self.going.len() as f64);
        let parallel = f64::from(self.row.spec.parallel).min(remaining.max(1.0));
        Some(Span((remaining.max(0.0) * each / parallel * 1000.0) as u64))
    }

    /// All parameters its runs got, also those that follow from others.
    pub fn params_of(&self, trial: u32) -> Params {
        self.sweep.params_of(trial).unwrap_or_default()
    }

    /// How many trials there are of each fate.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for trial in self.sweep.trials() {
            match trial.fate {
                Fate::Pending => tally.going += 1,
                Fate::Done { .. } => tally.done += 1,
                Fate::Stopped { .. } => tally.stopped += 1,
                Fate::Failed => tally.failed += 1,
                Fate::Lost => tally.lost += 1,
            }
        }
        tally
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub going: usize,
    pub done: usize,
    pub stopped: usize,
    pub failed: usize,
    pub lost: usize,
}
