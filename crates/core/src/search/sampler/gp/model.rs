//! The process: Matérn 5/2 with a length for every axis, and noise, all fitted to the data.
//!
//! Priors on the parameters are those of Optuna's GP sampler, whose quality is the measure here. Indices below run
//! over trials (`n`) and axes (`width`); every vector and matrix is made with those sizes.

use crate::search::Space;
use crate::search::descent::{Limits, minimize};
use crate::search::linear::{backward, cholesky, dot, forward, inverse};
use crate::search::sampler::table::Table;

const SQRT_5: f64 = 2.236_067_977_499_79;
const LEAST_NOISE: f64 = 1e-9;
/// Trials for the first, long fit; the cost grows with their cube.
const PART: usize = 70;
const LAST_ROUNDS: usize = 8;

pub(super) struct Model {
    pub(super) points: Vec<Vec<f64>>,
    /// The latter part of `points`, whose values are not known.
    pub(super) pending: Vec<Vec<f64>>,
    targets: Vec<f64>,
    kernel: Kernel,
    /// The inverse of the covariance, and that times the targets.
    precision: Vec<f64>,
    pull: Vec<f64>,
    /// The least predicted loss among the trials.
    pub(super) best: f64,
}

#[derive(Debug, Clone)]
struct Kernel {
    /// Inverse squared lengths.
    rates: Vec<f64>,
    scale: f64,
    noise: f64,
    ordered: Vec<bool>,
}

/// Mean and variance at a point, with their gradients.
pub(super) struct Belief {
    pub(super) mean: f64,
    pub(super) variance: f64,
    pub(super) mean_slope: Vec<f64>,
    pub(super) variance_slope: Vec<f64>,
}

impl Kernel {
    /// Coordinates without an order, and those that are not active on one side, are either alike or not.
    fn difference(&self, axis: usize, a: f64, b: f64) -> f64 {
        if self.ordered[axis] && !a.is_nan() && !b.is_nan() {
            a - b
        } else if a == b || (a.is_nan() && b.is_nan()) {
            0.0
        } else {
            1.0
        }
    }

    fn distance(&self, a: &[f64], b: &[f64]) -> f64 {
        (0..a.len()).map(|axis| self.rates[axis] * self.difference(axis, a[axis], b[axis]).powi(2)).sum()
    }

    /// The covariance at a squared distance, and its derivative by that.
    fn covariance(&self, square: f64) -> (f64, f64) {
        let root = SQRT_5 * square.max(0.0).sqrt();
        let decay = self.scale * (-root).exp();
        (decay * (1.0 + root + root * root / 3.0), decay * (1.0 + root) * (-5.0 / 6.0))
    }
}

impl Model {
    /// `None` if the data defeat it numerically.
    pub(super) fn fit(space: &Space, table: &Table, targets: &[f64]) -> Option<Self> {
        let points: Vec<Vec<f64>> = table.rows().map(<[f64]>::to_vec).collect();
        let ordered: Vec<bool> = space.axes().map(|(_, axis)| axis.is_ordered()).collect();
        let width = ordered.len();
        let kernel = Kernel { rates: vec![1.0; width], scale: 1.0, noise: 1e-2, ordered };
        let fit = |start: Vec<f64>, stride: usize, rounds: usize| {
            let some: Vec<Vec<f64>> = points.iter().step_by(stride).cloned().collect();
            let targets: Vec<f64> = targets.iter().step_by(stride).copied().collect();
            let squares = squares(&kernel, &some);
            let limits = Limits { low: -18.0, high: 7.0, rounds };
            minimize(start, limits, &mut |logs| surprise(&kernel, logs, &squares, &targets))
        };
        // A part of the trials is enough to come near; all of them have the last word.
        let stride = points.len().div_ceil(PART);
        let starts = [(1.0f64, 1e-4f64), (10.0, 1e-2)].map(|(rate, noise)| {
            let mut start = vec![rate.ln(); width];
            start.extend([0.0, noise.ln()]);
            fit(start, stride, 40)
        });
        let (mut logs, _) = starts.into_iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        if stride > 1 {
            logs = fit(logs, 1, LAST_ROUNDS).0;
        }
        Self::with(kernel_at(&kernel, &logs), points, targets.to_vec())
    }

    fn with(kernel: Kernel, points: Vec<Vec<f64>>, targets: Vec<f64>) -> Option<Self> {
        let n = points.len();
        let mut matrix = vec![0.0; n * n];
        for a in 0..n {
            for b in 0..=a {
                let value = kernel.covariance(kernel.distance(&points[a], &points[b])).0;
                matrix[a * n + b] = value;
                matrix[b * n + a] = value;
            }
            matrix[a * n + a] += kernel.noise;
        }
        let lower = cholesky(&matrix, n)?;
        let precision = inverse(&lower, n);
        let pull: Vec<f64> = (0..n).map(|row| dot(&precision[row * n..row * n + n], &targets)).collect();
        let predicted = |row: usize| targets[row] - kernel.noise * pull[row];
        let best = (0..n).map(predicted).fold(f64::INFINITY, f64::min);
        Some(Self { points, pending: Vec::new(), targets, kernel, precision, pull, best })
    }

