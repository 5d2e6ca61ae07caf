//! `yard retry`: the same again.

use std::collections::BTreeMap;

use clap::Args;
use trainyard_engine::submit;

use super::follow;
use super::run::secrets_of;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::report::RunTable;

/// Run again what has ended: same code, settings, seed and parameters, in a new run
#[derive(Debug, Args)]
pub(crate) struct Retry {
    /// Runs by name, id, or job (of a job: those that did not succeed)
    #[arg(required = true)]
    runs: Vec<String>,

    /// Submit and return at once
    #[arg(long, short)]
    detach: bool,
}

impl Retry {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let mut ledger = context.ledger()?;
        let mut rows = context.resolve(&ledger, &self.runs)?;
        if let Some(open) = rows.iter().find(|row| row.ended.is_none()) {
            let error = CommandError::new(Exit::Usage, format!("{} has not ended ({})", open.name, open.state));
            return Err(error.hint(format!("`yard cancel {}` ends it", open.name)));
        }
        if rows.len() > self.runs.len() {
            rows.retain(|row| row.state != "succeeded");
        }
        if rows.is_empty() {
            return Err(
                CommandError::new(Exit::Usage, "all of them succeeded").hint("name single runs to run them again")
            );
        }
        let mut secrets = BTreeMap::new();
        for row in &rows {
            secrets.extend(secrets_of(&ledger.batch(row.batch)?.job)?);
        }
        let ids = rows.iter().map(|row| submit::again(&mut ledger, row)).collect::<Result<Vec<_>, _>>()?;
        let caller = context.knock(&secrets)?;
        if !self.detach {
            return follow::follow(context, &ledger, caller, &ids, None);
        }
        let rows = ids.iter().filter_map(|id| ledger.run(*id).transpose()).collect::<Result<Vec<_>, _>>()?;
        context.printer.report(&RunTable { rows: &rows, now: trainyard_agent::disk::now(), ids: Vec::new() });
        Ok(Exit::Done)
    }
}
