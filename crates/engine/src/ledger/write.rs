//! Writing: a submission, a request, or a batch of changes, each in one transaction.

use std::path::Path;

use rusqlite::{Transaction, TransactionBehavior, params};
use trainyard_agent::order::AttemptResult;
use trainyard_core::id::{RunId, Token};
use trainyard_core::plan::slots::Slot;
use trainyard_core::run::{Run, State};
use trainyard_core::spec::TargetSpec;
use trainyard_core::time::Instant;

use super::read::json;
use super::sweeps;
use super::{Batch, Change, Commit, Ledger, LedgerError, NewRun, Request};
use crate::provenance::Provenance;
use crate::site::SitePlan;

impl Ledger {
    /// Records a submission: all of its runs or none.
    pub fn submit(&mut self, batch: &Batch, runs: &[NewRun], now: Instant) -> Result<i64, LedgerError> {
        self.transact(Commit::Durable, |tx| insert(tx, batch, runs, now))
    }

    /// The same for several at once.
    pub fn submit_all(&mut self, parts: &[(Batch, Vec<NewRun>)], now: Instant) -> Result<Vec<i64>, LedgerError> {
        self.transact(Commit::Durable, |tx| parts.iter().map(|(batch, runs)| insert(tx, batch, runs, now)).collect())
    }

    pub fn request(&mut self, runs: &[RunId], request: Request, now: Instant) -> Result<(), LedgerError> {
        let what = match request {
            Request::Cancel => "cancel",
        };
        self.transact(Commit::Durable, |tx| {
            let mut insert = tx.prepare_cached(
                "INSERT INTO requests (run, what, at) SELECT seq, ?2, ?3 FROM runs WHERE id = ?1 AND ended IS NULL",
            )?;
            for run in runs {
                insert.execute(params![run.0.simple().to_string(), what, now.0])?;
            }
            Ok(())
        })
    }

    /// What git said of a submission's project after it was recorded.
    pub fn set_provenance(&mut self, batch: i64, provenance: &Provenance) -> Result<(), LedgerError> {
        let text = serde_json::to_string(provenance)?;
        self.transact(Commit::Quick, |tx| {
            tx.execute("UPDATE batches SET provenance = ?2 WHERE id = ?1", params![batch, text])?;
            Ok(())
        })
    }

    pub fn apply(&mut self, commit: Commit, changes: &[Change]) -> Result<(), LedgerError> {
        if changes.is_empty() {
            return Ok(());
        }
        self.transact(commit, |tx| changes.iter().try_for_each(|change| apply(tx, change)))
    }

    /// Forgets ended runs; the caller has removed their folders.
    pub fn forget(&mut self, runs: &[RunId]) -> Result<(), LedgerError> {
        self.transact(Commit::Durable, |tx| {
            for run in runs {
                let id = run.0.simple().to_string();
                let mut find = tx.prepare_cached("SELECT seq FROM runs WHERE id = ?1 AND ended IS NOT NULL")?;
                let Ok(seq) = find.query_row([&id], |row| row.get::<_, i64>(0)) else { continue };
                for sql in [
                    "DELETE FROM events WHERE run = ?1",
                    "DELETE FROM attempts WHERE run = ?1",
                    "DELETE FROM requests WHERE run = ?1",
                    "DELETE FROM runs WHERE seq = ?1",
                ] {
                    tx.prepare_cached(sql)?.execute([seq])?;
                }
            }
            tx.execute(
                "DELETE FROM batches WHERE id NOT IN (SELECT batch FROM runs)
                 AND id NOT IN (SELECT value FROM sweeps, json_each(sweeps.batches))",
                [],
            )?;
            Ok(())
        })
    }

