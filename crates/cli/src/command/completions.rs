//! `yard completions`: for the shell.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::context::Context;
use crate::error::{CommandError, Exit};

/// Print completions for a shell
#[derive(Debug, Args)]
pub(crate) struct Completions {
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, context: &Context, mut yard: Command) -> Result<Exit, CommandError> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut yard, "yard", &mut text);
        context.printer.bytes(&text);
        Ok(Exit::Done)
    }
}
