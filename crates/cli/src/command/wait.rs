//! `yard wait`: until runs have ended.

use std::time::{Duration, Instant as Clock};

use clap::Args;
use trainyard_agent::disk::now;
use trainyard_core::id::RunId;
use trainyard_core::spec::parse_duration;
use trainyard_engine::ledger::{Ledger, LedgerError, RunRow};

use super::follow::exit_of;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::report::{RunTable, Silences, plural, silence, silent};

/// Wait until runs have ended; exit 0 if all succeeded
#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// Runs by name, id, or job; all open runs when none is given
    runs: Vec<String>,

    /// Give up after this long, with exit code 6
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
}

impl Wait {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let limit = self.timeout.as_ref().map(|text| parse_duration(text)).transpose();
        let limit = limit.map_err(|error| CommandError::new(Exit::Usage, format!("--timeout: {error}")))?;
        let until = limit.map(|limit| Clock::now() + limit.as_duration());
        let ledger = context.ledger()?;
        let rows = if self.runs.is_empty() { ledger.open_rows()? } else { context.resolve(&ledger, &self.runs)? };
        let ids: Vec<RunId> = rows.iter().map(|row| row.id).collect();
        let mut open: Vec<RunId> = rows.iter().filter(|row| row.ended.is_none()).map(|row| row.id).collect();
        let mut caller = context.rouse(&ledger)?;
        let (mut silences, mut looked) = (Silences::default(), Clock::now());
        loop {
            open = ledger.still_open(&open)?;
            if open.is_empty() {
                break;
            }
            let left = until.map_or(Duration::from_secs(1), |until| until.saturating_duration_since(Clock::now()));
            if left.is_zero() {
                return Err(still_open(&ledger, &open)?);
            }
            if looked.elapsed() > LOOK {
                looked = Clock::now();
                let sites = ledger.sites()?;
                let in_doubt = sites.iter().any(|site| site.problem.is_some());
                let rows = if in_doubt { rows_of(&ledger, &open)? } else { Vec::new() };
                silences.news(&sites, &rows).iter().for_each(|line| context.printer.say(line));
            }
            let told = caller.as_mut().map_or(Ok(()), |caller| caller.wait(left.min(Duration::from_secs(1))));
            if told.is_err() || caller.is_none() {
                caller = context.rouse(&ledger)?;
            }
            if open.len() > 16 {
                // With many runs something always changes; looking at each change would be work for nothing.
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        let rows = rows_of(&ledger, &ids)?;
        if context.printer.is_json() || rows.len() <= 40 {
            context.printer.report(&RunTable { rows: &rows, now: now(), ids: Vec::new() });
        }
        Ok(exit_of(&rows))
    }
}

fn rows_of(ledger: &Ledger, ids: &[RunId]) -> Result<Vec<RunRow>, LedgerError> {
    ids.iter().filter_map(|id| ledger.run(*id).transpose()).collect()
}

/// Between two looks at whether sites answer.
const LOOK: Duration = Duration::from_secs(1);

/// Not known is not failed: who waits is told what is known, and since when.
fn still_open(ledger: &Ledger, open: &[RunId]) -> Result<CommandError, CommandError> {
    let have = if open.len() == 1 { "has" } else { "have" };
    let error = CommandError::new(Exit::Unknown, format!("{} {have} not ended", plural(open.len(), "run")));
    let rows = rows_of(ledger, open)?;
    let sites = ledger.sites()?;
    Ok(silent(&sites, &rows).filter_map(silence).fold(error, CommandError::hint))
}
