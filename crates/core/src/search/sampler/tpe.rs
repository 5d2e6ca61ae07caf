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

/// The good ones: a tenth, 25 at most, as in Optuna.
const MOST_GOOD: usize = 25;
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
        let good = Mixture::new(space, Table::of(space, history, good.into_iter()));
        let others = Mixture::new(space, Table::of(space, history, others.into_iter()));
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

/// Places of the good trials and of the others, each in the order they were asked for. Pending ones count as
/// others, so that the next suggestion keeps away from them; failed ones are never good.
fn split(ranking: &mut Ranking, results: usize) -> (Vec<u32>, Vec<u32>) {
    let ended = ranking.ended.len();
    let count = ended.div_ceil(10).min(MOST_GOOD).min(results);
    if let Some(last) = count.checked_sub(1)
        && count < ended
    {
        let _ = ranking.ended.select_nth_unstable_by(last, Ended::better);
    }
    let places = |ended: &[Ended]| ended.iter().map(|ended| ended.place).collect::<Vec<u32>>();
    let (good, rest) = ranking.ended.split_at(count.min(ended));
    let (mut good, mut others) = (places(good), places(rest));
    others.extend(&ranking.pending);
    good.sort_unstable();
    others.sort_unstable();
    (good, thin(others))
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

/// Weights by age as in Optuna: the latest 25 count in full, before that the less the older.
fn weights(count: usize) -> Vec<f64> {
    let ramp = count.saturating_sub(MOST_GOOD);
    let weight = |index: usize| match index.cmp(&ramp) {
        Ordering::Less if ramp > 1 => {
            let floor = 1.0 / count as f64;
            floor + (1.0 - floor) * index as f64 / (ramp - 1) as f64
        }
        _ => 1.0,
    };
    (0..count).map(weight).collect()
}

#[cfg(test)]
mod tests;
