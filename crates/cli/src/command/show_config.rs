//! `yard show-config`: every setting in force and where it comes from.

use clap::Args;
use serde_json::{Value, json};
use trainyard_core::spec::Entry;

use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style, table};

/// Show every setting in force and where it comes from
#[derive(Debug, Args)]
pub(crate) struct ShowConfig {
    /// Only settings below this path, such as `jobs.train`
    path: Option<String>,
}

impl ShowConfig {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let mut entries = context.project()?.loaded.entries;
        if let Some(wanted) = &self.path {
            let below = format!("{wanted}.");
            entries.retain(|entry| entry.path == *wanted || entry.path.starts_with(&below));
            if entries.is_empty() {
                return Err(CommandError::new(Exit::Usage, format!("nothing is set below `{wanted}`")));
            }
        }
        context.printer.report(&Settings(entries));
        Ok(Exit::Done)
    }
}

struct Settings(Vec<Entry>);

impl Report for Settings {
    fn json(&self) -> Value {
        json!({ "settings": self.0 })
    }

    fn text(&self, style: Style) -> String {
        let row =
            |entry: &Entry| vec![format!("{} = {}", entry.path, entry.value), style.dim(&entry.origin.to_string())];
        table(&["SETTING", "FROM"], self.0.iter().map(row).collect())
    }
}
