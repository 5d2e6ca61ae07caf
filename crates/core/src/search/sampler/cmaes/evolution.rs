//! The distribution and how a generation changes it: Hansen, "The CMA Evolution Strategy: A Tutorial" (2016),
//! with negative weights. Indices in this file run over axes, and every vector and matrix has as many.

use crate::search::Rng;
use crate::search::linear::{dot, eigen, identity};
use crate::search::sampler::table::Ended;

pub(super) struct Individual {
    pub(super) at: Vec<f64>,
    pub(super) ended: Ended,
}

pub(super) struct Evolution {
    /// Population in units of the smallest.
    pub(super) scale: usize,
    rates: Rates,
    mean: Vec<f64>,
    step: f64,
    covariance: Vec<f64>,
    /// Square roots of the eigenvalues, and the eigenvectors as columns.
    lengths: Vec<f64>,
    directions: Vec<f64>,
    path: Vec<f64>,
    step_path: Vec<f64>,
    generation: i32,
    bests: Vec<f64>,
}

/// Learning rates of a population, by the tutorial's names.
struct Rates {
    weights: Vec<f64>,
    parents: usize,
    mu_eff: f64,
    c_sigma: f64,
    d_sigma: f64,
    c_c: f64,
    c_1: f64,
    c_mu: f64,
    chi: f64,
}

impl Rates {
    fn new(n: f64, population: usize) -> Self {
        let raw: Vec<f64> =
            (1..=population).map(|i| ((population as f64 + 1.0) / 2.0).ln() - (i as f64).ln()).collect();
        let parents = population / 2;
        let (positive, negative) = raw.split_at(parents);
        let effective = |weights: &[f64]| {
            let sum: f64 = weights.iter().sum();
            sum * sum / weights.iter().map(|w| w * w).sum::<f64>().max(1e-12)
        };
        let (mu_eff, mu_eff_minus) = (effective(positive), effective(negative));
        let c_1 = 2.0 / ((n + 1.3).powi(2) + mu_eff);
        let c_mu = (2.0 * (mu_eff - 2.0 + 1.0 / mu_eff) / ((n + 2.0).powi(2) + mu_eff)).min(1.0 - c_1 - 1e-8);
        let limit =
            (1.0 + c_1 / c_mu).min(1.0 + 2.0 * mu_eff_minus / (mu_eff + 2.0)).min((1.0 - c_1 - c_mu) / (n * c_mu));
        let gains: f64 = positive.iter().sum();
        let losses: f64 = negative.iter().filter(|w| **w < 0.0).map(|w| -w).sum::<f64>().max(1e-12);
        let weights = raw.iter().map(|w| if *w >= 0.0 { w / gains } else { w * limit / losses }).collect();
        let c_sigma = (mu_eff + 2.0) / (n + mu_eff + 5.0);
        Self {
            weights,
            parents,
            mu_eff,
            c_sigma,
            d_sigma: 1.0 + 2.0 * (((mu_eff - 1.0) / (n + 1.0)).sqrt() - 1.0).max(0.0) + c_sigma,
            c_c: (4.0 + mu_eff / n) / (n + 4.0 + 2.0 * mu_eff / n),
            c_1,
            c_mu,
            chi: n.sqrt() * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n)),
        }
    }
}

impl Evolution {
    pub(super) fn new(mean: Vec<f64>, step: f64, scale: usize) -> Self {
        let n = mean.len();
        let population = scale * (4 + (3.0 * (n as f64).ln()).floor() as usize);
        let identity = identity(n);
        Self {
            scale,
            rates: Rates::new(n as f64, population),
            mean,
            step,
            covariance: identity.clone(),
            lengths: vec![1.0; n],
            directions: identity,
            path: vec![0.0; n],
            step_path: vec![0.0; n],
            generation: 0,
            bests: Vec::new(),
        }
    }

    pub(super) fn population(&self) -> usize {
        self.rates.weights.len()
    }

    /// The directions a generation goes: normal in themselves, and orthogonal to each other as far as there is room,
    /// which keeps a small generation from going the same way twice (Wang, Emmerich and Bäck 2014).
    pub(super) fn directions(&self, rng: &mut Rng) -> Vec<Vec<f64>> {
        let n = self.mean.len();
        let mut drawn: Vec<Vec<f64>> = Vec::with_capacity(self.population());
        for index in 0..self.population() {
            let normal: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
            let length = dot(&normal, &normal).sqrt();
            let mut rest = normal.clone();
            for other in drawn.iter().skip(index / n * n) {
                let along = dot(&rest, other) / dot(other, other).max(1e-300);
                rest.iter_mut().zip(other).for_each(|(x, y)| *x -= along * y);
            }
            let left = dot(&rest, &rest).sqrt();
            rest.iter_mut().for_each(|x| *x *= length / left);
            drawn.push(if left > 1e-6 * length { rest } else { normal });
        }
        drawn
    }

    /// A point of the distribution inside the unit cube, in the direction given if that stays inside. `floors` is
    /// the least deviation along each axis.
    pub(super) fn draw(&self, direction: Option<&Vec<f64>>, floors: &[f64], rng: &mut Rng) -> Vec<f64> {
        let n = self.mean.len();
        let mut at = direction.map_or_else(Vec::new, |direction| self.place(direction, floors, rng));
        // Drawing again keeps the shape of the distribution at the walls; clamping is the last resort.
        for _ in 0..10 * n {
            if at.len() == n && at.iter().all(|at| (0.0..=1.0).contains(at)) {
                return at;
            }
            let normal: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
            at = self.place(&normal, floors, rng);
        }
        at.iter().map(|at| at.clamp(0.0, 1.0)).collect()
    }

