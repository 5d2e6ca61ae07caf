//! `yard man`: the manual page, of yard or of one of its commands.

use clap::{Args, Command};

use crate::context::Context;
use crate::error::{CommandError, Exit};

/// Print the manual page: `yard man | man -l -`
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The page of one command
    command: Option<String>,
}

impl Man {
    pub(crate) fn run(self, context: &Context, mut yard: Command) -> Result<Exit, CommandError> {
        yard.build();
        let mut page = yard;
        if let Some(name) = &self.command {
            let found = page.find_subcommand(name).cloned();
            page = found.ok_or_else(|| CommandError::new(Exit::Usage, format!("no command `{name}`")))?;
        }
        let mut text = Vec::new();
        clap_mangen::Man::new(page).render(&mut text)?;
        context.printer.bytes(&text);
        Ok(Exit::Done)
    }
}
