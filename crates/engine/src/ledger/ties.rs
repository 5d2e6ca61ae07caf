//! Groups: runs of several jobs that were submitted as one.

use rusqlite::OptionalExtension;
use trainyard_core::id::RunId;
use trainyard_core::run::Peer;

use super::read::{id, json};
use super::{Ledger, LedgerError};

impl Ledger {
    /// All runs of a group, those that have ended too.
    pub fn peers(&self, tie: &str) -> Result<Vec<(RunId, Peer)>, LedgerError> {
        let sql = "SELECT runs.id, runs.name, runs.body, batches.tie ->> '$.step' FROM batches
                   JOIN runs ON runs.batch = batches.id WHERE batches.tie ->> '$.id' = ?1 ORDER BY runs.seq";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query([tie])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let peer = Peer { step: row.get(3)?, name: row.get(1)?, run: json(row, 2)? };
            found.push((id(&row.get::<_, String>(0)?), peer));
        }
        Ok(found)
    }

    /// How many runs of a submission, and of the group it belongs to, are in each state.
    pub fn tally_with(&self, batch: i64) -> Result<Vec<(String, i64)>, LedgerError> {
        let sql = "SELECT state, count(*) FROM runs WHERE batch = ?1 OR batch IN (
                       SELECT other.id FROM batches AS one JOIN batches AS other ON other.tie ->> '$.id' = one.tie ->> '$.id'
                       WHERE one.id = ?1 AND one.tie IS NOT NULL AND other.tie IS NOT NULL)
                   GROUP BY state ORDER BY state";
        let mut statement = self.db.prepare_cached(sql)?;
        let rows = statement.query_map([batch], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// What the runs of the newest submission of a group are tied by, and the newest batch of it.
    pub fn newest_group(&self, name: &str) -> Result<Option<(String, i64)>, LedgerError> {
        let sql = "SELECT tie ->> '$.id', id FROM batches WHERE tie IS NOT NULL AND tie ->> '$.group' = ?1
                   AND id IN (SELECT batch FROM runs) ORDER BY id DESC LIMIT 1";
        Ok(self.db.prepare_cached(sql)?.query_row([name], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
    }

    /// What the runs of a batch are tied by, and the name of the group.
    pub fn group_of(&self, batch: i64) -> Result<Option<(String, String)>, LedgerError> {
        let sql = "SELECT tie ->> '$.id', tie ->> '$.group' FROM batches WHERE id = ?1 AND tie IS NOT NULL";
        Ok(self.db.prepare_cached(sql)?.query_row([batch], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
    }
}
