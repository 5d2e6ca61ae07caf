//! `yard wait`: until runs have ended.

use std::time::{Duration, Instant as Clock};

use clap::Args;
use trainyard_agent::disk::now;
use trainyard_core::id::RunId;
use trainyard_core::spec::parse_duration;

use super::follow::exit_of;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::report::RunTable;

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
        loop {
            open = ledger.still_open(&open)?;
            if open.is_empty() {
                break;
            }
            let left = until.map_or(Duration::from_secs(1), |until| until.saturating_duration_since(Clock::now()));
            if left.is_zero() {
                return Err(CommandError::new(Exit::Unknown, format!("{} runs have not ended", open.len())));
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
        let rows = ids.iter().filter_map(|id| ledger.run(*id).transpose()).collect::<Result<Vec<_>, _>>()?;
        if context.printer.is_json() || rows.len() <= 40 {
            context.printer.report(&RunTable { rows: &rows, now: now(), ids: Vec::new() });
        }
        Ok(exit_of(&rows))
    }
}
