//! The ledger: one SQLite file that remembers runs, attempts and what happened. On a local disk, in WAL mode; event
//! and state in one transaction. A ledger that cannot be read stops yard; it is never started anew.

mod read;
mod rows;
mod sweeps;
mod ties;
mod write;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as Clock};

use rusqlite::Connection;
use trainyard_core::space::SpaceError;

pub use read::{Ambiguous, Filter, Recent};
pub(crate) use rows::new_id;
pub use rows::{AttemptRow, Batch, Change, EventRow, NewRun, OpenRun, Request, RunRow, SiteRow};
pub use sweeps::{SweepChange, SweepRecord, SweepRequest, SweepRow, SweepState};

/// Forward steps; the position of a step is the version it leads to.
const STEPS: [&str; 6] = [
    include_str!("schema-1.sql"),
    include_str!("schema-2.sql"),
    include_str!("schema-3.sql"),
    include_str!("schema-4.sql"),
    include_str!("schema-5.sql"),
    include_str!("schema-6.sql"),
];
const PATIENCE: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub struct Ledger {
    db: Connection,
}

/// Whether a commit must be on the disk when it returns. Without, it is safe against the end of any process but
/// may be forgotten in a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    Durable,
    Quick,
}

#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("cannot use the ledger {}", path.display())]
    Open { path: PathBuf, source: rusqlite::Error },
    #[error("the ledger {} was written by a newer yard (format {found}, this one knows {known})", path.display())]
    Newer { path: PathBuf, found: usize, known: usize },
    #[error("the ledger {} may not be written", path.display())]
    ReadOnly { path: PathBuf },
    #[error("the ledger refused")]
    Sql(#[from] rusqlite::Error),
    #[error("the ledger holds something unreadable")]
    Unreadable(#[from] serde_json::Error),
    #[error(transparent)]
    Ambiguous(#[from] Ambiguous),
    #[error("the search space of the sweep `{name}` is not one any more")]
    Sweep {
        name: String,
        #[source]
        error: SpaceError,
    },
}

impl Ledger {
    /// Opens, makes or brings forward the ledger.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        let failed = |source| LedgerError::Open { path: path.to_owned(), source };
        let mut ledger = Self { db: Connection::open(path).map_err(failed)? };
        ledger.db.busy_timeout(PATIENCE).map_err(failed)?;
        // Before anything is set up: a newer ledger is left as it is.
        version(&ledger.db, path)?;
        // SQLite would say so only at the first write.
        if ledger.db.is_readonly(rusqlite::MAIN_DB).map_err(failed)? {
            return Err(LedgerError::ReadOnly { path: path.to_owned() });
        }
        ledger.set_up().map_err(failed)?;
        ledger.bring_forward(path)?;
        Ok(ledger)
    }

    /// A copy of a ledger, held in memory; what is changed in it is changed nowhere else.
    pub fn of_copy(bytes: &[u8]) -> Result<Self, LedgerError> {
        let path = Path::new("a copy");
        let mut ledger = Self { db: Connection::open_in_memory()? };
        ledger.db.deserialize_read_exact(rusqlite::MAIN_DB, bytes, bytes.len(), false)?;
        version(&ledger.db, path)?;
        ledger.bring_forward(path)?;
        Ok(ledger)
    }

    /// All of it as it is now, into a file that is not there yet.
    pub fn copy_to(&self, path: &Path) -> Result<(), LedgerError> {
        Ok(self.db.execute("VACUUM INTO ?1", [path.to_string_lossy()]).map(drop)?)
    }

    /// Another number whenever somebody else has changed something.
    pub fn data_version(&self) -> Result<i64, LedgerError> {
        Ok(self.db.pragma_query_value(None, "data_version", |row| row.get(0))?)
    }

    fn set_up(&self) -> rusqlite::Result<()> {
        self.use_wal()?;
        self.db.pragma_update(None, "synchronous", "normal")?;
        self.db.pragma_update(None, "foreign_keys", true)?;
        // Half of SQLite's usual cache: the yardmaster is to be small, and what it reads is little and recent.
        self.db.pragma_update(None, "cache_size", -1000)?;
        self.db.set_prepared_statement_cache_capacity(64);
        Ok(())
    }

    /// A change of mode needs the file alone, and for that SQLite does not wait: others may be making the ledger too.
    fn use_wal(&self) -> rusqlite::Result<()> {
        let until = Clock::now() + PATIENCE;
        loop {
            match self.db.pragma_update(None, "journal_mode", "wal") {
                Err(error) if is_busy(&error) && Clock::now() < until => std::thread::sleep(AGAIN),
                changed => return changed,
            }
        }
    }

    fn bring_forward(&mut self, path: &Path) -> Result<(), LedgerError> {
        let failed = |source| LedgerError::Open { path: path.to_owned(), source };
        if version(&self.db, path)? == STEPS.len() {
            return Ok(());
        }
        let step = self.db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(failed)?;
        // Another yard may have done it while this one waited for the lock.
        let at = version(&step, path)?;
        for sql in STEPS.iter().skip(at) {
            step.execute_batch(sql).map_err(failed)?;
        }
        step.pragma_update(None, "user_version", i64::try_from(STEPS.len()).unwrap_or(i64::MAX)).map_err(failed)?;
        step.commit().map_err(failed)
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}

/// The format of the ledger, if it is one we know.
fn version(db: &Connection, path: &Path) -> Result<usize, LedgerError> {
    let found = db.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
    let found = found.map_err(|source| LedgerError::Open { path: path.to_owned(), source })?;
    let found = usize::try_from(found).unwrap_or(0);
    if found > STEPS.len() {
        return Err(LedgerError::Newer { path: path.to_owned(), found, known: STEPS.len() });
    }
    Ok(found)
}