    fn place(&self, normal: &[f64], floors: &[f64], rng: &mut Rng) -> Vec<f64> {
        let n = self.mean.len();
        let z: Vec<f64> = self.lengths.iter().zip(normal).map(|(length, x)| length * x).collect();
        let along = |axis: usize| {
            let variance = self.step * self.step * self.covariance[axis * n + axis];
            let missing = (floors.get(axis).map_or(0.0, |floor| floor * floor) - variance).max(0.0);
            let extra = if missing > 0.0 { missing.sqrt() * rng.normal() } else { 0.0 };
            self.mean[axis] + self.step * dot(&self.directions[axis * n..axis * n + n], &z) + extra
        };
        (0..n).map(along).collect()
    }

    /// Takes in a generation, best first.
    pub(super) fn learn(&mut self, generation: &[Individual]) {
        let n = self.mean.len();
        self.generation += 1;
        let best = generation.first().map_or(f64::INFINITY, |individual| individual.ended.loss);
        self.bests.push(best);
        let steps: Vec<(Vec<f64>, f64)> = generation.iter().map(|individual| self.step_to(&individual.at)).collect();
        let Rates { mu_eff, c_sigma, d_sigma, c_c, c_1, c_mu, chi, .. } = self.rates;
        let mut shift = vec![0.0; n];
        for ((step, _), weight) in steps.iter().zip(&self.rates.weights).take(self.rates.parents) {
            shift.iter_mut().zip(step).for_each(|(sum, x)| *sum += weight * x);
        }
        self.mean.iter_mut().zip(&shift).for_each(|(mean, x)| *mean = (*mean + self.step * x).clamp(0.0, 1.0));

        let whitened = self.whiten(&shift);
        let gain = (c_sigma * (2.0 - c_sigma) * mu_eff).sqrt();
        self.step_path.iter_mut().zip(&whitened).for_each(|(p, x)| *p = (1.0 - c_sigma) * *p + gain * x);
        let length = dot(&self.step_path, &self.step_path).sqrt();
        self.step = (self.step * ((c_sigma / d_sigma) * (length / chi - 1.0)).min(1.0).exp()).min(1.0);

        let settled = length / (1.0 - (1.0 - c_sigma).powi(2 * self.generation)).sqrt();
        let steady = if settled < (1.4 + 2.0 / (n as f64 + 1.0)) * chi { 1.0 } else { 0.0 };
        let gain = steady * (c_c * (2.0 - c_c) * mu_eff).sqrt();
        self.path.iter_mut().zip(&shift).for_each(|(p, x)| *p = (1.0 - c_c) * *p + gain * x);

        let active = |(weight, (_, length)): (&f64, &(Vec<f64>, f64))| {
            if *weight < 0.0 { weight * n as f64 / (length * length + 1e-8) } else { *weight }
        };
        let weights: Vec<f64> = self.rates.weights.iter().zip(&steps).map(active).collect();
        let total: f64 = self.rates.weights.iter().sum();
        let keep = 1.0 + c_1 * (1.0 - steady) * c_c * (2.0 - c_c) - c_1 - c_mu * total;
        for row in 0..n {
            for column in 0..=row {
                let ranks: f64 =
                    steps.iter().zip(&weights).map(|((step, _), weight)| weight * step[row] * step[column]).sum();
                let value =
                    keep * self.covariance[row * n + column] + c_1 * self.path[row] * self.path[column] + c_mu * ranks;
                self.covariance[row * n + column] = value;
                self.covariance[column * n + row] = value;
            }
        }
        self.decompose();
    }

    /// Whether it has stopped finding anything: too small, too thin, or the same result over and over.
    pub(super) fn is_spent(&self) -> bool {
        let longest = self.lengths.iter().copied().fold(0.0, f64::max);
        let shortest = self.lengths.iter().copied().fold(f64::INFINITY, f64::min);
        let window = 10 + 30 * self.mean.len() / self.population();
        let recent = self.bests.get(self.bests.len().saturating_sub(window)..).unwrap_or_default();
        let (low, high) = recent.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(*x), h.max(*x)));
        let flat = recent.len() >= window && (high <= low || high - low < 1e-12);
        self.step * longest < 1e-8 || longest > 1e7 * shortest || flat
    }

    /// From the mean to a point in units of the step, and its whitened length. What this distribution would
    /// hardly have drawn is shortened (Hansen 2011, "Injecting external solutions").
    fn step_to(&self, at: &[f64]) -> (Vec<f64>, f64) {
        let n = self.mean.len() as f64;
        let mut step: Vec<f64> = at.iter().zip(&self.mean).map(|(at, mean)| (at - mean) / self.step).collect();
        let whitened = self.whiten(&step);
        let length = dot(&whitened, &whitened).sqrt();
        let limit = n.sqrt() + 2.0 * n / (n + 2.0) + 1.0;
        let factor = if length > limit { limit / length } else { 1.0 };
        step.iter_mut().for_each(|x| *x *= factor);
        (step, length * factor)
    }

    fn whiten(&self, x: &[f64]) -> Vec<f64> {
        let n = self.mean.len();
        let column = |k: usize| (0..n).map(|row| self.directions[row * n + k] * x[row]).sum::<f64>();
        let turned: Vec<f64> = (0..n).map(|k| column(k) / self.lengths[k]).collect();
        (0..n).map(|row| dot(&self.directions[row * n..row * n + n], &turned)).collect()
    }

    fn decompose(&mut self) {
        let (values, directions) = eigen(&self.covariance, &self.directions, self.mean.len());
        self.lengths = values.iter().map(|value| value.max(1e-20).sqrt()).collect();
        self.directions = directions;
    }
}
