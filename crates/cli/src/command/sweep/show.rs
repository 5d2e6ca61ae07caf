//! What a sweep has found.

use std::collections::HashMap;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use trainyard_core::search::{End, Fate, Phase, Score};
use trainyard_core::spec::Goal;
use trainyard_core::template::plain;
use trainyard_core::value::Params;
use trainyard_engine::ledger::{Ledger, SweepState};
use trainyard_engine::sweep::Overview;

use super::find_row;
use super::write::write;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style, abridged, ago, drop_empty_columns, plural, rfc3339, span, table};

#[derive(Debug, Args)]
pub(super) struct Show {
    /// The sweep by name or number
    name: String,

    /// All trials instead of the best ones
    #[arg(long, short)]
    all: bool,

    /// Write a table of the trials (`.csv`), or a picture of them (`.svg`)
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

/// Trials in the table unless all are asked for.
const TOP: usize = 10;
/// Running trials that are listed one by one.
const MOST_RUNNING: usize = 8;

impl Show {
    pub(super) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let ledger = context.ledger()?;
        context.rouse(&ledger)?;
        let overview = Overview::of(&ledger, find_row(context, &ledger, &self.name)?)?;
        if let Some(to) = &self.to {
            write(&overview, &context.folder.join(to))?;
            context.printer.say(&format!("written to {}", to.display()));
            return Ok(Exit::Done);
        }
        let top = if self.all { usize::MAX } else { TOP };
        context.printer.report(&Shown { overview: &overview, top });
        Ok(Exit::Done)
    }
}

pub(super) fn print(context: &Context, ledger: &Ledger, id: i64) -> Result<Exit, CommandError> {
    if let Some(row) = ledger.sweep(id)? {
        report(context, &Overview::of(ledger, row)?);
    }
    Ok(Exit::Done)
}

pub(super) fn report(context: &Context, overview: &Overview) {
    context.printer.report(&Shown { overview, top: TOP });
}

struct Shown<'a> {
    overview: &'a Overview,
    top: usize,
}

impl Report for Shown<'_> {
    fn json(&self) -> Value {
        let overview = self.overview;
        let row = &overview.row;
        let (ended, expected) = overview.progress();
        json!({
            "id": row.id,
            "name": row.name,
            "state": row.state,
            "phase": phase_word(overview),
            "reason": row.reason,
            "metric": row.spec.metric,
            "goal": row.spec.goal,
            "created": rfc3339(row.created),
            "ended": row.ended.map(rfc3339),
            "runs": { "ended": ended, "expected": expected, "running": overview.going.len() },
            "seconds_left": overview.left().map(|left| left.0 / 1000),
            "best": overview.sweep.standing().first().map(|best| json!({
                "trial": best.trial, "score": score_json(&best.score), "params": overview.params_of(best.trial),
            })),
            "importance": importance_json(overview),
            "parallel": overview.sweep.parallel(),
            "trials": trials_json(overview),
        })
    }

    fn text(&self, style: Style) -> String {
        let mut text = head(self.overview, style);
        text.push_str(&leaderboard(self.overview, self.top));
        text.push_str(&importance_text(self.overview));
        text.push_str(&running(self.overview, style));
        text
    }
}

/// What the live view shows.
pub(super) fn live_text(overview: &Overview, style: Style) -> String {
    format!("{}{}{}", head(overview, style), leaderboard(overview, 5), running(overview, style))
}

/// Fewer trials say nothing about what matters.
const FEWEST_FOR_IMPORTANCE: usize = 8;

fn importance_text(overview: &Overview) -> String {
    let tally = overview.tally();
    let shares = overview.sweep.importance();
    if tally.done + tally.stopped < FEWEST_FOR_IMPORTANCE || shares.len() < 2 {
        return String::new();
    }
    let space = &overview.row.spec.space;
    let word = |one: &trainyard_core::search::Importance| {
        format!("{} {:.0} %", short_name(&one.parameter, space.keys()), one.share * 100.0)
    };
    let words: Vec<String> = shares.iter().map(word).collect();
    format!("what matters: {}\n", words.join(", "))
}

fn importance_json(overview: &Overview) -> Vec<Value> {
    let one = |one: trainyard_core::search::Importance| json!({ "parameter": one.parameter, "share": one.share });
    overview.sweep.importance().into_iter().map(one).collect()
}

fn trials_json(overview: &Overview) -> Vec<Value> {
    let standing = overview.sweep.standing().into_iter().map(|scored| (scored.trial, score_json(&scored.score)));
    let scores: HashMap<u32, Value> = standing.collect();
    let leg = |(number, leg, end): (u32, &trainyard_core::search::Leg, Option<End>)| {
        json!({
            "run": overview.runs.get(number as usize).copied().flatten(),
            "role": leg.role,
            "seed": leg.seed,
            "end": end,
        })
    };
    let trial = |trial: &trainyard_core::search::Trial| {
        json!({
            "trial": trial.number,
            "fate": trial.fate,
            "score": scores.get(&trial.number),
            "sampled": trial.params,
            "params": overview.params_of(trial.number),
            "runs": overview.sweep.legs_of(trial.number).map(leg).collect::<Vec<_>>(),
        })
    };
    overview.sweep.trials().iter().map(trial).collect()
}

fn phase_word(overview: &Overview) -> &'static str {
    match overview.phase {
        Phase::Search => "search",
        Phase::Confirm => "confirm",
        Phase::Done { .. } => "done",
    }
}

