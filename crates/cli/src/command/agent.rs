//! `yard agent …`: this program at the site. Not for people.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use trainyard_agent::depot::Depot;

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
    /// Takes the runs of one allocation through their attempts
    Parcel {
        #[arg(long)]
        depot: PathBuf,
        #[arg(long)]
        parcel: String,
        #[arg(long)]
        group: u32,
    },
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
            Task::Parcel { depot, parcel, group } => {
                let code = trainyard_agent::allocation::serve(&Depot::new(depot), &parcel, group)?;
                return Ok(Exit::Job(u8::try_from(code).unwrap_or(1)));
            }
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
