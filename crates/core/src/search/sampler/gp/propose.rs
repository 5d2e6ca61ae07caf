//! Where the model expects most improvement: many points are looked at, the best of them are improved.

use crate::search::descent::{Limits, minimize};
use crate::search::normal::{cdf, log_improvement, pdf};
use crate::search::space::Point;
use crate::search::{Axis, Rng, Space};
use crate::value::Params;

use super::model::Model;

const SCATTERED: usize = 400;
/// Around each of the best trials, at these distances.
const AROUND: usize = 5;
const DISTANCES: [f64; 8] = [0.2, 0.1, 0.1, 0.05, 0.02, 0.02, 0.005, 0.001];
const IMPROVED: usize = 4;
/// In at least one coordinate a suggestion differs that much from every pending trial.
const APART: f64 = 0.02;

/// `None` if no point was found that keeps the constraints.
pub(super) fn propose(space: &Space, model: &Model, rng: &mut Rng) -> Option<Params> {
    let axes: Vec<&Axis> = space.axes().map(|(_, axis)| axis).collect();
    let mut found: Vec<(Point, f64)> = Vec::new();
    let mut consider = |mut point: Point| {
        if space.settle(&mut point).is_ok() && is_new(model, &point) {
            let gain = gain(model, &point);
            found.push((point, gain));
        }
    };
    for _ in 0..SCATTERED {
        consider(axes.iter().map(|_| rng.unit()).collect());
    }
    let mut known: Vec<(&Point, f64)> = model.points.iter().map(|point| (point, model.guess(point).0)).collect();
    known.sort_by(|a, b| a.1.total_cmp(&b.1));
    for (centre, _) in known.iter().take(AROUND) {
        for distance in DISTANCES {
            for _ in 0..3 {
                consider(near(&axes, centre, distance, rng));
            }
        }
    }
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found.truncate(IMPROVED);
    let improved = found.into_iter().map(|start| improve(space, &axes, model, start));
    let (mut point, _) = improved.max_by(|a, b| a.1.total_cmp(&b.1))?;
    space.settle(&mut point).ok()
}

/// Neither tried nor close to what is being tried: where the model is sure, even believing leaves a trial's
/// surroundings the best place to be.
fn is_new(model: &Model, point: &Point) -> bool {
    let differs =
        |(a, b): (&f64, &f64)| if a.is_nan() || b.is_nan() { a.is_nan() != b.is_nan() } else { (a - b).abs() > APART };
    let apart = |other: &Point| other.iter().zip(point).any(differs);
    model.pending.iter().all(apart) && !model.points.contains(point)
}

/// A point at about this distance; coordinates that are not active are drawn.
fn near(axes: &[&Axis], centre: &[f64], distance: f64, rng: &mut Rng) -> Point {
    let few = rng.unit() < 0.5;
    let moved = |(axis, at): (&&Axis, &f64)| {
        if at.is_nan() {
            return rng.unit();
        }
        // Half of the points differ in a few coordinates only.
        if few && rng.unit() > 2.0 / axes.len() as f64 {
            return *at;
        }
        match axis.count() {
            Some(_) if !axis.is_ordered() => {
                if rng.unit() < 0.3 {
                    rng.unit()
                } else {
                    *at
                }
            }
            Some(count) => (at + distance.max(0.7 / count as f64) * rng.normal()).clamp(0.0, 1.0),
            None => (at + distance * rng.normal()).clamp(0.0, 1.0),
        }
    };
    axes.iter().zip(centre).map(moved).collect()
}

fn gain(model: &Model, at: &[f64]) -> f64 {
    let (mean, variance) = model.guess(at);
    let deviation = variance.sqrt();
    log_improvement((model.best - mean) / deviation) + deviation.ln()
}

/// Climbs along the continuous axes, then tries other values on the countable ones.
fn improve(space: &Space, axes: &[&Axis], model: &Model, start: (Point, f64)) -> (Point, f64) {
    let (mut point, mut best) = start;
    for _ in 0..2 {
        let before = best;
        let climbed = climb(axes, model, &point);
        accept(space, model, climbed, &mut point, &mut best);
        for (index, axis) in axes.iter().enumerate().filter(|(_, axis)| axis.count().is_some()) {
            for value in neighbours(axis, point.get(index).copied().unwrap_or(f64::NAN)) {
                let mut other = point.clone();
                other.iter_mut().skip(index).take(1).for_each(|at| *at = value);
                accept(space, model, other, &mut point, &mut best);
            }
        }
        if best - before < 1e-3 {
            break;
        }
    }
    (point, best)
}

fn accept(space: &Space, model: &Model, mut other: Point, point: &mut Point, best: &mut f64) {
    if space.settle(&mut other).is_err() || !is_new(model, &other) {
        return;
    }
    let gain = gain(model, &other);
    if gain > *best {
        (*point, *best) = (other, gain);
    }
}

/// Coordinates of other values: all of a choice, those next to it on an ordered axis.
fn neighbours(axis: &Axis, at: f64) -> Vec<f64> {
    let Some((low, high)) = axis.cell(at).filter(|_| !at.is_nan()) else { return Vec::new() };
    let count = axis.count().unwrap_or(1);
    if axis.is_ordered() {
        let width = high - low;
        let beside = [low - 0.5 * width, low - 1.5 * width, high + 0.5 * width, high + 1.5 * width];
        return beside.into_iter().filter(|at| (0.0..=1.0).contains(at)).collect();
    }
    (0..count.min(32)).map(|index| (index as f64 + 0.5) / count as f64).filter(|other| *other != at).collect()
}

fn climb(axes: &[&Axis], model: &Model, start: &Point) -> Point {
    let free: Vec<bool> = axes.iter().zip(start).map(|(axis, at)| axis.count().is_none() && !at.is_nan()).collect();
    if !free.contains(&true) {
        return start.clone();
    }
    let place = |moved: &[f64]| -> Point {
        let mut moved = moved.iter();
        let choose = |(free, at): (&bool, &f64)| if *free { moved.next().copied().unwrap_or(*at) } else { *at };
        free.iter().zip(start).map(choose).collect()
    };
    let only_free = |all: &[f64]| -> Vec<f64> { all.iter().zip(&free).filter(|(_, f)| **f).map(|(x, _)| *x).collect() };
    let limits = Limits { low: 0.0, high: 1.0, rounds: 40 };
    let (moved, _) = minimize(only_free(start), limits, &mut |moved| {
        let belief = model.believe_at(&place(moved));
        let deviation = belief.variance.sqrt();
        let z = (model.best - belief.mean) / deviation;
        let slope = slope_of_log_improvement(z);
        let gradient: Vec<f64> = belief
            .mean_slope
            .iter()
            .zip(&belief.variance_slope)
            .map(|(mean, variance)| {
                let change = variance / (2.0 * belief.variance);
                -(slope * (-mean / deviation - z * change) + change)
            })
            .collect();
        (-(log_improvement(z) + deviation.ln()), only_free(&gradient))
    });
    place(&moved)
}

fn slope_of_log_improvement(z: f64) -> f64 {
    if z > -5.0 {
        return cdf(z) / (pdf(z) + z * cdf(z)).max(f64::MIN_POSITIVE);
    }
    let square = z * z;
    -z * (1.0 - 1.0 / square + 3.0 / (square * square)) / (1.0 - 3.0 / square + 15.0 / (square * square))
}