    /// For a copy that was made elsewhere: its runs are reached as this target says, and belong to this project.
    pub fn redirect(&mut self, target: &TargetSpec, project: &Path) -> Result<(), LedgerError> {
        self.transact(Commit::Quick, |tx| {
            let mut found: Vec<(i64, SitePlan)> = Vec::new();
            let mut statement = tx.prepare("SELECT id, site FROM batches WHERE site IS NOT NULL")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                found.push((row.get(0)?, json(row, 1)?));
            }
            for (id, plan) in found {
                let plan = SitePlan { target: target.clone(), ..plan };
                let values = params![id, serde_json::to_string(&plan)?, project.to_string_lossy()];
                tx.execute("UPDATE batches SET site = ?2, project = ?3 WHERE id = ?1", values)?;
            }
            Ok(())
        })
    }

    pub(super) fn transact<T>(
        &mut self,
        commit: Commit,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        if commit == Commit::Durable {
            self.db.pragma_update(None, "synchronous", "full")?;
        }
        let done = (|| {
            let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = work(&tx)?;
            tx.commit()?;
            Ok(value)
        })();
        if commit == Commit::Durable {
            self.db.pragma_update(None, "synchronous", "normal")?;
        }
        done
    }
}

fn insert(tx: &Transaction<'_>, batch: &Batch, runs: &[NewRun], now: Instant) -> Result<i64, LedgerError> {
    let id = insert_batch(tx, batch, now)?;
    for run in runs {
        insert_run(tx, id, &batch.job.name, &batch.target, run, now)?;
        if let Some(place) = &run.place {
            let (seq, number) = (tx.last_insert_rowid(), run.run.last_attempt);
            let (token, slot) = (Token::new(run.id, number), Slot::of(batch.demand()));
            let place = Some(place.clone());
            apply(tx, &Change::Attempt { seq, number, token, slot, place, at: now })?;
        }
    }
    Ok(id)
}

pub(super) fn insert_batch(tx: &Transaction<'_>, batch: &Batch, now: Instant) -> Result<i64, LedgerError> {
    tx.execute(
        "INSERT INTO batches (project, target, job, source, env, extra, created, declared, depot, site, provenance, tie)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            batch.project.to_string_lossy(),
            batch.target,
            serde_json::to_string(&batch.job)?,
            serde_json::to_string(&batch.source)?,
            serde_json::to_string(&batch.env)?,
            serde_json::to_string(&batch.extra)?,
            now.0,
            serde_json::to_string(&batch.declared)?,
            batch.depot.root().to_string_lossy(),
            batch.site.as_ref().map(serde_json::to_string).transpose()?,
            batch.provenance.as_ref().map(serde_json::to_string).transpose()?,
            batch.tie.as_ref().map(serde_json::to_string).transpose()?,
        ],
    )?;
    Ok(tx.last_insert_rowid())
}

pub(super) fn insert_run(
    tx: &Transaction<'_>,
    batch: i64,
    job: &str,
    target: &str,
    run: &NewRun,
    now: Instant,
) -> Result<(), LedgerError> {
    tx.prepare_cached(
        "INSERT INTO runs (id, batch, name, job, target, seed, params, state, body, attempt, created, retry_of, begins_with)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?13, ?10, ?11, ?12)",
    )?
    .execute(params![
        run.id.0.simple().to_string(),
        batch,
        run.name,
        job,
        target,
        run.seed.map(u64::cast_signed),
        serde_json::to_string(&run.params)?,
        run.run.state.word(),
        serde_json::to_string(&run.run)?,
        now.0,
        run.retry_of.map(|id| id.0.simple().to_string()),
        run.from.map(|id| id.0.simple().to_string()),
        run.run.last_attempt,
    ])?;
    Ok(())
}

