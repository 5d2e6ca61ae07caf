//! What a person may want of a sweep that was begun.

use std::collections::BTreeMap;

use clap::Args;
use trainyard_agent::disk::now;
use trainyard_core::spec::{More, parse_duration};
use trainyard_core::time::Span;
use trainyard_engine::controller::Wish;
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

    #[command(flatten)]
    more: Wanted,
}

/// At least one of them, and only what the sweep is limited by.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Wanted {
    /// How many more, such as `+50`
    #[arg(long, value_parser = more, allow_hyphen_values = true)]
    trials: Option<u32>,

    /// How much longer, such as `+2h`; from now on, if its time is over
    #[arg(long, value_parser = longer, allow_hyphen_values = true)]
    time: Option<Span>,

    /// How many GPU hours more, such as `+10`
    #[arg(long, value_parser = more_hours, allow_hyphen_values = true)]
    gpu_hours: Option<f64>,
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

fn longer(text: &str) -> Result<Span, String> {
    parse_duration(text.strip_prefix('+').unwrap_or(text)).map_err(|error| error.to_string())
}

fn more_hours(text: &str) -> Result<f64, String> {
    let hours = text.strip_prefix('+').unwrap_or(text).parse().ok().filter(|hours: &f64| hours.is_finite());
    hours.filter(|hours| *hours > 0.0).ok_or_else(|| "a number above 0, such as `+10`".to_owned())
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
        let Wanted { trials, time, gpu_hours } = self.more;
        let more = More { trials, time, gpu_hours };
        let row = find_row(context, &context.ledger()?, &self.name)?;
        row.spec.extended(&more).map_err(|error| CommandError::new(Exit::Usage, error.to_string()))?;
        ask(context, &self.name, &SweepRequest::Extend(more))
    }
}

impl Watch {
    pub(super) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let ledger = context.ledger()?;
        let row = find_row(context, &ledger, &self.name)?;
        let caller = if context.is_elsewhere() { None } else { Some(context.knock(&BTreeMap::new())?) };
        live::follow(context, ledger, caller, row.id)
    }
}

fn ask(context: &Context, name: &str, request: &SweepRequest) -> Result<Exit, CommandError> {
    let mut ledger = context.ledger()?;
    let row = find_row(context, &ledger, name)?;
    let has_ended = row.state.has_ended();
    if has_ended && !matches!(request, SweepRequest::Extend(_)) {
        context.printer.say(&format!("{} has ended already ({})", row.name, row.state.word()));
        return Ok(Exit::Done);
    }
    if context.is_elsewhere() {
        ledger = context.wish(ledger, &Wish::Sweep { sweep: row.id, what: request.clone() })?;
    } else {
        ledger.ask_of_sweep(row.id, request, now())?;
        context.knock(&BTreeMap::new())?;
    }
    show::print(context, &ledger, row.id)
}
