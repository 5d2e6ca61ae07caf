//! `yard retry`: the same again.

use std::collections::BTreeMap;

use clap::Args;
use trainyard_agent::order::Source;
use trainyard_core::id::Digest;
use trainyard_core::spec::TargetSpec;
use trainyard_engine::ledger::RunRow;
use trainyard_engine::submit;

use super::follow;
use super::run::{await_site, secrets_of};
use crate::context::Context;
use crate::errand::Pipes;
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
        let (mut secrets, mut pipes) = (BTreeMap::new(), Pipes::new(context));
        for row in &rows {
            let batch = ledger.batch(row.batch)?;
            secrets.extend(secrets_of(&batch.job)?);
            if let (Some(site), Source::Snapshot(digest)) = (&batch.site, &batch.source) {
                check_code(&mut pipes, &site.target, row, digest)?;
            }
        }
        let ids = submit::again(&mut ledger, &rows)?;
        let mut caller = context.knock(&secrets)?;
        if !self.detach {
            return follow::follow(context, &ledger, caller, &ids, pipes.into_first());
        }
        if pipes.into_first().is_some() {
            await_site(&ledger, &mut caller, &ids)?;
        }
        let rows = ids.iter().filter_map(|id| ledger.run(*id).transpose()).collect::<Result<Vec<_>, _>>()?;
        context.printer.report(&RunTable { rows: &rows, now: trainyard_agent::disk::now(), ids: Vec::new() });
        Ok(Exit::Done)
    }
}

/// The site keeps the code of a run as long as it keeps the run.
fn check_code(pipes: &mut Pipes<'_>, target: &TargetSpec, row: &RunRow, code: &Digest) -> Result<(), CommandError> {
    if pipes.to(target)?.has(code)? {
        return Ok(());
    }
    let (name, site) = (&row.name, &target.name);
    let seed = row.seed.map(|seed| format!(" --seeds {seed}")).unwrap_or_default();
    let error = CommandError::new(Exit::Refused, format!("the code of {name} is no longer at {site}"));
    Err(error.hint(format!("`yard run {} --on {site}{seed}` sends the project as it is now", row.job)))
}
