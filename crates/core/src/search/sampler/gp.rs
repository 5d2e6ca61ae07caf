//! A Gaussian process over the configurations tried, and the point where improvement is most to be expected.
//! Costs grow with the cube of the trials it looks at, so it looks at a few hundred at most.

mod model;
mod propose;

use crate::search::{History, Rng, Space};
use crate::value::Params;

use super::table::{Ended, Ranking, Table, rank};
use super::{Sampler, Sobol};
use model::Model;
use propose::propose;

#[derive(Debug, Clone, Copy)]
pub struct Gp {
    /// Results to wait for before the model is used.
    pub startup: usize,
    /// Half of them the best, half the latest.
    pub most: usize,
}

impl Default for Gp {
    fn default() -> Self {
        Self { startup: 8, most: 200 }
    }
}

impl Sampler for Gp {
    fn ask(&self, space: &Space, history: &History<'_>, rng: &mut Rng) -> Params {
        self.ask_unless(space, history, rng, f64::INFINITY).unwrap_or_else(|| space.draw(rng))
    }
}

impl Gp {
    /// `None` if more than `noise` of the results' variance looks like noise, or nothing could be proposed.
    pub(super) fn ask_unless(&self, space: &Space, history: &History<'_>, rng: &mut Rng, noise: f64) -> Option<Params> {
        let Ranking { ended, pending } = rank(history);
        let results = ended.iter().filter(|ended| !ended.failed()).count();
        if results < 2 || ended.len() < self.startup || space.axes().len() == 0 {
            return Some(Sobol.ask(space, history, rng));
        }
        let ended = self.select(ended);
        let table = Table::of(space, history, ended.iter().map(|ended| ended.place));
        let mut model = Model::fit(space, &table, &targets(&ended)).filter(|model| model.noise() <= noise)?;
        // Believing the model's own prediction where a trial is still running keeps the next one away from it.
        model.believe(&Table::of(space, history, pending.into_iter().take(self.most)));
        propose(space, &model, rng)
    }

    fn select(&self, mut ended: Vec<Ended>) -> Vec<Ended> {
        if ended.len() > self.most {
            let latest = ended.split_off(ended.len() - self.most / 2);
            ended.sort_by(Ended::better);
            ended.truncate(self.most - latest.len());
            ended.extend(latest);
        }
        ended
    }
}

/// Losses on a scale the model can work with: zero in the middle, the better half linear, the worse half
/// logarithmic, so that a few disasters do not flatten everything else. A failed trial counts as the worst.
fn targets(ended: &[Ended]) -> Vec<f64> {
    let mut losses: Vec<f64> = ended.iter().filter(|ended| !ended.failed()).map(|ended| ended.loss).collect();
    losses.sort_by(f64::total_cmp);
    let quantile = |share: f64| losses.get((share * losses.len() as f64) as usize).copied().unwrap_or(0.0);
    let (best, middle) = (quantile(0.0), quantile(0.5));
    let spread = [middle - quantile(0.1), middle - best, quantile(0.9) - middle];
    let unit = spread.into_iter().find(|spread| *spread > 0.0 && spread.is_finite()).unwrap_or(1.0);
    let worst = losses.last().copied().unwrap_or(0.0);
    let warped = ended.iter().map(|ended| {
        let z = (if ended.failed() { worst } else { ended.loss } - middle) / unit;
        if z > 0.0 { z.ln_1p() } else { z }
    });
    standardized(warped.collect())
}

fn standardized(values: Vec<f64>) -> Vec<f64> {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    let deviation = if variance > 0.0 { variance.sqrt() } else { 1.0 };
    values.into_iter().map(|value| (value - mean) / deviation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_keep_the_order_and_tame_disasters() {
        let losses = [3.0, 1.0, 2.0, 1e12, 4.0];
        let ended: Vec<Ended> = losses.iter().map(|loss| Ended::with(0, *loss)).collect();
        let targets = targets(&ended);
        let order = |values: &[f64]| {
            let mut order: Vec<usize> = (0..values.len()).collect();
            order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
            order
        };
        assert_eq!(order(&targets), order(&losses));
        assert!(targets.iter().all(|target| target.abs() < 3.0));
    }
}
