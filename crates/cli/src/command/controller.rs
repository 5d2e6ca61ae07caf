//! `yard controller …`: sweeps that go on without a laptop, on the cluster. Not for people.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use trainyard_engine::controller::{self, KeepError};

use super::agent::{answer, input};
use crate::context::Context;
use crate::env;
use crate::error::{CommandError, Exit};

/// Keeps sweeps going for yards elsewhere
#[derive(Debug, Args)]
pub(crate) struct Controller {
    #[command(subcommand)]
    task: Task,

    #[arg(long, global = true, required = false)]
    depot: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Takes up what came with the job of this name, and goes on until nothing is left to do
    Keep {
        #[arg(long)]
        job: String,
    },
    /// Takes down what somebody wants; on standard input
    Hear,
}

impl Controller {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let home = controller::home_in(&self.depot.unwrap_or_default());
        match self.task {
            Task::Keep { job } => controller::keep(&home, &context.start()?.program, &job, env::handed_secrets())?,
            Task::Hear => answer(context.printer, &controller::hear(&home, &input()?)?)?,
        }
        Ok(Exit::Done)
    }
}

impl From<KeepError> for CommandError {
    fn from(error: KeepError) -> Self {
        match error {
            KeepError::Home(error) => error.into(),
            KeepError::Ledger(error) => error.into(),
            KeepError::Io(error) => error.into(),
            other => Self::new(Exit::Refused, other.to_string()),
        }
    }
}
