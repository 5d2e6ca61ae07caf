//! `yard sweep ls`: all sweeps there were.

use serde_json::{Value, json};
use trainyard_engine::sweep::Overview;

use super::show::{score_json, score_text};
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style, ago, table};

pub(super) fn list(context: &Context) -> Result<Exit, CommandError> {
    let ledger = context.ledger()?;
    let lines = ledger.sweeps()?.into_iter().map(|row| Overview::of(&ledger, row)).collect::<Result<Vec<_>, _>>()?;
    context.printer.report(&List { lines });
    Ok(Exit::Done)
}

struct List {
    lines: Vec<Overview>,
}

impl Report for List {
    fn json(&self) -> Value {
        let line = |overview: &Overview| {
            let (ended, expected) = overview.progress();
            json!({
                "id": overview.row.id,
                "name": overview.row.name,
                "state": overview.row.state,
                "runs": { "ended": ended, "expected": expected, "running": overview.going.len() },
                "best": overview.sweep.standing().first().map(|best| score_json(&best.score)),
            })
        };
        json!({ "sweeps": self.lines.iter().map(line).collect::<Vec<_>>() })
    }

    fn text(&self, style: Style) -> String {
        if self.lines.is_empty() {
            return "no sweeps yet; `yard sweep NAME` begins one\n".to_owned();
        }
        let cells = |overview: &Overview| {
            let (ended, expected) = overview.progress();
            let of = expected.map(|expected| format!("/{expected}")).unwrap_or_default();
            let best = overview.sweep.standing().first().map(|best| score_text(&best.score)).unwrap_or_default();
            let row = &overview.row;
            vec![
                row.id.to_string(),
                row.name.clone(),
                style.state(row.state.word(), row.state.word()),
                format!("{ended}{of}"),
                ago(row.created, overview.now),
                best,
            ]
        };
        table(&["ID", "SWEEP", "STATE", "RUNS", "BEGUN", "BEST"], self.lines.iter().map(cells).collect())
    }
}
