//! `yard agent …`: this program at the site. Not for people.

use std::path::PathBuf;

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
    /// Answers requests about a depot on standard input and output
    Serve {
        #[arg(long)]
        depot: PathBuf,
        /// What to say first
        #[arg(long, default_value = "yard")]
        marker: String,
    },
    /// Fails unless this very program has the hash
    Verify { hash: String },
}

impl Agent {
    pub(crate) fn run(self) -> Result<Exit, CommandError> {
        match self.task {
            Task::Lane => trainyard_agent::lane::serve()?,
            Task::Serve { depot, marker } => trainyard_agent::pipe::serve::serve(&depot, &marker)?,
            Task::Verify { hash } => {
                if !trainyard_agent::pipe::serve::is_program(&hash)? {
                    return Err(CommandError::new(Exit::Refused, "this program is not the one that was sent"));
                }
            }
        }
        Ok(Exit::Done)
    }
}
