//! A sweep as a file for other programs: a table of its trials, or a picture of them.

use std::collections::HashMap;
use std::path::Path;

use trainyard_agent::disk::{Durability, replace};
use trainyard_core::search::{Fate, Score};
use trainyard_core::template::plain;
use trainyard_engine::sweep::Overview;

use crate::error::{CommandError, Exit};
use crate::report::parallel_svg;

/// The ending of the name says which.
pub(super) fn write(overview: &Overview, to: &Path) -> Result<(), CommandError> {
    let text = match to.extension().and_then(|ending| ending.to_str()) {
        Some("csv") => csv(overview),
        Some("svg") => {
            let spec = &overview.row.spec;
            let (lines, shares) = (overview.sweep.parallel(), overview.sweep.importance());
            let drawn = parallel_svg(&overview.row.name, &spec.metric, spec.goal, &lines, &shares);
            drawn.ok_or_else(|| {
                CommandError::new(Exit::RunFailed, "no trial has a result yet, so there is nothing to draw")
            })?
        }
        _ => {
            let message = format!("`{}` should end in `.csv` or `.svg`", to.display());
            return Err(CommandError::new(Exit::Usage, message));
        }
    };
    Ok(replace(to, text.as_bytes(), Durability::Cached)?)
}

fn csv(overview: &Overview) -> String {
    let metric = &overview.row.spec.metric;
    let names: Vec<&str> = overview.row.spec.space.keys().map(String::as_str).collect();
    let head = ["trial", "state", metric, "low", "high", "seeds"].into_iter().chain(names.iter().copied());
    let mut text = line(head.map(str::to_owned));
    let standing = overview.sweep.standing().into_iter().map(|scored| (scored.trial, scored.score));
    let scores: HashMap<u32, Score> = standing.collect();
    for trial in overview.sweep.trials() {
        let numbers: [String; 4] = match scores.get(&trial.number) {
            Some(Score::Confirmed { mean, interval, seeds }) => {
                let (low, high) =
                    interval.map_or((String::new(), String::new()), |(l, h)| (l.to_string(), h.to_string()));
                [mean.to_string(), low, high, seeds.to_string()]
            }
            Some(Score::Seen { value } | Score::Stopped { value }) => {
                [value.to_string(), String::new(), String::new(), "1".to_owned()]
            }
            None => Default::default(),
        };
        let params = overview.params_of(trial.number);
        let values = names.iter().map(|name| params.get(*name).map(plain).unwrap_or_default());
        let first = [trial.number.to_string(), state(trial.fate).to_owned()];
        text.push_str(&line(first.into_iter().chain(numbers).chain(values)));
    }
    text
}

fn state(fate: Fate) -> &'static str {
    match fate {
        Fate::Pending => "running",
        Fate::Done { .. } => "done",
        Fate::Stopped { .. } => "stopped",
        Fate::Failed => "failed",
        Fate::Lost => "lost",
    }
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let quoted = cells.map(|cell| {
        if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
    });
    quoted.collect::<Vec<_>>().join(",") + "\n"
}
