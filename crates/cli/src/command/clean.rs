//! `yard clean`: give disk space back.

use clap::Args;
use serde_json::{Value, json};
use trainyard_agent::disk::now;
use trainyard_core::spec::{format_size, parse_duration};
use trainyard_core::time::Span;
use trainyard_engine::ledger::{Filter, Ledger, Recent, RunRow};
use trainyard_engine::reclaim::{self, Plan, ReclaimError};

use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style, plural};

/// Remove ended runs, their folders, and code that no run needs any more; shows the plan first
#[derive(Debug, Args)]
pub(crate) struct Clean {
    /// Runs by name, id, or job; otherwise all that ended long enough ago
    runs: Vec<String>,

    /// How long ago is long enough
    #[arg(long, value_name = "TIME", default_value = "7d", conflicts_with = "runs")]
    older: String,

    /// Do it without asking
    #[arg(long, short)]
    yes: bool,

    /// Only show the plan
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

impl Clean {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let mut ledger = context.ledger()?;
        let runs = self.candidates(context, &ledger)?;
        let plan = reclaim::plan(&ledger, &context.home.depot(), runs)?;
        let done = !plan.is_empty() && self.agreed(context, &plan);
        if done {
            reclaim::carry_out(&plan, &mut ledger)?;
        }
        if context.printer.is_json() || !context.printer.can_ask() || self.yes || plan.is_empty() {
            context.printer.report(&Cleaned { plan: &plan, done });
        }
        Ok(Exit::Done)
    }

    fn candidates(&self, context: &Context, ledger: &Ledger) -> Result<Vec<RunRow>, CommandError> {
        if !self.runs.is_empty() {
            let rows = context.resolve(ledger, &self.runs)?;
            if let Some(open) = rows.iter().find(|row| row.ended.is_none()) {
                let error = CommandError::new(Exit::Usage, format!("{} has not ended ({})", open.name, open.state));
                return Err(error.hint(format!("`yard cancel {}` ends it", open.name)));
            }
            return Ok(rows);
        }
        let age: Span =
            parse_duration(&self.older).map_err(|error| CommandError::new(Exit::Usage, format!("--older: {error}")))?;
        let rows = ledger.runs(&Filter { recent: Recent::All, ..Filter::default() })?;
        let now = now();
        Ok(rows.into_iter().filter(|row| row.ended.is_some_and(|ended| now.since(ended) >= age)).collect())
    }

    fn agreed(&self, context: &Context, plan: &Plan) -> bool {
        let printer = context.printer;
        if self.yes || self.dry_run || !printer.can_ask() {
            return self.yes;
        }
        printer.report(&Cleaned { plan, done: false });
        printer.ask("remove all this? [y/N]").starts_with('y')
    }
}

impl From<ReclaimError> for CommandError {
    fn from(error: ReclaimError) -> Self {
        match error {
            ReclaimError::Ledger(error) => error.into(),
            ReclaimError::Io(error) => error.into(),
        }
    }
}

struct Cleaned<'a> {
    plan: &'a Plan,
    done: bool,
}

impl Report for Cleaned<'_> {
    fn json(&self) -> Value {
        let file = |(path, size): &(std::path::PathBuf, u64)| json!({ "path": path, "bytes": size });
        json!({
            "removed": self.done,
            "runs": self.plan.runs.iter().map(|row| json!({ "id": row.id, "name": row.name })).collect::<Vec<_>>(),
            "files": self.plan.files.iter().map(file).collect::<Vec<_>>(),
            "bytes": self.plan.bytes(),
        })
    }

    fn text(&self, _: Style) -> String {
        if self.plan.is_empty() {
            return "nothing to remove\n".to_owned();
        }
        let names: Vec<&str> = self.plan.runs.iter().map(|row| row.name.as_str()).collect();
        let (shown, more) = names.split_at(names.len().min(10));
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        let verb = if self.done { "removed" } else { "would remove" };
        let (runs, files) = (plural(names.len(), "run"), plural(self.plan.files.len(), "item"));
        let mut text = String::new();
        if !names.is_empty() {
            text.push_str(&format!("{verb} {runs}: {}{more}\n", shown.join(", ")));
        }
        text.push_str(&format!("{verb} {files}, {}\n", format_size(self.plan.bytes())));
        if !self.done {
            text.push_str("`--yes` does it\n");
        }
        text
    }
}
