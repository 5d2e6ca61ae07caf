//! CMA-ES: a normal distribution that moves and turns towards what was good.
//!
//! It remembers nothing: every suggestion replays the history, `population` results at a time in the order they
//! were asked for. A result that comes late takes its place in that order and changes what follows; a result that
//! came from another distribution (an older one, a point given by hand) counts, with its length limited.

mod evolution;

use crate::search::{History, Rng, Space};
use crate::value::Params;

use super::table::{Ended, Ranking, Table, rank};
use super::{Sampler, Tpe};
use evolution::{Evolution, Individual};

/// Numeric parameters that are always active evolve together; choices and conditional ones are left to [`Tpe`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Cmaes;

impl Sampler for Cmaes {
    fn ask(&self, space: &Space, history: &History<'_>, rng: &mut Rng) -> Params {
        let evolving: Vec<usize> = evolving(space).collect();
        if evolving.is_empty() {
            return Tpe::default().ask(space, history, rng);
        }
        let others = evolving.len() < space.axes().len();
        let base = if others { space.point(&Tpe::default().ask(space, history, rng)) } else { Vec::new() };
        let Replay { state, generation, asked } = replay(space, history, &evolving, rng);
        let directions = state.directions(&mut rng.shared(generation));
        let mut direction = directions.get(asked);
        let floors = floors(space, &evolving);
        let mut point = base;
        point.resize(space.axes().len(), 0.5);
        for _ in 0..Space::TRIES {
            let drawn = state.draw(direction.take(), &floors, rng);
            let mut candidate = point.clone();
            for (coordinate, at) in evolving.iter().zip(drawn) {
                if let Some(slot) = candidate.get_mut(*coordinate) {
                    *slot = at;
                }
            }
            if let Ok(params) = space.settle(&mut candidate) {
                return params;
            }
        }
        space.draw(rng)
    }
}

fn evolving(space: &Space) -> impl Iterator<Item = usize> {
    let numeric = space.axes().enumerate().filter(|(_, (_, axis))| axis.is_ordered() && axis.count() != Some(1));
    numeric.filter(|(coordinate, _)| !space.is_conditional_at(*coordinate)).map(|(coordinate, _)| coordinate)
}

/// The least deviation along each axis: less than that, and all draws fall on one value of a countable axis.
fn floors(space: &Space, evolving: &[usize]) -> Vec<f64> {
    let axes: Vec<_> = space.axes().map(|(_, axis)| axis).collect();
    let floor =
        |coordinate: &usize| axes.get(*coordinate).and_then(|axis| axis.count()).map_or(0.0, |n| 0.3 / n as f64);
    evolving.iter().map(floor).collect()
}

/// Where the evolution is.
struct Replay {
    state: Evolution,
    /// Counts through restarts.
    generation: u32,
    /// How many of this generation were asked for already.
    asked: usize,
}

/// Results the replay goes through at most. What came before has left no trace in a distribution by then.
const MOST: usize = 1_000;

fn replay(space: &Space, history: &History<'_>, evolving: &[usize], rng: &Rng) -> Replay {
    let Ranking { mut ended, pending } = rank(history);
    // In steps, so that generations are cut at the same places from ask to ask.
    let dropped = ended.len().saturating_sub(MOST).div_ceil(MOST / 2) * (MOST / 2);
    ended.drain(..dropped);
    let table = Table::of(space, history, ended.iter().map(|ended| ended.place));
    let individual = |(row, ended): (&[f64], &Ended)| {
        let at = evolving.iter().map(|coordinate| row.get(*coordinate).copied().unwrap_or(f64::NAN));
        Individual { at: at.collect(), ended: *ended }
    };
    // Only a trial of an earlier form of the space lacks a coordinate.
    let individuals = table.rows().zip(&ended).map(individual).filter(|it| it.at.iter().all(|at| !at.is_nan()));
    let mut individuals = individuals.peekable();
    let mut restarts = rng.sweep();
    let mut state = Evolution::new(vec![0.5; evolving.len()], 1.0 / 6.0, 1);
    if dropped > 0
        && let Some(first) = individuals.peek()
    {
        state = Evolution::new(first.at.clone(), 1.0 / 6.0, 1);
    }
    let (mut members, mut generation) = (Vec::new(), (dropped / state.population()) as u32);
    for individual in individuals {
        members.push(individual);
        if members.len() < state.population() {
            continue;
        }
        members.sort_by(|a, b| a.ended.better(&b.ended));
        state.learn(&members);
        members.clear();
        generation += 1;
        if state.is_spent() {
            let mean = evolving.iter().map(|_| restarts.unit()).collect();
            state = Evolution::new(mean, 0.25, state.scale * 2);
        }
    }
    Replay { state, generation, asked: members.len() + pending.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_objective_makes_it_start_again_with_more() {
        let mut state = Evolution::new(vec![0.5; 2], 1.0 / 6.0, 1);
        let mut rng = crate::search::rng(1, 0);
        let flat = |at: Vec<f64>| Individual { at, ended: Ended::with(0, 1.0) };
        for _ in 0..200 {
            let generation: Vec<_> =
                (0..state.population()).map(|_| flat(state.draw(None, &[0.0; 2], &mut rng))).collect();
            state.learn(&generation);
            if state.is_spent() {
                return;
            }
        }
        panic!("never spent");
    }
}
