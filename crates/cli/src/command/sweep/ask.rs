//! What a person may want of a sweep that was begun.

use std::collections::BTreeMap;

use clap::Args;
use trainyard_agent::disk::now;
use trainyard_engine::ledger::SweepRequest;

use super::{find_row, live, show};
use crate::context::Context;
use crate::error::{CommandError, Exit};

#[derive(Debug, Args)]
pub(super) struct Pause {
    /// The sweep by name or number
    name: String,
}

#[derive(Debug, Args)]
pub(super) struct Resume {
    /// The sweep by name or number
    name: String,
}

#[derive(Debug, Args)]
pub(super) struct Stop {
    /// The sweep by name or number
    name: String,
}

#[derive(Debug, Args)]
pub(super) struct Extend {
    /// The sweep by name or number
    name: String,

    /// How many more, such as `+50`
    #[arg(long, value_parser = more, allow_hyphen_values = true)]
    trials: u32,
}

#[derive(Debug, Args)]
pub(super) struct Watch {
    /// The sweep by name or number
    name: String,
}

fn more(text: &str) -> Result<u32, String> {
    match text.strip_prefix('+').unwrap_or(text).parse() {
        Ok(0) | Err(_) => Err("a number above 0, such as `+50`".to_owned()),
        Ok(more) => Ok(more),
    }
}

impl Pause {
    pub(super) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        ask(context, &self.name, &SweepRequest::Pause)
    }
}

impl Resume {
    pub(super) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        ask(context, &self.name, &SweepRequest::Resume)
    }
}

impl Stop {
    pub(super) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        ask(context, &self.name, &SweepRequest::Stop)
    }
}

impl Extend {
    pub(super) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        ask(context, &self.name, &SweepRequest::Extend { trials: self.trials })
    }
}

impl Watch {
    pub(super) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let ledger = context.ledger()?;
        let row = find_row(&ledger, &self.name)?;
        let caller = context.knock(&BTreeMap::new())?;
        live::follow(context, &ledger, caller, row.id)
    }
}

fn ask(context: &Context, name: &str, request: &SweepRequest) -> Result<Exit, CommandError> {
    let mut ledger = context.ledger()?;
    let row = find_row(&ledger, name)?;
    let has_ended = row.state.has_ended();
    if has_ended && !matches!(request, SweepRequest::Extend { .. }) {
        context.printer.say(&format!("{} has ended already ({})", row.name, row.state.word()));
        return Ok(Exit::Done);
    }
    ledger.ask_of_sweep(row.id, request, now())?;
    context.knock(&BTreeMap::new())?;
    show::print(context, &ledger, row.id)
}
