//! `yard image`: the images that jobs run in.

mod ls;
mod make;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::{CommandError, Exit};

/// Convert images, bring them to where jobs run, and list them
#[derive(Debug, Args)]
pub(crate) struct ImageCommand {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Build(make::Build),
    Push(make::Push),
    Ls(ls::Ls),
}

impl ImageCommand {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        match self.task {
            Task::Build(command) => command.run(context),
            Task::Push(command) => command.run(context),
            Task::Ls(command) => command.run(context),
        }
    }
}
