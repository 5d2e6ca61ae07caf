//! Reading: what commands show and the yardmaster takes up.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, Row, params};
use serde::de::DeserializeOwned;
use trainyard_agent::depot::Depot;
use trainyard_agent::order::Source;
use trainyard_core::id::{RunId, Token};
use trainyard_core::spec::TargetSpec;
use trainyard_core::time::Instant;
use uuid::Uuid;

use crate::site::SitePlan;

use super::{AttemptRow, Batch, EventRow, Ledger, LedgerError, OpenRun, Request, RunRow, SiteRow};

/// Which runs to show.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub recent: Recent,
    pub job: Option<String>,
    pub target: Option<String>,
    pub state: Option<String>,
    pub batch: Option<i64>,
    /// What the runs of a group are tied by.
    pub tie: Option<String>,
}

/// How far back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Recent {
    /// Everything open, and this many that ended last.
    #[default]
    Short,
    All,
}

/// Ended runs shown beside the open ones.
const SHORT: i64 = 20;

#[derive(Debug, thiserror::Error)]
#[error("`{given}` could be any of {}", candidates.join(", "))]
pub struct Ambiguous {
    pub given: String,
    pub candidates: Vec<String>,
}

const COLUMNS: &str = "seq, id, batch, name, job, target, seed, params, state, body, attempt, exit_code, reason, metrics, \
                       created, started, ended, retry_of, note, course, begins_with, \
                       (SELECT coalesce(batches.job ->> 'objective', batches.job ->> 'headline') FROM batches \
                        WHERE batches.id = runs.batch AND json_valid(batches.job))";