fn head(overview: &Overview, style: Style) -> String {
    let row = &overview.row;
    let (ended, expected) = overview.progress();
    let of = expected.map(|expected| format!(" of {expected}")).unwrap_or_default();
    let mut parts = vec![format!("{ended}{of} runs")];
    if !overview.going.is_empty() {
        parts.push(format!("{} going on", overview.going.len()));
    }
    let tally = overview.tally();
    for (count, word) in [(tally.stopped, "stopped early"), (tally.failed, "failed"), (tally.lost, "lost")] {
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    match (row.state, overview.phase.clone()) {
        (SweepState::Going, Phase::Confirm) => parts.push("confirming the best".to_owned()),
        (SweepState::Going, _) => {}
        (state, _) => parts.push(state.word().to_owned()),
    }
    if let Some(left) = overview.left().filter(|_| row.state == SweepState::Going) {
        parts.push(format!("about {} left", span(left)));
    }
    let mut text = format!("{}  {}\n", style.bold(&format!("{} ({})", row.name, row.id)), parts.join(", "));
    if let Some(reason) = row.reason.as_ref().filter(|_| row.state == SweepState::Failed) {
        text.push_str(&format!("{}\n", style.red(reason)));
    }
    text
}

fn leaderboard(overview: &Overview, top: usize) -> String {
    let standing = overview.sweep.standing();
    if standing.is_empty() {
        return String::new();
    }
    let more = standing.len().saturating_sub(top);
    let metric = match overview.row.spec.goal {
        Goal::Maximize => format!("{} (more is better)", overview.row.spec.metric),
        Goal::Minimize => format!("{} (less is better)", overview.row.spec.metric),
    };
    let rows = standing.into_iter().take(top).map(|scored| {
        vec![format!("{}", scored.trial), score_text(&scored.score), params_text(&overview.params_of(scored.trial))]
    });
    let mut text = table(&["TRIAL", &metric, "PARAMETERS"], rows.collect());
    if more > 0 && top == TOP {
        text.push_str(&format!("and {} more; `--all` shows them\n", plural(more, "trial")));
    }
    text
}

fn running(overview: &Overview, style: Style) -> String {
    let several = overview.row.batches.len() > 1;
    let mut legs: Vec<_> = overview.going.iter().collect();
    legs.sort_by_key(|(leg, _)| **leg);
    let more = legs.len().saturating_sub(MOST_RUNNING);
    let mut rows: Vec<Vec<String>> = legs
        .into_iter()
        .take(MOST_RUNNING)
        .map(|(_, run)| {
            let last = run.course.last().map(|point| {
                let value = point.value.map_or_else(|| "NaN".to_owned(), number);
                format!("{value} at step {}", point.step)
            });
            let began = run.started.map(|at| ago(at, overview.now)).unwrap_or_default();
            let target = if several { run.target.clone() } else { String::new() };
            vec![run.name.clone(), target, style.state(&run.state, &run.state), began, last.unwrap_or_default()]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut header = vec!["GOING ON", "TARGET", "STATE", "BEGAN", "NOW"];
    drop_empty_columns(&mut header, &mut rows);
    let mut text = table(&header, rows);
    if more > 0 {
        text.push_str(&format!("and {} more\n", plural(more, "run")));
    }
    text
}

pub(super) fn fate_text(fate: Fate) -> String {
    match fate {
        Fate::Pending => "going on".to_owned(),
        Fate::Done { value } => number(value),
        Fate::Stopped { value } => format!("stopped early at {}", number(value)),
        Fate::Failed => "failed".to_owned(),
        Fate::Lost => "lost".to_owned(),
    }
}

pub(super) fn score_text(score: &Score) -> String {
    match score {
        Score::Confirmed { mean, interval, seeds } => {
            let interval = interval.map(|(low, high)| format!(" [{} to {}]", number(low), number(high)));
            format!("{}{}, {}", number(*mean), interval.unwrap_or_default(), plural(*seeds as usize, "fresh seed"))
        }
        Score::Seen { value } => number(*value),
        Score::Stopped { value } => format!("{} (stopped early)", number(*value)),
    }
}

pub(super) fn score_json(score: &Score) -> Value {
    match score {
        Score::Confirmed { mean, interval, seeds } => {
            json!({ "is": "confirmed", "mean": mean, "interval": interval, "seeds": seeds })
        }
        Score::Seen { value } => json!({ "is": "seen", "value": value }),
        Score::Stopped { value } => json!({ "is": "stopped", "value": value }),
    }
}

/// For the eye; `yard sweep best`, tables and JSON have every letter.
fn params_text(params: &Params) -> String {
    let words = params.iter().map(|(name, value)| {
        let value = match value {
            trainyard_core::value::Value::Float(value) => number(*value),
            value => abridged(&plain(value), LONGEST_VALUE),
        };
        format!("{}={value}", short_name(name, params.keys()))
    });
    words.collect::<Vec<_>>().join(" ")
}

const LONGEST_VALUE: usize = 24;

/// `agent.params.config.gamma` is `gamma`, where no other parameter is called so.
fn short_name<'a>(name: &'a str, all: impl Iterator<Item = &'a String>) -> &'a str {
    let last = |name: &'a str| name.rsplit('.').next().unwrap_or(name);
    if all.filter(|other| last(other) == last(name)).count() > 1 { name } else { last(name) }
}

/// Four digits are enough to compare by.
fn number(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || !value.is_finite() {
        format!("{value}")
    } else if (1e-3..1e5).contains(&size) {
        let digits = (3 - size.log10().floor() as i32).clamp(0, 6) as usize;
        format!("{value:.digits$}")
    } else {
        format!("{value:.3e}")
    }
}
