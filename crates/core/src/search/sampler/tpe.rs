//! Tree-structured Parzen estimator: one density over the good trials, one over the rest, and the candidate
//! drawn from the first where their ratio is largest.
//!
//! Both densities are joint over all parameters. A trial in which a parameter was not active says nothing about
//! it: its kernel is uniform there. So conditional branches are modelled jointly with the choice that opens them.

mod kernel;
mod mixture;

use std::cmp::Ordering;

use crate::search::space::Point;
use crate::search::{History, Rng, Space};
use crate::value::Params;

use super::table::{Ended, Ranking, Table, rank};
use super::{Random, Sampler, Sobol};
use mixture::Mixture;

#[derive(Debug, Clone, Copy)]
pub struct Tpe {
    /// Results to wait for before the model is used.
    pub startup: usize,
    /// Draws among which the best is taken.
    pub candidates: usize,
}

impl Default for Tpe {
    fn default() -> Self {
        Self { startup: 10, candidates: 24 }
    }
}

/// The good ones: 15 of 100, 25 at most. This and the two below were chosen with `bench/samplers`.
const GOOD_SHARE: f64 = 0.15;
const MOST_GOOD: usize = 25;
/// Good trials have narrower kernels than the others on continuous axes, by this factor.
const GOOD_WIDTH: f64 = 0.4;
/// The weight of the prior among the good ones, where the best trial counts 1.
const GOOD_PRIOR: f64 = 2.0;
/// Kernels for the rest: enough for the shape of the density, and the cost stays flat.
const MOST_OTHERS: usize = 400;
const MOST_RECENT: usize = 64;

impl Sampler for Tpe {
    fn ask(&self, space: &Space, history: &History<'_>, rng: &mut Rng) -> Params {
        let mut ranking = rank(history);
        let results = ranking.ended.iter().filter(|ended| !ended.failed()).count();
        if results == 0 || ranking.ended.len() < self.startup || space.axes().len() == 0 {
            return Sobol.ask(space, history, rng);
        }
        let (good, others) = split(&mut ranking, results);
        let good_weights = rank_weights(good.len());
        let good = Mixture::new(space, Table::of(space, history, good.into_iter()), good_weights, GOOD_WIDTH);
        let weights = recency_weights(others.len());
        let others = Mixture::new(space, Table::of(space, history, others.into_iter()), weights, 1.0);
        self.best(space, &good, &others, rng).unwrap_or_else(|| Random.ask(space, history, rng))
    }
}

impl Tpe {
    fn best(&self, space: &Space, good: &Mixture, others: &Mixture, rng: &mut Rng) -> Option<Params> {
        let mut candidates: Vec<Point> = Vec::with_capacity(self.candidates);
        for _ in 0..self.candidates.max(Space::TRIES) {
            let mut point = good.draw(rng);
            if space.is_plain() {
                good.snap(&mut point);
            } else if space.settle(&mut point).is_err() {
                continue;
            }
            candidates.push(point);
            if candidates.len() >= self.candidates {
                break;
            }
        }
        let (inside, outside) = (good.log_densities(&candidates), others.log_densities(&candidates));
        let gains = inside.iter().zip(&outside).map(|(inside, outside)| inside - outside);
        let fresh = |point: &Point| !good.holds(point) && !others.holds(point);
        let by_gain = |a: &(&mut Point, f64), b: &(&mut Point, f64)| a.1.total_cmp(&b.1);
        let scored = candidates.iter_mut().zip(gains);
        // Trying the same again teaches less than the next best that is new.
        let (new, old): (Vec<_>, Vec<_>) = scored.partition(|(point, _)| fresh(point));
        let best = new.into_iter().max_by(by_gain).or_else(|| old.into_iter().max_by(by_gain))?;
        space.settle(best.0).ok()
    }
}

/// Places of the good trials, best first, and of the others in the order they were asked for. Pending ones count as
/// others, so that the next suggestion keeps away from them; failed ones are never good.
fn split(ranking: &mut Ranking, results: usize) -> (Vec<u32>, Vec<u32>) {
    let ended = ranking.ended.len();
    let count = ((GOOD_SHARE * ended as f64).ceil() as usize).min(MOST_GOOD).min(results);
    if let Some(last) = count.checked_sub(1)
        && count < ended
    {
        let _ = ranking.ended.select_nth_unstable_by(last, Ended::better);
    }
    let places = |ended: &[Ended]| ended.iter().map(|ended| ended.place).collect::<Vec<u32>>();
    let (good, rest) = ranking.ended.split_at_mut(count.min(ended));
    good.sort_unstable_by(Ended::better);
    let mut others = places(rest);
    others.extend(&ranking.pending);
    others.sort_unstable();
    (places(good), thin(others))
}

/// At most `MOST_OTHERS`: the latest, and an even selection of what came before.
fn thin(places: Vec<u32>) -> Vec<u32> {
    let Some(older) = places.len().checked_sub(MOST_RECENT).filter(|_| places.len() > MOST_OTHERS) else {
        return places;
    };
    let kept = MOST_OTHERS - MOST_RECENT;
    let (old, recent) = places.split_at(older);
    let even = (0..kept).filter_map(|index| old.get(index * older / kept));
    even.chain(recent).copied().collect()
}

/// From 1 for the best down in equal steps, and the prior's at the end.
fn rank_weights(count: usize) -> Vec<f64> {
    let falling = (0..count).map(|rank| 1.0 - rank as f64 / count as f64);
    falling.chain([GOOD_PRIOR]).collect()
}

/// By age as in Optuna: the latest 25 count in full, before that the less the older; the prior's at the end.
fn recency_weights(count: usize) -> Vec<f64> {
    let ramp = count.saturating_sub(25);
    let weight = |index: usize| match index.cmp(&ramp) {
        Ordering::Less if ramp > 1 => {
            let floor = 1.0 / count as f64;
            floor + (1.0 - floor) * index as f64 / (ramp - 1) as f64
        }
        _ => 1.0,
    };
    (0..count).map(weight).chain([1.0]).collect()
}

#[cfg(test)]
mod tests;
