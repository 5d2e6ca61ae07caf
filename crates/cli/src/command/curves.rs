//! Runs with their curves, for the commands that show them.

use serde_json::{Value, json};
use trainyard_core::spec::TargetSpec;
use trainyard_engine::curves::{Curves, FetchError, Places, fetch};
use trainyard_engine::ledger::{Batch, Ledger, RunRow};

use crate::context::Context;
use crate::errand::Pipes;
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style, headline, plural, table};

/// A run and all its points.
pub(super) struct Charted {
    pub(super) row: RunRow,
    pub(super) batch: Batch,
    pub(super) curves: Curves,
}

/// Reads what lies on this machine, and fetches what is new of the rest.
pub(super) fn load(context: &Context, ledger: &Ledger, rows: Vec<RunRow>) -> Result<Vec<Charted>, CommandError> {
    let mut pipes = Pipes::new(context);
    let mut charted = Vec::new();
    for row in rows {
        let batch = ledger.batch(row.batch)?;
        let places = match &batch.site {
            None => Places::here(&row, &batch),
            Some(site) => bring(context, &mut pipes, &site.target, &row)?,
        };
        let curves = Curves::of(&places)?;
        for (path, at) in curves.damaged() {
            context.printer.say(&format!("{}: damaged from byte {at} on", path.display()));
        }
        charted.push(Charted { row, batch, curves });
    }
    Ok(charted)
}

/// A connection that was kept may have broken meanwhile.
fn bring(context: &Context, pipes: &mut Pipes<'_>, target: &TargetSpec, row: &RunRow) -> Result<Places, CommandError> {
    let cache = context.home.curves();
    match fetch(pipes.to(target)?, row, &cache) {
        Err(FetchError::Pipe(error)) if error.is_broken() => {
            pipes.close(target);
            Ok(fetch(pipes.to(target)?, row, &cache)?)
        }
        other => Ok(other?),
    }
}

impl Charted {
    /// An error if it has no metrics at all.
    pub(super) fn some(&self) -> Result<(), CommandError> {
        if !self.curves.names().is_empty() {
            return Ok(());
        }
        let error = CommandError::new(Exit::Usage, format!("{} has no metrics", self.row.name));
        Err(if !self.row.metrics.is_empty() {
            error.hint("it had some: its folder was removed by `yard clean`")
        } else if self.batch.job.metrics.is_empty() {
            error.hint(format!("`[jobs.{}.metrics]` says where its numbers are", self.row.job))
        } else if self.row.ended.is_none() {
            error.hint("it has not said anything yet")
        } else {
            error.hint(format!("`yard show {}` says what was looked for", self.row.name))
        })
    }

    fn headline(&self) -> Option<String> {
        let own = self.row.headline.clone().filter(|name| self.curves.get(name).is_some());
        let named = || headline(&self.row).map(|(name, _)| name.to_owned());
        own.or_else(named).filter(|name| self.curves.get(name).is_some())
    }
}

/// The metric that is meant: the one named, or what people look at first.
pub(super) fn metric(runs: &[Charted], name: Option<&str>) -> Result<String, CommandError> {
    let Some(name) = name else {
        let found = runs.iter().find_map(Charted::headline);
        let any = || runs.iter().flat_map(|run| run.curves.names()).next().map(str::to_owned);
        return found.or_else(any).ok_or_else(|| none_at_all(runs));
    };
    if runs.iter().any(|run| run.curves.get(name).is_some()) {
        return Ok(name.to_owned());
    }
    let mut known: Vec<&str> = runs.iter().flat_map(|run| run.curves.names()).collect();
    known.sort_unstable();
    known.dedup();
    if known.is_empty() {
        return Err(none_at_all(runs));
    }
    let who = match runs {
        [run] => run.row.name.clone(),
        runs => plural(runs.len(), "run"),
    };
    let error = CommandError::new(Exit::Usage, format!("no metric `{name}` in {who}"));
    let error = match nearest(name, &known) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error,
    };
    let shown: Vec<String> = known.iter().take(20).map(|name| format!("`{name}`")).collect();
    let more = known.len().saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more (`yard show RUN --metrics`)") } else { String::new() };
    Err(error.hint(format!("there are {}{more}", shown.join(", "))))
}

fn none_at_all(runs: &[Charted]) -> CommandError {
    let first = runs.iter().find_map(|run| run.some().err());
    first.unwrap_or_else(|| CommandError::new(Exit::Usage, "there are no metrics"))
}

/// A name that is part of another is near to it, however long that is.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    const NEAR: f64 = 0.8;
    let wanted = name.to_lowercase();
    let score = |other: &str| {
        let other = other.to_lowercase();
        let part = if other.contains(&wanted) { NEAR + 0.1 } else { 0.0 };
        strsim::jaro_winkler(&wanted, &other).max(part)
    };
    let best = known.iter().max_by(|a, b| score(a).total_cmp(&score(b)))?;
    (score(best) >= NEAR).then_some(*best)
}

/// `yard show --metrics`.
pub(super) struct MetricTable(pub(super) Charted);

impl Report for MetricTable {
    fn json(&self) -> Value {
        let Self(run) = self;
        let point = |step: i64, time: f64, value: f64| json!({ "step": step, "time": time, "value": value.is_finite().then_some(value) });
        let metrics = run.curves.names().into_iter().filter_map(|name| {
            let summary = run.curves.summary(name)?;
            let told = |at: trainyard_engine::curves::Point| point(at.step, at.wall_time, at.value);
            Some(json!({
                "name": name,
                "points": summary.points,
                "last": told(summary.last),
                "min": summary.least.map(told),
                "max": summary.most.map(told),
            }))
        });
        json!({ "id": run.row.id, "name": run.row.name, "metrics": metrics.collect::<Vec<_>>() })
    }

    fn text(&self, _: Style) -> String {
        let Self(run) = self;
        let cells = |name: &str| {
            let summary = run.curves.summary(name)?;
            Some(vec![
                name.to_owned(),
                summary.last.step.to_string(),
                brief(summary.last.value),
                summary.least.map(|point| brief(point.value)).unwrap_or_default(),
                summary.most.map(|point| brief(point.value)).unwrap_or_default(),
                summary.points.to_string(),
            ])
        };
        let rows = run.curves.names().into_iter().filter_map(cells).collect();
        table(&["METRIC", "STEP", "LAST", "MIN", "MAX", "POINTS"], rows)
    }
}

/// Six digits that count.
fn brief(value: f64) -> String {
    if !value.is_finite() {
        return "not a number".to_owned();
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e15).contains(&size) {
        return format!("{value:.4e}");
    }
    let whole = if size < 1.0 { 0 } else { size.log10().floor() as usize + 1 };
    let text = format!("{value:.*}", 6_usize.saturating_sub(whole.max(1)));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 1.0, -12.5, 0.123_456_789, 123_456.7, 1e7, 1e-9, 1e20, f64::NAN].map(brief);
        assert_eq!(
            texts,
            ["0", "1", "-12.5", "0.12346", "123457", "10000000", "1.0000e-9", "1.0000e20", "not a number"]
        );
    }

    #[test]
    fn the_nearest_name_is_offered() {
        let known = ["Train/mean_reward", "Loss/value_function", "Policy/mean_std"];
        assert_eq!(nearest("Train/mean_rewrd", &known), Some("Train/mean_reward"));
        assert_eq!(nearest("reward", &known), Some("Train/mean_reward"));
        assert_eq!(nearest("xyz", &known), None);
    }
}