    /// The share of noise in the targets, whose variance is 1.
    pub(super) fn noise(&self) -> f64 {
        self.kernel.noise
    }

    /// Adds points with the predicted value as if it were known.
    pub(super) fn believe(&mut self, table: &Table) {
        if table.rows().len() == 0 {
            return;
        }
        let (mut points, mut targets) = (self.points.clone(), self.targets.clone());
        for row in table.rows() {
            targets.push(self.mean(row));
            points.push(row.to_vec());
        }
        let pending = table.rows().map(<[f64]>::to_vec).collect();
        if let Some(model) = Self::with(self.kernel.clone(), points, targets) {
            *self = Self { pending, ..model };
        }
    }

    fn mean(&self, at: &[f64]) -> f64 {
        let kernel = &self.kernel;
        let known = self.points.iter().map(|point| kernel.covariance(kernel.distance(at, point)).0);
        known.zip(&self.pull).map(|(k, pull)| k * pull).sum()
    }

    /// Mean and variance without gradients.
    pub(super) fn guess(&self, at: &[f64]) -> (f64, f64) {
        let (n, kernel) = (self.points.len(), &self.kernel);
        let k: Vec<f64> = self.points.iter().map(|point| kernel.covariance(kernel.distance(at, point)).0).collect();
        // The matrix is symmetric: the lower triangle counts twice, the diagonal once.
        let explained: f64 = (0..n)
            .map(|row| {
                let below = dot(&self.precision[row * n..row * n + row], &k[..row]);
                k[row] * (2.0 * below + self.precision[row * n + row] * k[row])
            })
            .sum();
        (dot(&k, &self.pull), (kernel.scale - explained).max(1e-14))
    }

    pub(super) fn believe_at(&self, at: &[f64]) -> Belief {
        let (n, kernel) = (self.points.len(), &self.kernel);
        let both: Vec<(f64, f64)> =
            self.points.iter().map(|point| kernel.covariance(kernel.distance(at, point))).collect();
        let k: Vec<f64> = both.iter().map(|(k, _)| *k).collect();
        let solved: Vec<f64> = (0..n).map(|row| dot(&self.precision[row * n..row * n + n], &k)).collect();
        let mut belief = Belief {
            mean: dot(&k, &self.pull),
            variance: (kernel.scale - dot(&k, &solved)).max(1e-14),
            mean_slope: vec![0.0; at.len()],
            variance_slope: vec![0.0; at.len()],
        };
        for axis in (0..at.len()).filter(|axis| kernel.ordered[*axis] && !at[*axis].is_nan()) {
            for ((point, (_, slope)), (pull, solved)) in
                self.points.iter().zip(&both).zip(self.pull.iter().zip(&solved))
            {
                if point[axis].is_nan() {
                    continue;
                }
                let change = slope * 2.0 * kernel.rates[axis] * (at[axis] - point[axis]);
                belief.mean_slope[axis] += pull * change;
                belief.variance_slope[axis] -= 2.0 * solved * change;
            }
        }
        belief
    }
}

/// Squared differences of all pairs (row above column), axis by axis.
fn squares(kernel: &Kernel, points: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let pairs = |axis: usize| {
        let mut all = Vec::with_capacity(points.len() * points.len() / 2);
        for (row, a) in points.iter().enumerate() {
            all.extend(points.iter().take(row).map(|b| kernel.difference(axis, a[axis], b[axis]).powi(2)));
        }
        all
    };
    (0..kernel.ordered.len()).map(pairs).collect()
}

fn kernel_at(kernel: &Kernel, logs: &[f64]) -> Kernel {
    let width = kernel.ordered.len();
    let rates = logs.iter().take(width).map(|log| log.exp()).collect();
    Kernel {
        rates,
        scale: logs[width].exp(),
        noise: logs[width + 1].exp() + LEAST_NOISE,
        ordered: kernel.ordered.clone(),
    }
}

