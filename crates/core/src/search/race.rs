//! The last part of a sweep with adaptive repeats: a race among the best configurations, with seeds that the search
//! has not seen.
//!
//! The best of many noisy results is mostly the luckiest, so what the search saw of a configuration decides only
//! whether it takes part. In each round all that are left run with the same new seeds, and the better half of them by
//! the mean over all their new seeds stays (sequential halving: Karnin et al., 2013). The winner then runs with seeds
//! that had no part in its victory, and these alone say how good it is.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::spec::Goal;

use super::statistics::{interval, mean};

/// From this many runs on, some are kept for the winner alone.
const ENOUGH_FOR_EXAM: u32 = 6;
/// The part of the runs that is kept.
const EXAM: u32 = 4;
/// Runs per candidate, on average.
const RUNS_EACH: u32 = 3;

/// How many of a sweep's runs search, and how many race: about 70 and 30 of a hundred. Of few runs more race, so that
/// two configurations have two seeds each.
pub fn split(trials: u32) -> (u32, u32) {
    let race = match trials {
        0..=2 => 0,
        3 => 1,
        4..=5 => 2,
        _ => (trials.saturating_mul(3).saturating_add(5) / 10).max(4),
    };
    (trials - race, race)
}

/// Loss of each run of the race that has ended, by trial and repeat; what is not finite, or a run that failed, counts
/// as the worst that was seen.
pub type Results = BTreeMap<(u32, u32), f64>;

/// A race that is fixed by its candidates and its number of runs: told the same results it says the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Race {
    /// The best first.
    candidates: Vec<(u32, f64)>,
    rounds: Vec<Round>,
    /// Runs of the winner alone.
    exam: u32,
}

/// Each of the `size` that are left runs with `seeds` more seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Round {
    size: usize,
    seeds: u32,
}

/// What is known about a candidate from its new seeds. Less is better, as everywhere here; see [`Confirmed::by_goal`].
#[derive(Debug, Clone, PartialEq)]
pub struct Confirmed {
    pub trial: u32,
    pub mean: f64,
    /// In which the true mean lies in 95 of 100 cases; `None` of a single seed.
    pub interval: Option<(f64, f64)>,
    /// Seeds behind the mean: of the winner, those that had no part in its victory, once there are two.
    pub seeds: u32,
    /// The rounds it has gone through.
    pub rounds: u32,
}

impl Confirmed {
    /// In the metric's own direction.
    pub fn by_goal(self, goal: Goal) -> Self {
        match goal {
            Goal::Minimize => self,
            Goal::Maximize => {
                Self { mean: -self.mean, interval: self.interval.map(|(low, high)| (-high, -low)), ..self }
            }
        }
    }
}

impl Race {
    /// Of the trials that ended well and their losses, with at most `runs` runs.
    pub fn new(runs: u32, trials: &[(u32, f64)]) -> Self {
        let mut candidates: Vec<(u32, f64)> = trials.iter().copied().filter(|trial| trial.1.is_finite()).collect();
        candidates.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        let kept = if runs >= ENOUGH_FOR_EXAM { (runs / EXAM).max(2) } else { 0 };
        let wanted = match runs {
            0..=3 => 1,
            _ => (runs / RUNS_EACH).max(2) as usize,
        };
        candidates.truncate(wanted.min(runs as usize));
        let rounds = plan(candidates.len(), runs - kept);
        let spent: u32 = rounds.iter().map(|round| round.size as u32 * round.seeds).sum();
        let exam = if candidates.is_empty() { 0 } else { runs - spent };
        Self { candidates, rounds, exam }
    }

    /// The runs that are due, by trial and repeat: those that may go on at once and have no result. Empty when the race
    /// is over. Repeats count from 0, and the same repeat means the same seed.
    pub fn next(&self, results: &Results) -> Vec<(u32, u32)> {
        self.follow(results).due
    }

    /// Those that have a result, the best first: who came farther, then by the mean. Of a race that is over the first
    /// is the winner.
    pub fn standing(&self, results: &Results) -> Vec<Confirmed> {
        let state = self.follow(results);
        let winner = match state.left[..] {
            [winner] => Some(winner),
            _ => None,
        };
        let confirmed = |(trial, _): &(u32, f64)| {
            let is_winner = winner == Some(*trial);
            let all = self.losses(*trial, 0..u32::MAX, results);
            let exam = self.losses(*trial, self.raced()..u32::MAX, results);
            let losses = if is_winner && exam.len() > 1 { exam } else { all };
            let rounds = state.survived.get(trial).copied().unwrap_or(0);
            let seeds = losses.len() as u32;
            Some(Confirmed { trial: *trial, mean: mean(&losses)?, interval: interval(&losses), seeds, rounds })
        };
        let mut standing: Vec<Confirmed> = self.candidates.iter().filter_map(confirmed).collect();
        standing.sort_by(|a, b| {
            let first = |one: &Confirmed| (winner != Some(one.trial), std::cmp::Reverse(one.rounds));
            first(a).cmp(&first(b)).then(a.mean.total_cmp(&b.mean)).then(a.trial.cmp(&b.trial))
        });
        standing
    }

