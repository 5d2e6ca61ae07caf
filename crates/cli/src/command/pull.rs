//! `yard pull`: results home.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use trainyard_agent::order::Source;
use trainyard_core::spec::format_size;
use trainyard_engine::ledger::RunRow;
use trainyard_engine::results::{Pulled, pull};
use trainyard_engine::snapshot::RESULTS_FOLDER;

use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style, plural};

/// Copy what runs have made to the project, or elsewhere
#[derive(Debug, Args)]
pub(crate) struct Pull {
    /// Runs by name, id, or job
    #[arg(required = true)]
    runs: Vec<String>,

    /// The folder that gets one folder per run; `yard-results` in the project when not given
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

impl Pull {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let ledger = context.ledger()?;
        let mut done = Vec::new();
        for row in context.resolve(&ledger, &self.runs)? {
            let batch = ledger.batch(row.batch)?;
            if let Source::InPlace(folder) = &batch.source {
                context.printer.say(&format!("{} ran in place: its results are in {}", row.name, folder.display()));
                continue;
            }
            if batch.job.outputs.is_empty() {
                context.printer.say(&format!("job `{}` declares no `outputs`", row.job));
            }
            let base =
                self.to.as_ref().map_or_else(|| batch.project.join(RESULTS_FOLDER), |to| context.folder.join(to));
            let to = base.join(folder_name(&row));
            let pulled = pull(&batch.depot, row.id, &batch.job.outputs, &to)
                .map_err(|error| CommandError::new(Exit::Settings, format!("cannot pull {}: {error}", row.name)))?;
            done.push((row, to, pulled));
        }
        let missing = done.iter().any(|(row, _, pulled)| row.state == "succeeded" && !pulled.missing.is_empty());
        context.printer.report(&Pulls(done));
        Ok(if missing { Exit::RunFailed } else { Exit::Done })
    }
}

/// The readable name, and enough of the id that no other run's results are ever written over.
fn folder_name(row: &RunRow) -> String {
    let digits: String = row.id.0.simple().to_string().chars().take(16).collect();
    format!("{}-{digits}", row.name)
}

struct Pulls(Vec<(RunRow, PathBuf, Pulled)>);

fn one_json((row, to, pulled): &(RunRow, PathBuf, Pulled)) -> Value {
    json!({
        "id": row.id,
        "name": row.name,
        "to": to,
        "files": pulled.files,
        "bytes": pulled.bytes,
        "unchanged": pulled.unchanged,
        "missing": pulled.missing,
    })
}

fn one_text(row: &RunRow, to: &Path, pulled: &Pulled) -> String {
    let same = if pulled.unchanged > 0 { format!(", {} unchanged", pulled.unchanged) } else { String::new() };
    let missing = if pulled.missing.is_empty() { String::new() } else { format!(", no {}", pulled.missing.join(", ")) };
    let (files, size) = (plural(pulled.files, "file"), format_size(pulled.bytes));
    format!("{}  {files}, {size}{same}{missing} → {}\n", row.name, to.display())
}

impl Report for Pulls {
    fn json(&self) -> Value {
        json!({ "pulled": self.0.iter().map(one_json).collect::<Vec<_>>() })
    }

    fn text(&self, _: Style) -> String {
        self.0.iter().map(|(row, to, pulled)| one_text(row, to, pulled)).collect()
    }
}