impl Ledger {
    /// Newest last.
    pub fn runs(&self, filter: &Filter) -> Result<Vec<RunRow>, LedgerError> {
        let mut sql =
            format!("SELECT {COLUMNS} FROM runs WHERE (?1 IS NULL OR job = ?1) AND (?2 IS NULL OR target = ?2)");
        sql.push_str(" AND (?3 IS NULL OR state = ?3) AND (?4 IS NULL OR batch = ?4)");
        sql.push_str(" AND (?5 IS NULL OR batch IN (SELECT id FROM batches WHERE tie ->> '$.id' = ?5))");
        let narrowed = filter.job.is_some()
            || filter.target.is_some()
            || filter.state.is_some()
            || filter.batch.is_some()
            || filter.tie.is_some();
        if filter.recent == Recent::Short && !narrowed {
            sql.push_str(&format!(
                " AND seq IN (SELECT seq FROM runs WHERE ended IS NULL UNION ALL \
                 SELECT seq FROM (SELECT seq FROM runs WHERE ended IS NOT NULL ORDER BY seq DESC LIMIT {SHORT}))"
            ));
        }
        sql.push_str(" ORDER BY seq");
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query(params![filter.job, filter.target, filter.state, filter.batch, filter.tie])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(run_row(row)?);
        }
        Ok(found)
    }

    pub fn run(&self, id: RunId) -> Result<Option<RunRow>, LedgerError> {
        let mut statement = self.db.prepare_cached(&format!("SELECT {COLUMNS} FROM runs WHERE id = ?1"))?;
        let mut rows = statement.query([id.0.simple().to_string()])?;
        rows.next()?.map(run_row).transpose()
    }

    /// A run by its readable name (the newest of that name), its id, or any prefix of the id that fits only one.
    pub fn find(&self, given: &str) -> Result<Option<RunRow>, LedgerError> {
        let by_name = format!("SELECT {COLUMNS} FROM runs WHERE name = ?1 ORDER BY seq DESC LIMIT 1");
        let mut statement = self.db.prepare_cached(&by_name)?;
        if let Some(row) = statement.query([given])?.next()? {
            return run_row(row).map(Some);
        }
        let prefix = given.replace('-', "").to_ascii_lowercase();
        if prefix.is_empty() || !prefix.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let by_prefix = format!("SELECT {COLUMNS} FROM runs WHERE id >= ?1 AND id < ?1 || 'g' ORDER BY id LIMIT 6");
        let mut statement = self.db.prepare_cached(&by_prefix)?;
        let mut rows = statement.query([prefix])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(run_row(row)?);
        }
        if found.len() > 1 {
            let candidates = found.iter().map(|row| format!("{} ({})", row.id, row.name)).collect();
            return Err(Ambiguous { given: given.to_owned(), candidates }.into());
        }
        Ok(found.pop())
    }

    /// The newest submission of a job, or under a name that its seeds were added to.
    pub fn newest_batch(&self, name: &str) -> Result<Option<i64>, LedgerError> {
        let seeds = format!("{name}-s");
        let sql = "SELECT batch FROM runs WHERE job = ?1 OR (name >= ?2 AND name < ?2 || ':' AND seed IS NOT NULL)
                   ORDER BY seq DESC LIMIT 1";
        Ok(self.db.prepare_cached(sql)?.query_row(params![name, seeds], |row| row.get(0)).optional()?)
    }

    /// Submissions with open runs, and the last few; newest last.
    pub fn recent_batches(&self) -> Result<Vec<i64>, LedgerError> {
        let sql = format!(
            "SELECT batch FROM (SELECT batch FROM runs INDEXED BY runs_open WHERE ended IS NULL UNION
             SELECT id FROM (SELECT id FROM batches ORDER BY id DESC LIMIT {SHORT})) ORDER BY batch"
        );
        let mut statement = self.db.prepare_cached(&sql)?;
        let rows = statement.query_map([], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The oldest run of a submission.
    pub fn first_of(&self, batch: i64) -> Result<Option<RunRow>, LedgerError> {
        let sql = format!("SELECT {COLUMNS} FROM runs WHERE seq = (SELECT min(seq) FROM runs WHERE batch = ?1)");
        let mut statement = self.db.prepare_cached(&sql)?;
        statement.query([batch])?.next()?.map(run_row).transpose()
    }

    /// The least and the greatest seed of a submission.
    pub fn seeds_of(&self, batch: i64) -> Result<Option<(u64, u64)>, LedgerError> {
        let sql = "SELECT min(seed), max(seed) FROM runs WHERE batch = ?1";
        let seeds: (Option<i64>, Option<i64>) =
            self.db.prepare_cached(sql)?.query_row([batch], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(seeds.0.zip(seeds.1).map(|(least, greatest)| (least.cast_unsigned(), greatest.cast_unsigned())))
    }

    /// How many runs of a submission are in each state, by the state's word.
    pub fn tally(&self, batch: i64) -> Result<Vec<(String, i64)>, LedgerError> {
        let sql = "SELECT state, count(*) FROM runs WHERE batch = ?1 GROUP BY state ORDER BY state";
        let mut statement = self.db.prepare_cached(sql)?;
        let rows = statement.query_map([batch], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// How many digits of this id tell it from all others.
    pub fn unique_digits(&self, id: RunId) -> Result<usize, LedgerError> {
        let own = id.0.simple().to_string();
        let neighbours = [
            "SELECT id FROM runs WHERE id < ?1 ORDER BY id DESC LIMIT 1",
            "SELECT id FROM runs WHERE id > ?1 ORDER BY id LIMIT 1",
        ];
        let mut shared = 0;
        for sql in neighbours {
            let other: Option<String> = self.db.prepare_cached(sql)?.query_row([&own], |row| row.get(0)).optional()?;
            let common = other.map_or(0, |other| own.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count());
            shared = shared.max(common);
        }
        Ok(shared + 1)
    }

    /// The next open runs after `seq`, in queue order; none when there are no more.
    pub fn open_after(&self, seq: i64) -> Result<Vec<OpenRun>, LedgerError> {
        let sql = "SELECT seq, id, batch, name, seed, params, body, begins_with FROM runs
                   WHERE ended IS NULL AND seq > ?1 ORDER BY seq LIMIT 1000";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query([seq])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(OpenRun {
                seq: row.get(0)?,
                id: id(&row.get::<_, String>(1)?),
                batch: row.get(2)?,
                name: row.get(3)?,
                seed: row.get::<_, Option<i64>>(4)?.map(i64::cast_unsigned),
                params: json(row, 5)?,
                run: json(row, 6)?,
                from: row.get::<_, Option<String>>(7)?.map(|text| id(&text)),
            });
        }
        Ok(found)
    }

    /// Runs that have not ended, oldest first.
    pub fn open_rows(&self) -> Result<Vec<RunRow>, LedgerError> {
        let sql = format!("SELECT {COLUMNS} FROM runs WHERE ended IS NULL ORDER BY seq");
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(run_row(row)?);
        }
        Ok(found)
    }

    /// Those of these that have not ended.
    pub fn still_open(&self, runs: &[RunId]) -> Result<Vec<RunId>, LedgerError> {
        let mut statement = self.db.prepare_cached("SELECT 1 FROM runs WHERE id = ?1 AND ended IS NULL")?;
        let mut open = Vec::new();
        for run in runs {
            if statement.exists([run.0.simple().to_string()])? {
                open.push(*run);
            }
        }
        Ok(open)
    }

    pub fn open_count(&self) -> Result<i64, LedgerError> {
        Ok(self.db.prepare_cached("SELECT count(*) FROM runs WHERE ended IS NULL")?.query_row([], |row| row.get(0))?)
    }

    /// Whether there is anything for a yardmaster to do: runs that have not ended, a sweep that goes on, or something that
    /// somebody asked of one. A command may have been killed between recording that and knocking.
    pub fn has_work(&self) -> Result<bool, LedgerError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM runs WHERE ended IS NULL)
                   OR EXISTS (SELECT 1 FROM sweeps WHERE ended IS NULL AND state = 'going')
                   OR EXISTS (SELECT 1 FROM sweep_requests)";
        Ok(self.db.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
    }

    pub fn batch(&self, id: i64) -> Result<Batch, LedgerError> {
        let sql = "SELECT project, target, job, source, env, extra, declared, depot, site, provenance, tie FROM batches
                   WHERE id = ?1";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query([id])?;
        let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        Ok(Batch {
            project: row.get::<_, String>(0)?.into(),
            target: row.get(1)?,
            job: json(row, 2)?,
            source: json(row, 3)?,
            env: json(row, 4)?,
            extra: json(row, 5)?,
            declared: json(row, 6)?,
            depot: Depot::new(row.get::<_, String>(7)?),
            site: optional(row, 8)?,
            provenance: optional(row, 9)?,
            tie: optional(row, 10)?,
        })
    }

    pub fn attempts(&self, seq: i64) -> Result<Vec<AttemptRow>, LedgerError> {
        let sql = "SELECT number, token, slot, created, result, place FROM attempts WHERE run = ?1 ORDER BY number";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query([seq])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let token: String = row.get(1)?;
            found.push(AttemptRow {
                number: row.get(0)?,
                token: serde_json::from_value::<Token>(token.into())?,
                slot: json(row, 2)?,
                created: Instant(row.get(3)?),
                result: optional(row, 4)?,
                place: optional(row, 5)?,
            });
        }
        Ok(found)
    }

    pub fn events(&self, seq: i64) -> Result<Vec<EventRow>, LedgerError> {
        let mut statement = self.db.prepare_cached("SELECT at, what FROM events WHERE run = ?1 ORDER BY rowid")?;
        let rows = statement.query_map([seq], |row| Ok(EventRow { at: Instant(row.get(0)?), what: row.get(1)? }))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Requests with the number of the last one; taken up when [`super::Change::RequestsUpTo`] is applied.
    pub fn requests(&self) -> Result<(i64, Vec<(i64, Request)>), LedgerError> {
        let mut statement = self.db.prepare_cached("SELECT id, run, what FROM requests ORDER BY id")?;
        let mut rows = statement.query([])?;
        let (mut last, mut found) = (0, Vec::new());
        while let Some(row) = rows.next()? {
            last = row.get(0)?;
            if row.get::<_, String>(2)? == "cancel" {
                found.push((row.get(1)?, Request::Cancel));
            }
        }
        Ok((last, found))
    }

    /// Where the code of all runs but these comes from.
    pub fn sources_without(&self, going: &BTreeSet<RunId>) -> Result<Vec<Source>, LedgerError> {
        // A sweep that goes on begins runs that are in no list yet.
        let sql = "SELECT source, id FROM (
                       SELECT batches.source, runs.id, batch FROM runs JOIN batches ON batches.id = runs.batch UNION ALL
                       SELECT batches.source, '', batches.id FROM sweeps, json_each(sweeps.batches) JOIN batches
                       ON batches.id = json_each.value WHERE sweeps.ended IS NULL) ORDER BY batch";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        let mut found: Vec<Source> = Vec::new();
        while let Some(row) = rows.next()? {
            if !going.contains(&id(&row.get::<_, String>(1)?)) {
                let source = json(row, 0)?;
                if found.last() != Some(&source) {
                    found.push(source);
                }
            }
        }
        Ok(found)
    }

    /// The images that all runs but these run in, as paths where they run.
    pub fn images_without(&self, going: &BTreeSet<RunId>) -> Result<BTreeSet<String>, LedgerError> {
        let sql = "SELECT image, id FROM (
                       SELECT batches.job ->> '$.around.container.image' AS image, runs.id
                       FROM runs JOIN batches ON batches.id = runs.batch UNION ALL
                       SELECT batches.job ->> '$.around.container.image', '' FROM sweeps, json_each(sweeps.batches)
                       JOIN batches ON batches.id = json_each.value WHERE sweeps.ended IS NULL)
                   WHERE image IS NOT NULL";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        let mut found = BTreeSet::new();
        while let Some(row) = rows.next()? {
            if !going.contains(&id(&row.get::<_, String>(1)?)) {
                found.insert(row.get(0)?);
            }
        }
        Ok(found)
    }

    /// Targets elsewhere that runs were sent to, each with the settings of its newest submission.
    pub fn targets(&self) -> Result<Vec<TargetSpec>, LedgerError> {
        let sql = "SELECT site FROM batches WHERE site IS NOT NULL ORDER BY id DESC";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        let mut found: Vec<TargetSpec> = Vec::new();
        while let Some(row) = rows.next()? {
            let plan: SitePlan = json(row, 0)?;
            if !found.iter().any(|known| known.name == plan.target.name && known.depot == plan.target.depot) {
                found.push(plan.target);
            }
        }
        Ok(found)
    }

    /// Sites that were ever asked.
    pub fn sites(&self) -> Result<Vec<SiteRow>, LedgerError> {
        let mut statement = self.db.prepare_cached("SELECT name, seen, problem, since FROM sites ORDER BY name")?;
        let rows = statement.query_map([], |row| {
            let (problem, since) = (row.get::<_, Option<String>>(2)?, row.get::<_, Option<i64>>(3)?);
            let seen = row.get::<_, Option<i64>>(1)?.map(Instant);
            Ok(SiteRow { name: row.get(0)?, seen, problem: problem.zip(since.map(Instant)) })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// SQLite's own check, for `yard doctor`.
    pub fn check(&self) -> Result<String, LedgerError> {
        Ok(self.db.query_row("PRAGMA quick_check", [], |row| row.get(0))?)
    }
}

/// Ids are written by us; one that cannot be read shows as all zeroes rather than hiding its row.
pub(super) fn id(text: &str) -> RunId {
    RunId(Uuid::parse_str(text).unwrap_or_default())
}

pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T, LedgerError> {
    Ok(serde_json::from_str(row.get_ref(column)?.as_str().map_err(rusqlite::Error::from)?)?)
}

pub(super) fn optional<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<Option<T>, LedgerError> {
    let text = row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from)?;
    Ok(text.map(serde_json::from_str).transpose()?)
}

fn run_row(row: &Row<'_>) -> Result<RunRow, LedgerError> {
    Ok(RunRow {
        seq: row.get(0)?,
        id: id(&row.get::<_, String>(1)?),
        batch: row.get(2)?,
        name: row.get(3)?,
        job: row.get(4)?,
        target: row.get(5)?,
        seed: row.get::<_, Option<i64>>(6)?.map(i64::cast_unsigned),
        params: json(row, 7)?,
        state: row.get(8)?,
        run: json(row, 9)?,
        attempt: row.get(10)?,
        exit_code: row.get(11)?,
        reason: row.get(12)?,
        metrics: optional(row, 13)?.unwrap_or_default(),
        created: Instant(row.get(14)?),
        started: row.get::<_, Option<i64>>(15)?.map(Instant),
        ended: row.get::<_, Option<i64>>(16)?.map(Instant),
        retry_of: row.get::<_, Option<String>>(17)?.map(|text| id(&text)),
        note: row.get(18)?,
        course: optional(row, 19)?.unwrap_or_default(),
        from: row.get::<_, Option<String>>(20)?.map(|text| id(&text)),
        headline: row.get(21)?,
    })
}