    /// The configuration the race has settled on, with or without its last runs.
    pub fn winner(&self, results: &Results) -> Option<u32> {
        match self.follow(results).left[..] {
            [winner] => Some(winner),
            _ => None,
        }
    }

    /// Runs of the whole race.
    pub fn runs(&self) -> u32 {
        self.rounds.iter().map(|round| round.size as u32 * round.seeds).sum::<u32>() + self.exam
    }

    /// Goes through the rounds as far as there are results.
    fn follow(&self, results: &Results) -> State {
        let mut left: Vec<u32> = self.candidates.iter().map(|(trial, _)| *trial).collect();
        let mut survived = BTreeMap::new();
        let mut begin = 0;
        for (number, round) in (1..).zip(&self.rounds) {
            let seeds = begin..begin + round.seeds;
            let due = missing(&left, seeds.clone(), results);
            if !due.is_empty() {
                return State { left, survived, due };
            }
            begin = seeds.end;
            let size = self.rounds.get(number as usize).map_or(1, |next| next.size);
            // Only of the rounds so far: what is known later must not change what was decided.
            let loss = |trial: &u32| mean(&self.losses(*trial, 0..begin, results)).unwrap_or(f64::INFINITY);
            let mut ranked: Vec<(f64, u32)> = left.iter().map(|trial| (loss(trial), *trial)).collect();
            // Equals stay in the order of the search.
            ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
            left = ranked.into_iter().take(size).map(|(_, trial)| trial).collect();
            survived.extend(left.iter().map(|trial| (*trial, number)));
        }
        let due = missing(&left, begin..begin + self.exam, results);
        State { left, survived, due }
    }

    /// Seeds of the rounds.
    fn raced(&self) -> u32 {
        self.rounds.iter().map(|round| round.seeds).sum()
    }

    /// Of these repeats; one that failed counts as the worst of all that ran with them or earlier.
    fn losses(&self, trial: u32, repeats: Range<u32>, results: &Results) -> Vec<f64> {
        let own = results.range((trial, repeats.start)..(trial, repeats.end)).map(|(_, loss)| *loss);
        let own: Vec<f64> = own.collect();
        if own.iter().all(|loss| loss.is_finite()) {
            return own;
        }
        let earlier = results.iter().filter(|((_, repeat), _)| *repeat < repeats.end).map(|(_, loss)| *loss);
        let known = earlier.chain(self.candidates.iter().map(|(_, loss)| *loss));
        let worst = known.filter(|loss| loss.is_finite()).fold(f64::NEG_INFINITY, f64::max);
        own.into_iter().map(|loss| if loss.is_finite() { loss } else { worst }).collect()
    }
}

struct State {
    left: Vec<u32>,
    survived: BTreeMap<u32, u32>,
    due: Vec<(u32, u32)>,
}

fn missing(left: &[u32], seeds: Range<u32>, results: &Results) -> Vec<(u32, u32)> {
    let runs = seeds.flat_map(|seed| left.iter().map(move |trial| (*trial, seed)));
    runs.filter(|run| !results.contains_key(run)).collect()
}

/// Rounds of half the size each, that cost about the same each; fewer candidates if the runs do not suffice.
fn plan(candidates: usize, runs: u32) -> Vec<Round> {
    for most in (2..=candidates).rev() {
        let sizes: Vec<usize> =
            std::iter::successors(Some(most), |size| (*size > 2).then(|| size.div_ceil(2))).collect();
        if sizes.iter().sum::<usize>() > runs as usize {
            continue;
        }
        let mut left = runs as usize;
        let mut rounds = Vec::new();
        for (place, size) in sizes.iter().enumerate() {
            let after: usize = sizes.iter().skip(place + 1).sum();
            let fair = left / ((sizes.len() - place) * size);
            let seeds = fair.clamp(1, ((left - after) / size).max(1));
            left -= seeds * size;
            rounds.push(Round { size: *size, seeds: seeds as u32 });
        }
        return rounds;
    }
    Vec::new()
}

#[cfg(test)]
mod tests;
