//! `yard ps`: what is going on.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use trainyard_agent::disk::now;
use trainyard_core::time::Instant;
use trainyard_engine::ledger::{Filter, Ledger, Recent, RunRow};

use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::interrupt;
use crate::report::{Report, RunTable, Style, ago, table};

/// List runs: what is open, and what ended last
#[derive(Debug, Args)]
pub(crate) struct Ps {
    /// All runs there ever were
    #[arg(long, short)]
    all: bool,

    /// One line for each run instead of one for each submission
    #[arg(long, short = 'l')]
    long: bool,

    /// Only runs of this job
    #[arg(long)]
    job: Option<String>,

    /// Only runs on this target
    #[arg(long = "on", value_name = "TARGET")]
    target: Option<String>,

    /// Only runs in this state
    #[arg(long, value_parser = ["queued", "starting", "running", "cancelling", "succeeded", "failed", "cancelled"])]
    state: Option<String>,

    /// Show it again and again
    #[arg(long, short)]
    watch: bool,
}

impl Ps {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let ledger = context.ledger()?;
        let mut caller = context.rouse(&ledger)?;
        if !self.watch {
            self.print(context, &ledger)?;
            return Ok(Exit::Done);
        }
        interrupt::count();
        while interrupt::take() == 0 {
            if context.printer.is_watched() {
                context.printer.bytes(b"\x1b[H\x1b[2J");
            }
            self.print(context, &ledger)?;
            std::thread::sleep(Duration::from_millis(200));
            let told = caller.as_mut().map_or(Ok(()), |caller| caller.wait(Duration::from_secs(2)));
            if told.is_err() || caller.is_none() {
                caller = context.rouse(&ledger)?;
            }
        }
        Ok(Exit::Interrupted)
    }

    fn print(&self, context: &Context, ledger: &Ledger) -> Result<(), CommandError> {
        let filter = Filter {
            recent: if self.all { Recent::All } else { Recent::Short },
            job: self.job.clone(),
            target: self.target.clone(),
            state: self.state.clone(),
            batch: None,
        };
        let rows = ledger.runs(&filter)?;
        let (printer, now) = (context.printer, now());
        if printer.is_json() {
            printer.report(&RunTable { rows: &rows, now, ids: Vec::new() });
        } else if rows.is_empty() {
            printer.say("no runs; `yard run JOB` starts one");
        } else if self.long {
            let ids = rows.iter().map(|row| short_id(ledger, row)).collect::<Result<_, _>>()?;
            printer.report(&RunTable { rows: &rows, now, ids });
        } else {
            printer.report(&Groups::of(ledger, &rows, now)?);
        }
        Ok(())
    }
}

/// The shortest prefix that is this run's alone.
fn short_id(ledger: &Ledger, row: &RunRow) -> Result<String, CommandError> {
    let digits = ledger.unique_digits(row.id)?.max(8);
    Ok(row.id.0.simple().to_string().chars().take(digits).collect())
}

/// Runs of one submission on one line.
struct Groups {
    rows: Vec<Vec<String>>,
    states: Vec<String>,
}

impl Groups {
    fn of(ledger: &Ledger, rows: &[RunRow], now: Instant) -> Result<Self, CommandError> {
        let mut batches: BTreeMap<i64, Vec<&RunRow>> = BTreeMap::new();
        for row in rows {
            batches.entry(row.batch).or_default().push(row);
        }
        let (mut lines, mut states) = (Vec::new(), Vec::new());
        for members in batches.values() {
            if let [only] = members[..] {
                let id = short_id(ledger, only)?;
                lines.push(line(&id, &only.name, only, "", &only.state, now));
                states.push(only.state.clone());
            } else if let Some(first) = members.first() {
                let name = first.name.rsplit_once("-s").map_or(first.name.as_str(), |(name, _)| name);
                let id = short_id(ledger, first)?;
                let shown = tally(members);
                lines.push(line(&id, name, first, &seeds(members), &shown, now));
                states.push(leading(members).to_owned());
            }
        }
        Ok(Self { rows: lines, states })
    }
}

fn line(id: &str, name: &str, row: &RunRow, seeds: &str, state: &str, now: Instant) -> Vec<String> {
    let reason = row.reason.clone().unwrap_or_default();
    let (target, created) = (row.target.clone(), ago(row.created, now));
    vec![id.to_owned(), name.to_owned(), target, seeds.to_owned(), state.to_owned(), created, reason]
}

fn tally(members: &[&RunRow]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in members {
        *counts.entry(row.state.as_str()).or_default() += 1;
    }
    let parts: Vec<String> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
    parts.join(", ")
}

/// The state that says most about a group: bad news first, then what still goes on.
fn leading<'a>(members: &[&'a RunRow]) -> &'a str {
    let order = ["failed", "running", "starting", "queued", "cancelling", "cancelled", "succeeded"];
    let has = |state: &&&str| members.iter().any(|row| row.state == ***state);
    let word = order.iter().find(|state| has(state)).copied().unwrap_or("queued");
    members.iter().map(|row| row.state.as_str()).find(|state| *state == word).unwrap_or_default()
}

/// `1-4,7`
fn seeds(members: &[&RunRow]) -> String {
    let mut seeds: Vec<u64> = members.iter().filter_map(|row| row.seed).collect();
    seeds.sort_unstable();
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for seed in seeds {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(seed) => *last = seed,
            _ => ranges.push((seed, seed)),
        }
    }
    let text = |(first, last): &(u64, u64)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    let shown: Vec<String> = ranges.iter().take(4).map(text).collect();
    if ranges.len() > 4 { format!("{},…", shown.join(",")) } else { shown.join(",") }
}

impl Report for Groups {
    fn json(&self) -> Value {
        Value::Null
    }

    fn text(&self, style: Style) -> String {
        let paint = |(row, state): (&Vec<String>, &String)| {
            let mut row = row.clone();
            if let Some(cell) = row.get_mut(4) {
                *cell = style.state(state, cell);
            }
            row
        };
        let rows = self.rows.iter().zip(&self.states).map(paint).collect();
        table(&["ID", "NAME", "TARGET", "SEEDS", "STATE", "CREATED", "REASON"], rows)
    }
}
