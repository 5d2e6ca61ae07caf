//! `yard cancel`: end runs.

use std::collections::BTreeMap;

use clap::Args;
use trainyard_agent::disk::now;
use trainyard_core::id::RunId;
use trainyard_engine::controller::Wish;
use trainyard_engine::ledger::Request;

use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::report::RunTable;

/// End runs, and everything they started
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// Runs by name, id, or job
    #[arg(required_unless_present = "all")]
    runs: Vec<String>,

    /// All runs that have not ended
    #[arg(long, conflicts_with = "runs")]
    all: bool,
}

impl Cancel {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let mut ledger = context.ledger()?;
        let rows = if self.all { ledger.open_rows()? } else { context.resolve(&ledger, &self.runs)? };
        let open: Vec<RunId> = rows.iter().filter(|row| row.ended.is_none()).map(|row| row.id).collect();
        for row in rows.iter().filter(|row| row.ended.is_some()) {
            context.printer.say(&format!("{} has ended already ({})", row.name, row.state));
        }
        if !open.is_empty() && context.is_elsewhere() {
            ledger = context.wish(ledger, &Wish::Cancel { runs: open })?;
        } else if !open.is_empty() {
            ledger.request(&open, Request::Cancel, now())?;
            context.knock(&BTreeMap::new())?;
        }
        let rows = rows.iter().filter_map(|row| ledger.run(row.id).transpose()).collect::<Result<Vec<_>, _>>()?;
        context.printer.report(&RunTable { rows: &rows, now: now(), ids: Vec::new() });
        Ok(Exit::Done)
    }
}
