//! Runs as rows and as JSON.

use serde::Serialize;
use serde_json::{Value, json};
use trainyard_agent::order::{Metrics, Point};
use trainyard_core::time::Instant;
use trainyard_core::value::Params;
use trainyard_engine::ledger::RunRow;

use super::{Report, Style, ago, rfc3339, span, table};

/// The documented shape of a run; `docs/json.md`.
#[derive(Debug, Serialize)]
pub(crate) struct RunJson<'a> {
    id: String,
    name: &'a str,
    job: &'a str,
    target: &'a str,
    state: &'a str,
    exit_code: Option<i32>,
    reason: Option<&'a str>,
    attempt: u32,
    seed: Option<u64>,
    params: &'a Params,
    metrics: &'a Metrics,
    created: String,
    started: Option<String>,
    ended: Option<String>,
    retry_of: Option<String>,
    note: Option<&'a str>,
}

impl<'a> RunJson<'a> {
    pub(crate) fn of(row: &'a RunRow) -> Self {
        Self {
            id: row.id.to_string(),
            name: &row.name,
            job: &row.job,
            target: &row.target,
            state: &row.state,
            exit_code: row.exit_code,
            reason: row.reason.as_deref(),
            attempt: row.attempt,
            seed: row.seed,
            params: &row.params,
            metrics: &row.metrics,
            created: rfc3339(row.created),
            started: row.started.map(rfc3339),
            ended: row.ended.map(rfc3339),
            retry_of: row.retry_of.map(|id| id.to_string()),
            note: note(row),
        }
    }
}

/// The number people look at first: the one that was named, or what looks like it.
pub(crate) fn headline(row: &RunRow) -> Option<(&str, Point)> {
    let named = row.headline.as_ref().and_then(|name| row.metrics.get_key_value(name));
    named.map(|(name, point)| (name.as_str(), *point)).or_else(|| likely(&row.metrics))
}

/// A reward or return if there is one, else a loss, else whatever comes first.
fn likely(metrics: &Metrics) -> Option<(&str, Point)> {
    let wanted = ["reward", "return", "success", "score", "loss"];
    // The shortest name that says it: `reward` before `population_reward`.
    let named = |word: &&str| {
        let says = |name: &&String| name.to_lowercase().contains(*word);
        metrics.keys().filter(says).min_by_key(|name| name.len()).and_then(|name| metrics.get_key_value(name))
    };
    let chosen = wanted.iter().find_map(named).or_else(|| metrics.iter().next());
    chosen.map(|(name, point)| (name.as_str(), *point))
}

/// Why it waits, while it does.
pub(crate) fn note(row: &RunRow) -> Option<&str> {
    row.note.as_deref().filter(|_| row.ended.is_none())
}

/// Why it ended as it did, or why it waits.
pub(crate) fn why(row: &RunRow) -> Option<&str> {
    row.reason.as_deref().or_else(|| note(row))
}

pub(crate) fn state_text(row: &RunRow, style: Style) -> String {
    let word = match (row.state.as_str(), row.attempt) {
        ("running" | "starting" | "queued" | "waiting", attempt @ 2..) => format!("{} (attempt {attempt})", row.state),
        _ => row.state.clone(),
    };
    style.state(&row.state, &word)
}

/// How long it has been at work, or was.
fn length(row: &RunRow, now: Instant) -> String {
    row.started.map(|started| span(row.ended.unwrap_or(now).since(started))).unwrap_or_default()
}

pub(crate) fn metric_text(row: &RunRow) -> String {
    let Some((name, point)) = headline(row) else { return String::new() };
    let value =
        point.value.map_or_else(|| "not a number".to_owned(), |value| format!("{}", (value * 1e4).round() / 1e4));
    format!("{name} {value} @{}", point.step)
}

/// A table of single runs.
pub(crate) struct RunTable<'a> {
    pub(crate) rows: &'a [RunRow],
    pub(crate) now: Instant,
    /// Shown ids, in the order of the rows; none shows no such column.
    pub(crate) ids: Vec<String>,
}

impl Report for RunTable<'_> {
    fn json(&self) -> Value {
        json!({ "runs": self.rows.iter().map(RunJson::of).collect::<Vec<_>>() })
    }

    fn text(&self, style: Style) -> String {
        let mut header = vec!["RUN", "STATE", "TIME", "STARTED", "METRIC", "REASON"];
        if !self.ids.is_empty() {
            header.insert(0, "ID");
        }
        let cells = |(index, row): (usize, &RunRow)| {
            let started = row.started.map(|at| ago(at, self.now)).unwrap_or_default();
            let reason = why(row).unwrap_or_default().to_owned();
            let mut cells = vec![
                row.name.clone(),
                state_text(row, style),
                length(row, self.now),
                started,
                metric_text(row),
                reason,
            ];
            if let Some(id) = self.ids.get(index) {
                cells.insert(0, style.dim(id));
            }
            cells
        };
        let mut rows: Vec<Vec<String>> = self.rows.iter().enumerate().map(cells).collect();
        drop_empty_columns(&mut header, &mut rows);
        table(&header, rows)
    }
}

/// A column in which nothing stands only takes room.
pub(crate) fn drop_empty_columns(header: &mut Vec<&str>, rows: &mut [Vec<String>]) {
    for column in (0..header.len()).rev() {
        if rows.iter().all(|row| row.get(column).is_none_or(String::is_empty)) {
            header.remove(column);
            rows.iter_mut().for_each(|row| drop(row.remove(column)));
        }
    }
}
