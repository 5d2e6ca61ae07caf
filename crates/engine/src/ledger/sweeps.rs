//! Sweeps: what was decided, in the order it was decided. A sweep can be made again from it at any moment.

use rusqlite::{OptionalExtension, Row, Transaction, params};
use serde::{Deserialize, Serialize};
use trainyard_core::id::RunId;
use trainyard_core::search::{End, Fate, Leg, LegRecord, Record, Spent, Told};
use trainyard_core::spec::{More, SweepSpec};
use trainyard_core::time::Instant;
use trainyard_core::value::Params;

use super::read::{id, json, optional};
use super::write::{insert_batch, insert_run};
use super::{Batch, Commit, Ledger, LedgerError, NewRun};

/// A sweep as people see it.
#[derive(Debug, Clone)]
pub struct SweepRow {
    pub id: i64,
    pub name: String,
    pub spec: SweepSpec,
    /// One submission for each target it uses.
    pub batches: Vec<i64>,
    pub state: SweepState,
    pub reason: Option<String>,
    pub created: Instant,
    pub ended: Option<Instant>,
    /// Trials in a row that have come to nothing.
    pub failures: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SweepState {
    Going,
    /// Begins nothing new.
    Paused,
    Done,
    Stopped,
    /// It gave up.
    Failed,
}

/// Something a person wants of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum SweepRequest {
    Pause,
    Resume,
    /// Ends its runs, too.
    Stop,
    Extend(More),
}

/// One thing to remember of a sweep.
#[derive(Debug)]
pub enum SweepChange {
    Try {
        trial: u32,
        params: Params,
    },
    Fate {
        trial: u32,
        fate: Fate,
    },
    Await {
        leg: u32,
        what: Leg,
    },
    /// With it the run enters the ledger.
    Begin {
        leg: u32,
        batch: i64,
        job: String,
        target: String,
        run: Box<NewRun>,
        at: Instant,
    },
    Ended {
        leg: u32,
        end: End,
    },
    Told {
        number: u32,
        what: Told,
    },
    State {
        state: SweepState,
        reason: Option<String>,
        at: Instant,
    },
    Spec {
        spec: Box<SweepSpec>,
    },
    Failures {
        in_a_row: u32,
    },
    RequestsUpTo {
        id: i64,
    },
}

/// What was recorded of a sweep, and the runs of its legs.
#[derive(Debug)]
pub struct SweepRecord {
    pub record: Record,
    pub runs: Vec<Option<RunId>>,
}

impl SweepState {
    pub fn word(self) -> &'static str {
        match self {
            Self::Going => "going",
            Self::Paused => "paused",
            Self::Done => "done",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }

    pub fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Stopped | Self::Failed)
    }
}

const COLUMNS: &str = "id, name, spec, batches, state, reason, created, ended, failures";

