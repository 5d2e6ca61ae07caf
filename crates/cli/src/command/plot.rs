//! `yard plot`: curves of runs.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use trainyard_agent::disk;
use trainyard_core::id::RunId;
use trainyard_engine::curves::{Band, Spot, band, smooth};
use trainyard_engine::ledger::RunRow;

use super::curves::{Charted, load, metric};
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::report::{self, Along, Line, Report, Style, svg, terminal};

/// Plot a metric of runs; several seeds of one submission as their mean and range
#[derive(Debug, Args)]
pub(crate) struct Plot {
    /// Runs by name or id, or a job for all runs of its newest submission
    #[arg(required = true)]
    runs: Vec<String>,

    /// The metric; the job's `headline`, or what looks like the reward, when not given
    #[arg(long, short, value_name = "NAME")]
    metric: Option<String>,

    /// What the curve runs along
    #[arg(long, value_enum, default_value_t = X::Step)]
    x: X,

    /// Smooth as TensorBoard does, from 0 (not at all) to below 1
    #[arg(long, value_name = "WEIGHT", default_value_t = 0.0)]
    smooth: f64,

    /// A logarithmic scale for the values
    #[arg(long)]
    log: bool,

    /// Each run by itself, even if they differ in their seed only
    #[arg(long)]
    each: bool,

    /// Write an SVG file instead
    #[arg(long, value_name = "FILE.svg")]
    to: Option<PathBuf>,
}

/// Lines of a plot on the terminal, without its title and legend.
const ROWS: usize = 18;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum X {
    Step,
    /// Since the run began, with all it waited
    Time,
}

impl Plot {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        if !(0.0..1.0).contains(&self.smooth) {
            return Err(CommandError::new(Exit::Usage, format!("--smooth is {}, not from 0 to below 1", self.smooth)));
        }
        let ledger = context.ledger()?;
        context.rouse(&ledger)?;
        let (mut rows, mut groups): (Vec<RunRow>, Vec<Group>) = Default::default();
        for word in &self.runs {
            let found = context.resolve(&ledger, std::slice::from_ref(word))?;
            let new: Vec<RunRow> =
                found.into_iter().filter(|row| rows.iter().all(|other| other.id != row.id)).collect();
            groups.extend(grouped(word, &new, self.each));
            rows.extend(new);
        }
        let runs = load(context, &ledger, rows)?;
        let metric = metric(&runs, self.metric.as_deref())?;
        for run in runs.iter().filter(|run| run.curves.get(&metric).is_none()) {
            context.printer.say(&format!("{} has no `{metric}`", run.row.name));
        }
        let lines = groups.iter().filter_map(|group| self.line(group, &runs, &metric)).collect();
        let picture = Picture { metric, x: self.x, is_log: self.log, columns: context.printer.page(), lines };
        match &self.to {
            None => context.printer.report(&picture),
            Some(to) => write(context, &context.folder.join(to), &picture)?,
        }
        Ok(Exit::Done)
    }

    /// `None` if no run of the group has the metric.
    fn line(&self, group: &Group, runs: &[Charted], metric: &str) -> Option<Drawn> {
        let members = runs.iter().filter(|run| group.runs.contains(&run.row.id));
        let members: Vec<&Charted> = members.filter(|run| run.curves.get(metric).is_some()).collect();
        let curves: Vec<Vec<Spot>> = members.iter().map(|run| self.spots(run, metric)).collect();
        let count = curves.iter().filter(|curve| !curve.is_empty()).count();
        let label = match (count, &members[..]) {
            (0, _) => return None,
            (_, [run]) => run.row.name.clone(),
            (count, _) => format!("{}: mean of {count} seeds, from the least to the greatest", group.label),
        };
        let runs = members.iter().map(|run| (run.row.id, run.row.name.clone())).collect();
        Some(Drawn { label, runs, bands: band(&curves), gaps: gaps(&curves) })
    }

    fn spots(&self, run: &Charted, metric: &str) -> Vec<Spot> {
        let Some(series) = run.curves.get(metric) else { return Vec::new() };
        let first = series.get(0).map_or(0.0, |point| point.wall_time);
        let began = run.row.started.map_or(first, |at| (at.0 as f64 / 1000.0).min(first));
        let x = |step: i64, time: f64| if self.x == X::Step { step as f64 } else { time - began };
        let spot = |point: trainyard_engine::curves::Point| Spot { x: x(point.step, point.wall_time), y: point.value };
        let mut spots: Vec<Spot> = series.iter().map(spot).collect();
        // Clocks of machines differ: a later attempt may seem to come before an earlier one.
        let mut latest = f64::NEG_INFINITY;
        for spot in &mut spots {
            latest = latest.max(spot.x);
            spot.x = latest;
        }
        smooth(&mut spots, self.smooth);
        spots
    }
}

