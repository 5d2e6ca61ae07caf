//! Which parameters matter: PED-ANOVA (Watanabe et al., 2023), and its form for conditional parameters (2026). A
//! parameter matters if its values among the best tenth of the trials are distributed unlike those among all.

use serde::Serialize;

use super::history::{Fate, History};
use super::normal::cdf;
use super::{Axis, Space};

/// The share of the trials that is to be reached.
const BEST: f64 = 0.1;
/// Cells that a continuous axis is cut into.
const CELLS: u64 = 50;
/// Keeps a cell without any trial from dividing by nothing.
const LEAST: f64 = 1e-12;

/// How much of the way to the best trials is due to one parameter; all together make 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Importance {
    pub parameter: String,
    pub share: f64,
}

/// All searched parameters, the most important first. Trials that failed count as the worst, pending ones not at all;
/// as long as nothing can be said, all are alike.
pub fn importance(space: &Space, history: &History<'_>) -> Vec<Importance> {
    let mut ended: Vec<(f64, Vec<f64>)> = Vec::new();
    for trial in history.trials {
        let loss = match trial.fate {
            Fate::Done { value } | Fate::Stopped { value } if value.is_finite() => history.loss(value),
            Fate::Pending => continue,
            _ => f64::INFINITY,
        };
        ended.push((loss, space.point(&trial.params)));
    }
    ended.sort_by(|a, b| a.0.total_cmp(&b.0));
    let best = best(&ended);
    let raw: Vec<f64> =
        space.axes().enumerate().map(|(place, (_, axis))| weighted(axis, place, &ended, best)).collect();
    let sum: f64 = raw.iter().sum();
    let share = |raw: f64| if sum > 0.0 { raw / sum } else { 1.0 / space.axes().len().max(1) as f64 };
    let mut found: Vec<Importance> = space
        .axes()
        .zip(raw)
        .map(|((name, _), raw)| Importance { parameter: name.to_owned(), share: share(raw) })
        .collect();
    found.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.parameter.cmp(&b.parameter)));
    found
}

/// How many of the sorted trials are among the best; those equal to the last of them are too.
fn best(ended: &[(f64, Vec<f64>)]) -> usize {
    let wanted = (BEST * ended.len() as f64).ceil() as usize;
    let Some((cut, _)) = wanted.checked_sub(1).and_then(|last| ended.get(last)) else { return 0 };
    ended.partition_point(|(loss, _)| loss <= cut && loss.is_finite())
}

/// The divergence among the trials in which the parameter is active, weighted by how much of the best these are.
fn weighted(axis: &Axis, place: usize, ended: &[(f64, Vec<f64>)], best: usize) -> f64 {
    let cells = cells(axis);
    let count = |trials: &[(f64, Vec<f64>)]| {
        let mut counts = vec![0.0; cells];
        for (_, point) in trials {
            let at = point.get(place).copied().filter(|at| !at.is_nan());
            if let Some(count) = at.and_then(|at| counts.get_mut(cell(axis, at, cells))) {
                *count += 1.0;
            }
        }
        counts
    };
    let (among_best, among_all) = (count(ended.get(..best).unwrap_or_default()), count(ended));
    let (active_best, active_all) = (among_best.iter().sum::<f64>(), among_all.iter().sum::<f64>());
    if cells < 2 || active_best == 0.0 || active_all < 2.0 {
        return 0.0;
    }
    let (alpha, beta) = (active_best / best as f64, active_all / ended.len() as f64);
    let (p, q) = (density(axis, &among_best), density(axis, &among_all));
    let divergence: f64 = p.iter().zip(&q).map(|(p, q)| q * (p / q - 1.0).powi(2)).sum();
    alpha * alpha / beta * divergence
}

fn cells(axis: &Axis) -> usize {
    let count = axis.count().unwrap_or(CELLS);
    (if axis.is_ordered() { count.min(CELLS) } else { count }) as usize
}

fn cell(axis: &Axis, at: f64, cells: usize) -> usize {
    let is_counted = axis.count().is_some_and(|count| count as usize == cells);
    let cell = if is_counted { (at * cells as f64).floor() } else { (at * (cells - 1) as f64).round() };
    (cell.max(0.0) as usize).min(cells - 1)
}

/// The distribution over the cells, smoothed: by kernels of the width that Scott's rule gives where cells have an
/// order, and everywhere by one trial that may have been anything.
fn density(axis: &Axis, counts: &[f64]) -> Vec<f64> {
    let total: f64 = counts.iter().sum();
    let mut smooth = if axis.is_ordered() { kernels(counts) } else { shares(counts) };
    smooth.iter_mut().for_each(|density| *density = *density / (total + 1.0) + LEAST);
    smooth
}

/// Each value that was seen leaks a little to the others.
fn shares(counts: &[f64]) -> Vec<f64> {
    let seen = counts.iter().filter(|count| **count > 0.0).count() as f64;
    let choices = counts.len() as f64;
    let leak = 1.0 / (seen + 1.0);
    let whole = 1.0 + choices * leak;
    let total: f64 = counts.iter().sum();
    counts.iter().map(|count| (count + total * leak) / whole + 1.0 / choices).collect()
}

fn kernels(counts: &[f64]) -> Vec<f64> {
    let cells = counts.len();
    let width = width(counts);
    // Where the edges of the cells lie as seen from any cell, so that each is looked up once.
    let edge: Vec<f64> = (0..=2 * cells).map(|edge| cdf((edge as f64 - cells as f64 - 0.5) / width)).collect();
    let at = |index: usize| edge.get(index).copied().unwrap_or(1.0);
    let mut density = vec![0.0; cells];
    for (centre, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0.0) {
        let below = cells - centre;
        let inside = at(below + cells) - at(below);
        for (cell, density) in density.iter_mut().enumerate() {
            *density += count * (at(below + cell + 1) - at(below + cell)) / inside;
        }
    }
    let (middle, wide) = ((cells - 1) as f64 / 2.0, cells as f64);
    let prior = |edge: f64| cdf((edge - 0.5 - middle) / wide);
    let inside = prior(wide) - prior(0.0);
    for (cell, density) in density.iter_mut().enumerate() {
        *density += (prior(cell as f64 + 1.0) - prior(cell as f64)) / inside;
    }
    density
}

/// Scott's rule on cells; never so narrow that a kernel falls between them.
fn width(counts: &[f64]) -> f64 {
    let total: f64 = counts.iter().sum();
    let mean = counts.iter().enumerate().map(|(cell, count)| cell as f64 * count).sum::<f64>() / total;
    let squares: f64 = counts.iter().enumerate().map(|(cell, count)| (cell as f64 - mean).powi(2) * count).sum();
    let deviation = (squares / (total - 1.0).max(1.0)).sqrt();
    let mut below = 0.0;
    let (mut first, mut third, mut last) = (None, None, 0);
    for (cell, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0.0) {
        below += count;
        first = first.or((below >= (total / 4.0).floor()).then_some(cell));
        third = third.or((below > (total * 3.0 / 4.0).floor()).then_some(cell));
        last = cell;
    }
    let quartiles = third.unwrap_or(last) as f64 - first.unwrap_or(0) as f64;
    let scott = 1.059 * (quartiles / 1.34).min(deviation) * total.powf(-0.2);
    // 90 % of a kernel within its own cell.
    scott.max(0.5 / 1.64)
}
