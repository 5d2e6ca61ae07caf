//! `yard schema`: the JSON schema of the file, for editors.

use clap::Args;
use serde_json::Value;
use trainyard_core::spec::json_schema;

use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style};

/// Print the JSON schema of trainyard.toml
#[derive(Debug, Args)]
pub(crate) struct Schema {}

impl Schema {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        context.printer.report(&SchemaText(json_schema()));
        Ok(Exit::Done)
    }
}

struct SchemaText(Value);

impl Report for SchemaText {
    fn json(&self) -> Value {
        self.0.clone()
    }

    fn text(&self, _: Style) -> String {
        format!("{:#}\n", self.0)
    }
}