fn apply(tx: &Transaction<'_>, change: &Change) -> Result<(), LedgerError> {
    match change {
        Change::State { seq, run, at, what } => set_state(tx, *seq, run, *at, what),
        Change::Attempt { seq, number, token, slot, place, at } => {
            let sql = "INSERT INTO attempts (run, number, token, slot, created, place) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            let place = place.as_ref().map(serde_json::to_string).transpose()?;
            let slot = serde_json::to_string(slot)?;
            tx.prepare_cached(sql)?.execute(params![seq, number, token.as_str(), slot, at.0, place])?;
            Ok(())
        }
        Change::Result { seq, number, result } => set_result(tx, *seq, *number, result),
        Change::Note { seq, note } => {
            tx.prepare_cached("UPDATE runs SET note = ?2 WHERE seq = ?1")?.execute(params![seq, note])?;
            Ok(())
        }
        Change::Site { name, at, problem } => set_site(tx, name, *at, problem.as_deref()),
        Change::Started { seq, at } => {
            tx.prepare_cached("UPDATE runs SET started = coalesce(started, ?2) WHERE seq = ?1")?
                .execute(params![seq, at.0])?;
            Ok(())
        }
        Change::Metrics { seq, metrics } => {
            tx.prepare_cached("UPDATE runs SET metrics = ?2 WHERE seq = ?1")?
                .execute(params![seq, serde_json::to_string(metrics)?])?;
            Ok(())
        }
        Change::Course { seq, course } => {
            tx.prepare_cached("UPDATE runs SET course = ?2 WHERE seq = ?1")?
                .execute(params![seq, serde_json::to_string(course)?])?;
            Ok(())
        }
        Change::Sweep { sweep, change } => sweeps::apply(tx, *sweep, change),
        Change::RequestsUpTo { id } => {
            tx.prepare_cached("DELETE FROM requests WHERE id <= ?1")?.execute([id])?;
            Ok(())
        }
    }
}

/// An attempt that a site began by itself has no row yet; it has the place of the one before.
fn set_result(tx: &Transaction<'_>, seq: i64, number: u32, result: &AttemptResult) -> Result<(), LedgerError> {
    let sql = "INSERT INTO attempts (run, number, token, slot, created, place, result)
               SELECT ?1, ?2, ?3, slot, ?4, place, ?5 FROM attempts WHERE run = ?1 AND number <= ?2
               ORDER BY number DESC LIMIT 1
               ON CONFLICT (run, number) DO UPDATE SET result = excluded.result";
    let text = serde_json::to_string(result)?;
    tx.prepare_cached(sql)?.execute(params![seq, number, result.token.as_str(), result.started.0, text])?;
    Ok(())
}

fn set_site(tx: &Transaction<'_>, name: &str, at: Instant, problem: Option<&str>) -> Result<(), LedgerError> {
    let sql = match problem {
        None => {
            "INSERT INTO sites (name, seen) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET seen = excluded.seen, problem = NULL, since = NULL"
        }
        Some(_) => {
            "INSERT INTO sites (name, since, problem) VALUES (?1, ?2, ?3)
             ON CONFLICT (name) DO UPDATE SET problem = excluded.problem, since = coalesce(since, excluded.since)"
        }
    };
    let mut statement = tx.prepare_cached(sql)?;
    match problem {
        None => statement.execute(params![name, at.0])?,
        Some(problem) => statement.execute(params![name, at.0, problem])?,
    };
    Ok(())
}

fn set_state(tx: &Transaction<'_>, seq: i64, run: &Run, at: Instant, what: &str) -> Result<(), LedgerError> {
    let (exit_code, reason) = match &run.state {
        State::Succeeded { .. } => (Some(0), None),
        State::Failed { reason, .. } => {
            (reason.outcome().and_then(|outcome| outcome.exit_code()), Some(reason.to_string()))
        }
        State::Cancelled { why, .. } => (None, why.clone()),
        State::Queued { .. }
        | State::Starting { .. }
        | State::Waiting { .. }
        | State::Running { .. }
        | State::Cancelling { .. } => (None, None),
    };
    tx.prepare_cached(
        "UPDATE runs SET state = ?2, body = ?3, attempt = ?4, exit_code = ?5, reason = ?6, ended = ?7,
         note = CASE WHEN ?8 THEN note END WHERE seq = ?1",
    )?
    .execute(params![
        seq,
        run.state.word(),
        serde_json::to_string(run)?,
        run.last_attempt,
        exit_code,
        reason,
        run.state.ended_at().map(|at| at.0),
        matches!(run.state, State::Starting { .. } | State::Waiting { .. } | State::Cancelling { .. }),
    ])?;
    if !what.is_empty() {
        tx.prepare_cached("INSERT INTO events (run, at, what) VALUES (?1, ?2, ?3)")?
            .execute(params![seq, at.0, what])?;
    }
    Ok(())
}
