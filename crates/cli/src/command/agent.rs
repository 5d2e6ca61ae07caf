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
}

impl Agent {
    pub(crate) fn run(self) -> Result<Exit, CommandError> {
        match self.task {
            Task::Lane => trainyard_agent::lane::serve()?,
            Task::Parcel { depot, parcel, group } => {
                let code = trainyard_agent::allocation::serve(&Depot::new(depot), &parcel, group)?;
                return Ok(Exit::Job(u8::try_from(code).unwrap_or(1)));
            }
        }
        Ok(Exit::Done)
    }
}