impl Ledger {
    /// Records a sweep with one submission for each of its targets; its runs come by and by.
    pub fn begin_sweep(&mut self, spec: &SweepSpec, batches: &[Batch], now: Instant) -> Result<i64, LedgerError> {
        self.transact(Commit::Durable, |tx| {
            let batches = batches.iter().map(|batch| insert_batch(tx, batch, now)).collect::<Result<Vec<_>, _>>()?;
            tx.execute(
                "INSERT INTO sweeps (name, spec, batches, state, created) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![
                    spec.name,
                    serde_json::to_string(spec)?,
                    serde_json::to_string(&batches)?,
                    SweepState::Going.word(),
                    now.0
                ],
            )?;
            Ok(tx.last_insert_rowid())
        })
    }

    pub fn ask_of_sweep(&mut self, sweep: i64, what: &SweepRequest, now: Instant) -> Result<(), LedgerError> {
        self.transact(Commit::Durable, |tx| {
            tx.execute(
                "INSERT INTO sweep_requests (sweep, what, at) VALUES (?1, ?2, ?3)",
                params![sweep, serde_json::to_string(what)?, now.0],
            )?;
            Ok(())
        })
    }

    /// In the order they were made, with their numbers.
    pub fn sweep_requests(&self) -> Result<Vec<(i64, i64, SweepRequest)>, LedgerError> {
        let mut statement = self.db.prepare_cached("SELECT id, sweep, what FROM sweep_requests ORDER BY id")?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push((row.get(0)?, row.get(1)?, json(row, 2)?));
        }
        Ok(found)
    }

    /// Newest last.
    pub fn sweeps(&self) -> Result<Vec<SweepRow>, LedgerError> {
        self.sweep_rows(&format!("SELECT {COLUMNS} FROM sweeps ORDER BY id"))
    }

    pub fn open_sweeps(&self) -> Result<Vec<SweepRow>, LedgerError> {
        self.sweep_rows(&format!("SELECT {COLUMNS} FROM sweeps WHERE ended IS NULL ORDER BY id"))
    }

    fn sweep_rows(&self, sql: &str) -> Result<Vec<SweepRow>, LedgerError> {
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(sweep_row(row)?);
        }
        Ok(found)
    }

    /// By its number, or the newest of this name.
    pub fn find_sweep(&self, given: &str) -> Result<Option<SweepRow>, LedgerError> {
        let number: Option<i64> = given.parse().ok();
        let sql =
            format!("SELECT {COLUMNS} FROM sweeps WHERE name = ?1 OR id = ?2 ORDER BY name = ?1 DESC, id DESC LIMIT 1");
        let mut statement = self.db.prepare_cached(&sql)?;
        statement.query(params![given, number])?.next()?.map(sweep_row).transpose()
    }

    pub fn sweep(&self, id: i64) -> Result<Option<SweepRow>, LedgerError> {
        let mut statement = self.db.prepare_cached(&format!("SELECT {COLUMNS} FROM sweeps WHERE id = ?1"))?;
        statement.query([id])?.next()?.map(sweep_row).transpose()
    }

    pub fn sweep_record(&self, row: &SweepRow) -> Result<SweepRecord, LedgerError> {
        let mut trials = Vec::new();
        let mut statement =
            self.db.prepare_cached("SELECT params, fate FROM trials WHERE sweep = ?1 ORDER BY number")?;
        let mut rows = statement.query([row.id])?;
        while let Some(row) = rows.next()? {
            trials.push((json(row, 0)?, optional(row, 1)?));
        }
        let (mut legs, mut runs) = (Vec::new(), Vec::new());
        let mut statement =
            self.db.prepare_cached("SELECT body, run, result FROM legs WHERE sweep = ?1 ORDER BY number")?;
        let mut rows = statement.query([row.id])?;
        while let Some(row) = rows.next()? {
            let run = row.get_ref(1)?.as_str_or_null().map_err(rusqlite::Error::from)?.map(id);
            legs.push(LegRecord { leg: json(row, 0)?, has_begun: run.is_some(), end: optional(row, 2)? });
            runs.push(run);
        }
        let mut told = Vec::new();
        let mut statement = self.db.prepare_cached("SELECT body FROM judgements WHERE sweep = ?1 ORDER BY number")?;
        let mut rows = statement.query([row.id])?;
        while let Some(row) = rows.next()? {
            told.push(json(row, 0)?);
        }
        let record = Record { spec: row.spec.clone(), trials, legs, told, failures: row.failures };
        Ok(SweepRecord { record, runs })
    }

    /// The submission that each leg's run went with, unless it was cleaned away.
    pub fn batches_of_legs(&self, sweep: i64) -> Result<Vec<(u32, i64)>, LedgerError> {
        let sql = "SELECT legs.number, runs.batch FROM legs JOIN runs ON runs.id = legs.run WHERE legs.sweep = ?1";
        let mut statement = self.db.prepare_cached(sql)?;
        let rows = statement.query_map([sweep], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Which sweep and which leg of it a run is.
    pub fn leg_of(&self, run: RunId) -> Result<Option<(i64, u32)>, LedgerError> {
        let sql = "SELECT sweep, number FROM legs WHERE run = ?1";
        let find = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        Ok(self.db.prepare_cached(sql)?.query_row([run.0.simple().to_string()], find).optional()?)
    }

    /// What a sweep whose runs have so many GPUs has used of its budget.
    pub fn spent_by_sweep(&self, row: &SweepRow, gpus: f64, now: Instant) -> Result<Spent, LedgerError> {
        if row.spec.budget.is_unlimited() {
            return Ok(Spent::default());
        }
        let running = if row.spec.budget.gpu_hours.is_some() { self.seconds_of_sweep(row, now)? } else { 0.0 };
        let seconds = now.since(row.created).as_duration().as_secs_f64();
        Ok(Spent { seconds, gpu_hours: running * gpus / 3600.0 })
    }

    /// Seconds that its runs have been running, all together.
    pub fn seconds_of_sweep(&self, row: &SweepRow, now: Instant) -> Result<f64, LedgerError> {
        let sql = "SELECT coalesce(sum(coalesce(ended, ?2) - started), 0) FROM runs
                   WHERE batch = ?1 AND started IS NOT NULL";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut milliseconds = 0;
        for batch in &row.batches {
            milliseconds += statement.query_row(params![batch, now.0], |row| row.get::<_, i64>(0))?;
        }
        Ok(milliseconds as f64 / 1000.0)
    }
}

pub(super) fn apply(tx: &Transaction<'_>, sweep: i64, change: &SweepChange) -> Result<(), LedgerError> {
    match change {
        SweepChange::Try { trial, params: sampled } => {
            let sql = "INSERT INTO trials (sweep, number, params) VALUES (?1, ?2, ?3)
                       ON CONFLICT (sweep, number) DO UPDATE SET params = excluded.params";
            tx.prepare_cached(sql)?.execute(params![sweep, trial, serde_json::to_string(sampled)?])?;
        }
        SweepChange::Fate { trial, fate } => {
            let sql = "UPDATE trials SET fate = ?3 WHERE sweep = ?1 AND number = ?2";
            tx.prepare_cached(sql)?.execute(params![sweep, trial, serde_json::to_string(fate)?])?;
        }
        SweepChange::Await { leg, what } => {
            let sql = "INSERT INTO legs (sweep, number, body) VALUES (?1, ?2, ?3)";
            tx.prepare_cached(sql)?.execute(params![sweep, leg, serde_json::to_string(what)?])?;
        }
        SweepChange::Begin { leg, batch, job, target, run, at } => {
            insert_run(tx, *batch, job, target, run, *at)?;
            let sql = "UPDATE legs SET run = ?3 WHERE sweep = ?1 AND number = ?2";
            tx.prepare_cached(sql)?.execute(params![sweep, leg, run.id.0.simple().to_string()])?;
        }
        SweepChange::Ended { leg, end } => {
            let sql = "UPDATE legs SET result = ?3 WHERE sweep = ?1 AND number = ?2";
            tx.prepare_cached(sql)?.execute(params![sweep, leg, serde_json::to_string(end)?])?;
        }
        SweepChange::Told { number, what } => {
            let sql = "INSERT INTO judgements (sweep, number, body) VALUES (?1, ?2, ?3)";
            tx.prepare_cached(sql)?.execute(params![sweep, number, serde_json::to_string(what)?])?;
        }
        SweepChange::State { state, reason, at } => {
            let ended = state.has_ended().then_some(at.0);
            let sql = "UPDATE sweeps SET state = ?2, reason = ?3, ended = ?4 WHERE id = ?1";
            tx.prepare_cached(sql)?.execute(params![sweep, state.word(), reason, ended])?;
        }
        SweepChange::Spec { spec } => {
            let sql = "UPDATE sweeps SET spec = ?2 WHERE id = ?1";
            tx.prepare_cached(sql)?.execute(params![sweep, serde_json::to_string(spec)?])?;
        }
        SweepChange::Failures { in_a_row } => {
            let sql = "UPDATE sweeps SET failures = ?2 WHERE id = ?1";
            tx.prepare_cached(sql)?.execute(params![sweep, in_a_row])?;
        }
        SweepChange::RequestsUpTo { id } => {
            let sql = "DELETE FROM sweep_requests WHERE sweep = ?1 AND id <= ?2";
            tx.prepare_cached(sql)?.execute(params![sweep, id])?;
        }
    }
    Ok(())
}

fn sweep_row(row: &Row<'_>) -> Result<SweepRow, LedgerError> {
    let word: String = row.get(4)?;
    Ok(SweepRow {
        id: row.get(0)?,
        name: row.get(1)?,
        spec: json(row, 2)?,
        batches: json(row, 3)?,
        state: serde_json::from_value(word.into())?,
        reason: row.get(5)?,
        created: Instant(row.get(6)?),
        ended: row.get::<_, Option<i64>>(7)?.map(Instant),
        failures: row.get(8)?,
    })
}
