//! From the parsed command line to the command.

use clap::CommandFactory;

use crate::args::{Arguments, Command};
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::report::Printer;

pub(crate) fn dispatch(arguments: Arguments, printer: Printer) -> Result<Exit, CommandError> {
    let context = Context::new(printer, arguments.directory, arguments.sets)?.at(arguments.at);
    if context.is_elsewhere() && !arguments.command.can_look_elsewhere() {
        return Err(CommandError::new(
            Exit::Usage,
            "`--at` is for `ps`, `show`, `logs`, `pull`, `plot`, `cancel` and `sweep`",
        ));
    }
    match arguments.command {
        Command::Init(command) => command.run(&context),
        Command::Run(command) => command.run(&context),
        Command::Sweep(command) => command.run(&context),
        Command::Ps(command) => command.run(&context),
        Command::Show(command) => command.run(&context),
        Command::Plot(command) => command.run(&context),
        Command::Export(command) => command.run(&context),
        Command::Diff(command) => command.run(&context),
        Command::Logs(command) => command.run(&context),
        Command::Wait(command) => command.run(&context),
        Command::Cancel(command) => command.run(&context),
        Command::Retry(command) => command.run(&context),
        Command::Pull(command) => command.run(&context),
        Command::Clean(command) => command.run(&context),
        Command::Report(command) => command.run(&context),
        Command::Image(command) => command.run(&context),
        Command::Import(command) => command.run(&context),
        Command::Target(command) => command.run(&context),
        Command::Doctor(command) => command.run(&context),
        Command::Schema(command) => command.run(&context),
        Command::ShowConfig(command) => command.run(&context),
        Command::Completions(command) => command.run(&context, Arguments::command()),
        Command::Man(command) => command.run(&context, Arguments::command()),
        Command::Yardmaster(command) => command.run(&context),
        Command::Agent(command) => command.run(&context),
        Command::Queue(command) => command.run(&context),
        Command::Controller(command) => command.run(&context),
    }
}
