//! Talks: arguments in, values out, and the one place that chooses the exit code.

mod args;
mod command;
mod context;
mod dispatch;
mod env;
mod errand;
mod error;
mod interrupt;
mod report;
mod tail;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    report::die_quietly_on_closed_pipe();
    let arguments = match args::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return report::usage(&error),
    };
    let printer = report::Printer::new(arguments.output);
    match dispatch::dispatch(arguments, printer) {
        Ok(exit) => exit.into(),
        Err(error) => printer.error(&error).into(),
    }
}
