//! `yard queue …`: this machine's queue, for yards elsewhere. Not for people.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use trainyard_agent::depot::Depot;
use trainyard_agent::look::Question;
use trainyard_core::id::RunId;
use trainyard_engine::queue::{self, QueueError};

use super::agent::{answer, input};
use crate::context::Context;
use crate::env;
use crate::error::{CommandError, Exit};

/// Takes runs from yards elsewhere
#[derive(Debug, Args)]
pub(crate) struct Queue {
    #[command(subcommand)]
    task: Task,

    #[arg(long, global = true, required = false)]
    depot: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Enters the runs of a parcel; secrets on standard input
    Add {
        #[arg(long)]
        parcel: String,
    },
    /// Says how runs stand; questions on standard input
    Report,
    /// Ends runs; their ids on standard input
    Cancel,
    /// Forgets runs that have ended; their ids on standard input
    Forget,
}

impl Queue {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let mut ledger = context.ledger()?;
        match self.task {
            Task::Add { parcel } => {
                let secrets = queue::secrets(&parcel, input()?);
                if !secrets.is_empty() {
                    // Before the runs are there: another's knock may have them started at once.
                    context.knock(&secrets)?;
                }
                queue::add(&mut ledger, &Depot::new(self.depot.unwrap_or_default()), &parcel, env::handed_on())?;
                context.knock(&BTreeMap::new())?;
                answer(context.printer, &())?;
            }
            Task::Report => {
                let questions: Vec<Question> = input()?;
                context.rouse(&ledger)?;
                answer(context.printer, &queue::report(&ledger, &questions)?)?;
            }
            Task::Cancel => {
                let runs: Vec<RunId> = input()?;
                queue::cancel(&mut ledger, &runs)?;
                context.knock(&BTreeMap::new())?;
                answer(context.printer, &())?;
            }
            Task::Forget => {
                queue::forget(&mut ledger, &input::<Vec<RunId>>()?)?;
                answer(context.printer, &())?;
            }
        }
        Ok(Exit::Done)
    }
}

impl From<QueueError> for CommandError {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Ledger(error) => error.into(),
            other => Self::new(Exit::Refused, other.to_string()),
        }
    }
}