/// Runs that make one line.
struct Group {
    label: String,
    runs: Vec<RunId>,
}

/// Runs of one word that differ in their seed only belong together.
fn grouped(word: &str, rows: &[RunRow], each: bool) -> Vec<Group> {
    let mut groups: Vec<(&RunRow, Group)> = Vec::new();
    for row in rows {
        let same = |other: &RunRow| !each && other.params == row.params && other.seed.is_some() && row.seed.is_some();
        match groups.iter_mut().find(|(first, _)| same(first)) {
            Some((_, group)) => group.runs.push(row.id),
            None => groups.push((row, Group { label: row.name.clone(), runs: vec![row.id] })),
        }
    }
    let alone = groups.len() == 1;
    let label = |row: &RunRow| {
        let params: Vec<String> = row.params.iter().map(|(name, value)| format!("{name}={}", json!(value))).collect();
        if alone || params.is_empty() { word.to_owned() } else { format!("{word} {}", params.join(" ")) }
    };
    groups.into_iter().map(|(row, group)| Group { label: label(row), ..group }).collect()
}

/// Where a single curve is no number; of several, the others still say something.
fn gaps(curves: &[Vec<Spot>]) -> Vec<f64> {
    match curves {
        [curve] => curve.iter().filter(|spot| !spot.y.is_finite()).map(|spot| spot.x).collect(),
        _ => Vec::new(),
    }
}

fn write(context: &Context, to: &Path, picture: &Picture) -> Result<(), CommandError> {
    if to.extension().is_none_or(|kind| kind != "svg") {
        return Err(CommandError::new(Exit::Usage, format!("{} does not end with .svg", to.display())));
    }
    let text = svg(&picture.plot());
    let text =
        text.ok_or_else(|| CommandError::new(Exit::Usage, format!("`{}` has nothing to show", picture.metric)))?;
    disk::replace(to, text.as_bytes(), disk::Durability::Cached)?;
    context.printer.say(&format!("wrote {}", to.display()));
    Ok(())
}

struct Drawn {
    label: String,
    runs: Vec<(RunId, String)>,
    bands: Vec<Band>,
    gaps: Vec<f64>,
}

struct Picture {
    metric: String,
    x: X,
    is_log: bool,
    columns: usize,
    lines: Vec<Drawn>,
}

impl Picture {
    fn plot(&self) -> report::Plot {
        let along = if self.x == X::Step { Along::Steps } else { Along::Time };
        let line = |drawn: &Drawn| {
            let spots = drawn.bands.iter().map(|band| (band.x, band.mean));
            let mut spots: Vec<(f64, f64)> = spots.chain(drawn.gaps.iter().map(|x| (*x, f64::NAN))).collect();
            spots.sort_by(|a, b| a.0.total_cmp(&b.0));
            let several = drawn.runs.len() > 1;
            let band = drawn.bands.iter().filter(|_| several).map(|band| (band.x, band.least, band.most));
            Line { label: drawn.label.clone(), spots, band: band.collect() }
        };
        let lines = self.lines.iter().map(line).collect();
        report::Plot { metric: self.metric.clone(), along, is_log: self.is_log, lines }
    }
}

impl Report for Picture {
    fn json(&self) -> Value {
        let point = |band: &Band| json!({ "x": band.x, "mean": band.mean, "min": band.least, "max": band.most, "runs": band.count });
        let run = |(id, name): &(RunId, String)| json!({ "id": id, "name": name });
        let line = |drawn: &Drawn| {
            json!({
                "label": drawn.label,
                "runs": drawn.runs.iter().map(run).collect::<Vec<_>>(),
                "points": drawn.bands.iter().map(point).collect::<Vec<_>>(),
                "not_a_number_at": drawn.gaps,
            })
        };
        let x = if self.x == X::Step { "step" } else { "seconds" };
        json!({ "metric": self.metric, "x": x, "lines": self.lines.iter().map(line).collect::<Vec<_>>() })
    }

    fn text(&self, style: Style) -> String {
        terminal(&self.plot(), (self.columns, ROWS), style)
    }
}
