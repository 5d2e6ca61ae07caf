//! `yard show`: all about one run.

use clap::Args;
use serde_json::{Value, json};
use trainyard_agent::order::{AttemptResult, Source};
use trainyard_core::spec::format_size;
use trainyard_engine::ledger::{AttemptRow, Batch, EventRow, RunRow, SiteRow};
use trainyard_engine::provenance::Provenance;

use super::curves;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::report::{Report, RunJson, Style, clock, note, rfc3339, silence, site_json, span, state_text, table};

/// Show all about a run: state, attempts, what happened when
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The run by name, id or prefix of the id
    run: String,

    /// Show its metrics instead: of each the last value, the least and the greatest
    #[arg(long)]
    metrics: bool,
}

impl Show {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let ledger = context.ledger()?;
        context.rouse(&ledger)?;
        let mut rows = context.resolve(&ledger, std::slice::from_ref(&self.run))?;
        if rows.len() > 1 {
            let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).take(10).collect();
            let message = format!("`{}` means {} runs", self.run, rows.len());
            return Err(CommandError::new(Exit::Usage, message).hint(format!("name one of them: {}", names.join(", "))));
        }
        if self.metrics {
            for run in curves::load(context, &ledger, rows)? {
                run.some()?;
                context.printer.report(&curves::MetricTable(run));
            }
            return Ok(Exit::Done);
        }
        if let Some(row) = rows.pop() {
            let report = OneRun {
                attempts: ledger.attempts(row.seq)?,
                events: ledger.events(row.seq)?,
                batch: ledger.batch(row.batch)?,
                site: ledger.sites()?.into_iter().find(|site| site.name == row.target),
                row,
            };
            context.printer.report(&report);
        }
        Ok(Exit::Done)
    }
}

struct OneRun {
    row: RunRow,
    batch: Batch,
    attempts: Vec<AttemptRow>,
    events: Vec<EventRow>,
    site: Option<SiteRow>,
}

impl OneRun {
    fn folder(&self) -> String {
        match &self.batch.source {
            Source::Snapshot(_) => self.batch.depot.run(self.row.id).work().display().to_string(),
            Source::InPlace(folder) => folder.display().to_string(),
        }
    }
}

/// As in `1a2b3c4 on main, with changes`.
fn code(provenance: &Provenance) -> String {
    let commit = provenance.commit.as_ref().map_or("no commit", |commit| commit.get(..10).unwrap_or(commit));
    let branch = provenance.branch.as_ref().map(|branch| format!(" on {branch}")).unwrap_or_default();
    let changes = if provenance.dirty == Some(true) { ", with changes" } else { "" };
    let remote = provenance.remote.as_ref().map(|remote| format!(" ({remote})")).unwrap_or_default();
    format!("{commit}{branch}{changes}{remote}")
}

fn attempt_json(attempt: &AttemptRow) -> Value {
    let result = attempt.result.as_ref();
    json!({
        "attempt": attempt.number,
        "token": attempt.token,
        "devices": attempt.slot.devices,
        "started": result.map(|result| rfc3339(result.started)),
        "ended": result.map(|result| rfc3339(result.ended)),
        "outcome": result.map(|result| result.outcome.to_string()),
        "exit_code": result.and_then(|result| result.outcome.exit_code()),
        "resumed_from": result.and_then(|result| result.resumed_from.clone()),
        "checkpoint": result.and_then(|result| result.checkpoint.clone()),
        "peak_memory": result.map(|result| result.peak_memory),
        "notes": result.map(|result| result.notes.clone()),
    })
}

impl Report for OneRun {
    fn json(&self) -> Value {
        let mut value = json!(RunJson::of(&self.row));
        if let Some(fields) = value.as_object_mut() {
            let event = |event: &EventRow| json!({ "at": rfc3339(event.at), "what": event.what });
            fields.insert("folder".to_owned(), json!(self.folder()));
            fields.insert("group".to_owned(), json!(self.batch.tie.as_ref().map(|tie| &tie.group)));
            fields.insert("site".to_owned(), json!(self.site.as_ref().map(site_json)));
            fields.insert("provenance".to_owned(), json!(self.batch.provenance));
            fields.insert("attempts".to_owned(), self.attempts.iter().map(attempt_json).collect());
            fields.insert("events".to_owned(), self.events.iter().map(event).collect());
        }
        value
    }

    fn text(&self, style: Style) -> String {
        let row = &self.row;
        let mut text =
            format!("{}  {}  {}\n", style.bold(&row.name), state_text(row, style), style.dim(&row.id.to_string()));
        let mut field = |name: &str, value: String| {
            if !value.is_empty() {
                text.push_str(&format!("{name:10}{value}\n"));
            }
        };
        field("job", row.job.clone());
        let tie = self.batch.tie.as_ref();
        field("group", tie.map(|tie| format!("{}, {}", tie.group, tie.start.name())).unwrap_or_default());
        field("target", row.target.clone());
        field("seed", row.seed.map(|seed| seed.to_string()).unwrap_or_default());
        field("reason", row.reason.clone().unwrap_or_default());
        field("waits", note(row).unwrap_or_default().to_owned());
        let open = row.ended.is_none();
        field("doubt", self.site.as_ref().filter(|_| open).and_then(silence).unwrap_or_default());
        field("exit code", row.exit_code.map(|code| code.to_string()).unwrap_or_default());
        field("created", clock(row.created));
        field("started", row.started.map(clock).unwrap_or_default());
        field("ended", row.ended.map(clock).unwrap_or_default());
        let place = self.batch.site.as_ref().map(|site| format!("{}:", site.target.name)).unwrap_or_default();
        field("folder", format!("{place}{}", self.folder()));
        field("code", self.batch.provenance.as_ref().map(code).unwrap_or_default());
        for (name, value) in &row.params {
            field("param", format!("{name} = {}", json!(value)));
        }
        for (name, point) in &row.metrics {
            let value = point.value.map_or_else(|| "not a number".to_owned(), |value| value.to_string());
            field("metric", format!("{name} = {value} at step {}", point.step));
        }
        if !self.attempts.is_empty() {
            text.push_str(&format!("\n{}", attempts(&self.attempts)));
        }
        let event = |event: &EventRow| vec![clock(event.at), event.what.clone()];
        text.push_str(&format!("\n{}", table(&["WHEN", "WHAT"], self.events.iter().map(event).collect())));
        text
    }
}

fn attempts(attempts: &[AttemptRow]) -> String {
    let cells = |attempt: &AttemptRow| {
        let of = |text: fn(&AttemptResult) -> String| attempt.result.as_ref().map(text).unwrap_or_default();
        vec![
            attempt.number.to_string(),
            of(|result| span(result.ended.since(result.started))),
            of(|result| result.outcome.to_string()),
            of(|result| format_size(result.peak_memory)),
            of(|result| result.resumed_from.clone().unwrap_or_default()),
            of(|result| result.checkpoint.clone().unwrap_or_default()),
            of(|result| result.notes.join("; ")),
        ]
    };
    let header = ["ATTEMPT", "TIME", "ENDED WITH", "MEMORY", "RESUMED FROM", "CHECKPOINT", "NOTES"];
    table(&header, attempts.iter().map(cells).collect())
}
