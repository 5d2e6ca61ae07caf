//! Parallel coordinates as an SVG file: a line for each trial across all parameters, to its value at the right.

use trainyard_core::search::{Fate, Importance, Parallel};
use trainyard_core::spec::Goal;
use trainyard_core::template::plain;
use trainyard_core::value::Value;

use super::axis::end_text;
use super::svg::{STYLE, escaped, short};
use crate::report::abridged;

const GAP: f64 = 150.0;
const SIDE: f64 = 130.0;
const TOP: f64 = 90.0;
const HIGH: f64 = 320.0;
const BOTTOM: f64 = 50.0;
/// Letters of a name, which has the room of two columns, and of a tick's label, which has that of one.
const NAME: usize = 36;
const LABEL: usize = 17;

/// The better a trial, the stronger its line; below each parameter how much it matters. `None` when there is nothing to show.
pub(crate) fn parallel_svg(
    name: &str,
    metric: &str,
    goal: Goal,
    data: &Parallel,
    shares: &[Importance],
) -> Option<String> {
    let values: Vec<(usize, f64)> =
        data.lines.iter().enumerate().filter_map(|(at, line)| Some((at, value(&line.fate)?))).collect();
    let least = values.iter().map(|(_, value)| *value).reduce(f64::min)?;
    let most = values.iter().map(|(_, value)| *value).reduce(f64::max)?;
    let height = |value: f64| if most > least { (value - least) / (most - least) } else { 0.5 };
    let columns = data.axes.len() + 1;
    let wide = 2.0 * SIDE + GAP * (columns - 1) as f64;
    let tall = TOP + HIGH + BOTTOM;
    let title = escaped(&format!("{name}: {metric}"));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {tall}\" width=\"{wide}\" height=\"{tall}\" \
         role=\"img\">\n<title>{title}</title>\n<style>{STYLE}</style>\n<rect class=\"paper\" width=\"100%\" \
         height=\"100%\"/>\n<text class=\"title\" x=\"{SIDE}\" y=\"24\">{title}</text>\n"
    );
    let mut ordered = values;
    let worse_first = |a: &(usize, f64), b: &(usize, f64)| match goal {
        Goal::Maximize => a.1.total_cmp(&b.1),
        Goal::Minimize => b.1.total_cmp(&a.1),
    };
    ordered.sort_by(worse_first);
    let count = ordered.len();
    for (rank, (at, value)) in ordered.into_iter().enumerate() {
        let Some(line) = data.lines.get(at) else { continue };
        let mut path = String::new();
        let mut pen = 'M';
        for (column, place) in line.at.iter().copied().chain([Some(height(value))]).enumerate() {
            // A parameter that is not part of the trial is passed by.
            let Some(place) = place else { continue };
            path.push_str(&format!("{pen}{:.1} {:.1}", x(column), y(place)));
            pen = 'L';
        }
        let strength = 0.12 + 0.78 * ((rank + 1) as f64 / count as f64).powi(3);
        out.push_str(&format!(
            "<path class=\"line\" d=\"{path}\" stroke=\"#0072b2\" stroke-opacity=\"{strength:.2}\"><title>trial {}</title></path>\n",
            line.trial
        ));
    }
    for (column, axis) in data.axes.iter().enumerate() {
        let ticks: Vec<(f64, &Value)> = match axis.ticks.is_empty() {
            false => axis.ticks.iter().map(|(at, value)| (*at, value)).collect(),
            true => axis.ends.iter().enumerate().map(|(at, value)| (at as f64, value)).collect(),
        };
        let ticks = ticks.into_iter().map(|(at, value)| (at, label(value)));
        out.push_str(&axis_svg(column, &axis.name, &ticks.collect::<Vec<_>>()));
        if let Some(one) = shares.iter().find(|one| one.parameter == axis.name) {
            out.push_str(&share_svg(column, one.share));
        }
    }
    let ends = [(0.0, end_text(least)), (1.0, end_text(most))];
    out.push_str(&axis_svg(columns - 1, metric, &ends));
    out.push_str("</svg>\n");
    Some(out)
}

fn value(fate: &Fate) -> Option<f64> {
    match fate {
        Fate::Done { value } | Fate::Stopped { value } => Some(*value),
        Fate::Pending | Fate::Failed | Fate::Lost => None,
    }
}

fn label(value: &Value) -> String {
    match value {
        Value::Float(number) => end_text(*number),
        value => plain(value),
    }
}

/// How much a parameter matters, below its axis.
fn share_svg(column: usize, share: f64) -> String {
    let (at, down) = (x(column), TOP + HIGH + 14.0);
    format!(
        "<rect x=\"{:.1}\" y=\"{down:.1}\" width=\"{:.1}\" height=\"6\" fill=\"#d55e00\"/>\
         <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.0} %</text>\n",
        at - 30.0 * share,
        60.0 * share,
        down + 22.0,
        share * 100.0
    )
}

fn axis_svg(column: usize, name: &str, ticks: &[(f64, String)]) -> String {
    let at = x(column);
    // Neighbours stand at two heights, so that each has the room of two.
    let above = if column.is_multiple_of(2) { 14.0 } else { 32.0 };
    let mut out = format!(
        "<path class=\"axis\" d=\"M{at:.1} {TOP}V{:.1}\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">\
         <title>{}</title>{}</text>\n",
        TOP + HIGH,
        TOP - above,
        escaped(name),
        escaped(&short(name, NAME))
    );
    for (place, label) in ticks {
        let down = y(*place);
        out.push_str(&format!(
            "<path class=\"axis\" d=\"M{:.1} {down:.1}h8\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
            at - 4.0,
            at + 8.0,
            down + 4.0,
            escaped(&abridged(label, LABEL))
        ));
    }
    out
}

fn x(column: usize) -> f64 {
    SIDE + GAP * column as f64
}

fn y(place: f64) -> f64 {
    TOP + HIGH * (1.0 - place)
}
