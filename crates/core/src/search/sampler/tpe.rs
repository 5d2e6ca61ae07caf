//! Tree-structured Parzen estimator: one density over the good trials, one over the rest, and the candidate
//! drawn from the first where their ratio is largest.
//!
//! Both densities are joint over all parameters. In a conditional space a first draw says which parameters are active,
//! and the densities over the trials with the same ones say the rest: a branch that is behind still learns.

mod kernel;
mod mixture;

use std::cmp::Ordering;

use crate::search::space::Point;
use crate::search::{History, Rng, Space};
use crate::value::Params;

use super::table::{Ended, Table, ended};
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
const GOOD_WIDTH: f64 = 0.6;
/// The weight of the prior among the good ones, where the best trial counts 1.
const GOOD_PRIOR: f64 = 2.0;
/// Kernels for the rest: enough for the shape of the density, and the cost stays flat.
const MOST_OTHERS: usize = 200;
const MOST_RECENT: usize = 64;

impl Sampler for Tpe {
    fn ask(&self, space: &Space, history: &History<'_>, rng: &mut Rng) -> Params {
        let split = split(history, 0..history.trials.len() as u32);
        if split.good.is_empty() || split.ended < self.startup || space.axes().len() == 0 {
            return Sobol.ask(space, history, rng);
        }
        // Densities over different parameters cannot be compared: the branch is drawn, what is in it is chosen.
        let first = if space.is_conditional() { Self { candidates: 1, ..*self } } else { *self };
        let found = first.best(space, history, split, None, rng).unwrap_or_else(|| Random.ask(space, history, rng));
        if space.is_conditional() { self.within(space, history, found, rng) } else { found }
    }
}

impl Tpe {
    /// What is best among the configurations with the same parameters as `found`, by the trials that have them.
    fn within(&self, space: &Space, history: &History<'_>, found: Params, rng: &mut Rng) -> Params {
        let places = (0u32..).zip(history.trials);
        let alike = places.filter(|(_, trial)| trial.params.keys().eq(found.keys())).map(|(place, _)| place);
        let alike: Vec<u32> = alike.collect();
        let split = split(history, alike.iter().copied());
        if split.good.is_empty() || split.ended < self.startup / 2 {
            return found;
        }
        self.best(space, history, split, Some(&found), rng).unwrap_or(found)
    }

    /// The most promising of the candidates; only those with the same parameters as `like` count.
    fn best(
        &self,
        space: &Space,
        history: &History<'_>,
        split: Split,
        like: Option<&Params>,
        rng: &mut Rng,
    ) -> Option<Params> {
        let weights = (rank_weights(split.good.len()), recency_weights(split.others.len()));
        let table = |places: Vec<u32>| Table::of(space, history, places.into_iter());
        let good = Mixture::new(space, table(split.good), weights.0, GOOD_WIDTH);
        let others = Mixture::new(space, table(split.others), weights.1, 1.0);
        let mut candidates: Vec<Point> = Vec::with_capacity(self.candidates);
        for _ in 0..self.candidates.max(Space::TRIES) {
            let mut point = good.draw(rng);
            if space.is_plain() {
                good.snap(&mut point);
            } else {
                let Ok(params) = space.settle(&mut point) else { continue };
                if like.is_some_and(|like| !like.keys().eq(params.keys())) {
                    continue;
                }
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

/// The trials by their place in the history, as the two densities want them.
struct Split {
    /// Best first. Failed ones are never good.
    good: Vec<u32>,
    /// In the order they were asked for. Pending ones are among them, so that the next suggestion keeps away.
    others: Vec<u32>,
    ended: usize,
}

/// The trials at these places. One pass that keeps nothing of a trial but its place: what follows costs the same
/// for a thousand trials and for a hundred thousand.
fn split(history: &History<'_>, places: impl ExactSizeIterator<Item = u32> + Clone) -> Split {
    let mut best: Vec<Ended> = Vec::with_capacity(MOST_GOOD + 1);
    let mut pending = Vec::new();
    let (mut count, mut results) = (0, 0);
    let mut hopeless = f64::INFINITY;
    for place in places.clone() {
        // Nearly all trials of a long history; to look at each would take longer than all the rest.
        if history.is_no_better(place, hopeless) {
            (count, results) = (count + 1, results + 1);
            continue;
        }
        let Some(trial) = history.trials.get(place as usize) else { continue };
        let Some(ended) = ended(history, place, trial) else {
            pending.push(place);
            continue;
        };
        count += 1;
        results += usize::from(!ended.failed());
        if best.len() < MOST_GOOD || best.last().is_some_and(|last| ended.better(last) == Ordering::Less) {
            let at = best.partition_point(|known| known.better(&ended) == Ordering::Less);
            best.insert(at, ended);
            best.truncate(MOST_GOOD);
            // Of two equals the earlier is kept.
            hopeless = best.get(MOST_GOOD - 1).filter(|last| last.done()).map_or(f64::INFINITY, |last| last.loss);
        }
    }
    best.truncate(((GOOD_SHARE * count as f64).ceil() as usize).min(results));
    let good: Vec<u32> = best.iter().map(|ended| ended.place).collect();
    let others = others(places, &good, pending);
    Split { good, others, ended: count }
}

/// All that are not good, or of many the latest, the pending, and an even selection of the rest.
fn others(places: impl ExactSizeIterator<Item = u32> + Clone, good: &[u32], mut pending: Vec<u32>) -> Vec<u32> {
    let is_other = |place: &u32| !good.contains(place);
    if places.len() <= MOST_OTHERS + good.len() {
        return places.filter(is_other).collect();
    }
    let (old, kept) = (places.len() - MOST_RECENT, MOST_OTHERS - MOST_RECENT);
    let even = (0..kept).filter_map(|index| places.clone().nth(index * old / kept));
    let mut others: Vec<u32> = even.chain(places.clone().skip(old)).filter(is_other).collect();
    pending.truncate(MOST_OTHERS);
    others.append(&mut pending);
    others.sort_unstable();
    others.dedup();
    others
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
