//! `yard agent …`: this program at the site. Not for people.

use clap::{Args, Subcommand};

use crate::error::{CommandError, Exit};

/// Works beside the job
#[derive(Debug, Args)]
pub(crate) struct Agent {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Executes one order after another from standard input
    Lane,
}

impl Agent {
    pub(crate) fn run(self) -> Result<Exit, CommandError> {
        match self.task {
            Task::Lane => trainyard_agent::lane::serve()?,
        }
        Ok(Exit::Done)
    }
}