/// Minus the logarithm of the posterior of the parameters, and its gradient by their logarithms.
fn surprise(kernel: &Kernel, logs: &[f64], squares: &[Vec<f64>], targets: &[f64]) -> (f64, Vec<f64>) {
    let (n, width) = (targets.len(), squares.len());
    let kernel = kernel_at(kernel, logs);
    let mut distances = vec![0.0; n * (n - 1) / 2];
    for (axis, rate) in squares.iter().zip(&kernel.rates) {
        distances.iter_mut().zip(axis).for_each(|(sum, square)| *sum += rate * square);
    }
    let both: Vec<(f64, f64)> = distances.iter().map(|square| kernel.covariance(*square)).collect();
    let mut matrix = vec![0.0; n * n];
    let mut pairs = both.iter();
    for row in 0..n {
        // The upper triangle is never read.
        matrix[row * n..row * n + row].iter_mut().zip(&mut pairs).for_each(|(cell, (k, _))| *cell = *k);
        matrix[row * n + row] = kernel.scale + kernel.noise;
    }
    let Some(lower) = cholesky(&matrix, n) else { return (f64::INFINITY, vec![0.0; width + 2]) };
    let mut pull = targets.to_vec();
    forward(&lower, n, &mut pull);
    backward(&lower, n, &mut pull);
    let log_determinant: f64 = (0..n).map(|row| lower[row * n + row].ln()).sum();
    let fit = 0.5 * dot(targets, &pull) + log_determinant;

    let precision = inverse(&lower, n);
    // Half the derivative of the fit by each covariance; off the diagonal each stands for two.
    let force = |row: usize, column: usize| precision[row * n + column] - pull[row] * pull[column];
    let mut forces = Vec::with_capacity(both.len());
    for row in 0..n {
        forces.extend((0..row).map(|column| force(row, column)));
    }
    let diagonal: f64 = 0.5 * (0..n).map(|row| force(row, row)).sum::<f64>();
    let by_square: Vec<f64> = forces.iter().zip(&both).map(|(force, (_, slope))| force * slope).collect();
    let mut gradient: Vec<f64> =
        squares.iter().zip(&kernel.rates).map(|(axis, rate)| rate * dot(&by_square, axis)).collect();
    let by_scale: f64 = forces.iter().zip(&both).map(|(force, (k, _))| force * k).sum();
    gradient.push(by_scale + diagonal * kernel.scale);
    gradient.push(diagonal * (kernel.noise - LEAST_NOISE));

    let mut prior = 0.0;
    for (rate, slope) in kernel.rates.iter().zip(&mut gradient) {
        prior += 0.1 / rate + 0.1 * rate;
        *slope += -0.1 / rate + 0.1 * rate;
    }
    prior += kernel.scale - kernel.scale.ln();
    gradient[width] += kernel.scale - 1.0;
    prior += 30.0 * kernel.noise - 0.1 * kernel.noise.ln();
    gradient[width + 1] += (30.0 - 0.1 / kernel.noise) * (kernel.noise - LEAST_NOISE);
    (fit + prior, gradient)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use crate::spec::{Dimension, Domain};

    fn space() -> Space {
        let axis = Dimension { domain: Domain::Uniform { low: 0.0, high: 1.0 }, when: None };
        Space::new(&BTreeMap::from([("a".to_owned(), axis.clone()), ("b".to_owned(), axis)]), &[]).expect("space")
    }

    fn data() -> (Table, Vec<f64>) {
        let mut rng = crate::search::rng(5, 0);
        let cells: Vec<f64> = (0..60).map(|_| rng.unit()).collect();
        let targets = cells.chunks(2).map(|x| (6.0 * x[0]).sin() + x[1] * x[1]).collect();
        (Table { width: 2, cells }, targets)
    }

    #[test]
    fn gradients_match_differences() {
        let (table, targets) = data();
        let points: Vec<Vec<f64>> = table.rows().map(<[f64]>::to_vec).collect();
        let kernel = Kernel { rates: vec![1.0; 2], scale: 1.0, noise: 0.01, ordered: vec![true; 2] };
        let squares = squares(&kernel, &points);
        let logs = [0.3, -0.5, 0.2, -3.0];
        let (_, gradient) = surprise(&kernel, &logs, &squares, &targets);
        for index in 0..4 {
            let mut moved = logs;
            moved[index] += 1e-5;
            let up = surprise(&kernel, &moved, &squares, &targets).0;
            moved[index] -= 2e-5;
            let down = surprise(&kernel, &moved, &squares, &targets).0;
            let difference = (up - down) / 2e-5;
            assert!((difference - gradient[index]).abs() < 1e-4 * difference.abs().max(1.0), "{index}");
        }
    }

    #[test]
    fn predicts_a_smooth_function_and_its_slope() {
        let (table, targets) = data();
        let model = Model::fit(&space(), &table, &targets).expect("model");
        let at = [0.4, 0.6];
        let belief = model.believe_at(&at);
        assert!((belief.mean - (2.4f64.sin() + 0.36)).abs() < 0.05, "{}", belief.mean);
        let (mean, variance) = model.guess(&at);
        assert!((mean - belief.mean).abs() < 1e-9 && (variance - belief.variance).abs() < 1e-8);
        let slope = (model.guess(&[0.40001, 0.6]).0 - model.guess(&[0.39999, 0.6]).0) / 2e-5;
        assert!((slope - belief.mean_slope[0]).abs() < 1e-3);
        let slope = (model.guess(&[0.4001, 0.6]).1 - model.guess(&[0.3999, 0.6]).1) / 2e-4;
        assert!((slope - belief.variance_slope[0]).abs() < 1e-4);
    }
}
