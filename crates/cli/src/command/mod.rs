//! One file per command; the file's name is the command's.

pub(crate) mod agent;
pub(crate) mod cancel;
pub(crate) mod clean;
pub(crate) mod completions;
pub(crate) mod doctor;
mod follow;
pub(crate) mod init;
pub(crate) mod logs;
pub(crate) mod man;
pub(crate) mod ps;
pub(crate) mod pull;
pub(crate) mod retry;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod show;
pub(crate) mod show_config;
pub(crate) mod wait;
pub(crate) mod yardmaster;

use crate::args::{Arguments, Command};
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::report::Printer;

pub(crate) fn dispatch(arguments: Arguments, printer: Printer) -> Result<Exit, CommandError> {
    let context = Context::new(printer, arguments.directory, arguments.sets)?;
    match arguments.command {
        Command::Init(command) => command.run(&context),
        Command::Run(command) => command.run(&context),
        Command::Ps(command) => command.run(&context),
        Command::Show(command) => command.run(&context),
        Command::Logs(command) => command.run(&context),
        Command::Wait(command) => command.run(&context),
        Command::Cancel(command) => command.run(&context),
        Command::Retry(command) => command.run(&context),
        Command::Pull(command) => command.run(&context),
        Command::Clean(command) => command.run(&context),
        Command::Doctor(command) => command.run(&context),
        Command::Schema(command) => command.run(&context),
        Command::ShowConfig(command) => command.run(&context),
        Command::Completions(command) => command.run(&context),
        Command::Man(command) => command.run(&context),
        Command::Yardmaster(command) => command.run(&context),
        Command::Agent(command) => command.run(),
    }
}
