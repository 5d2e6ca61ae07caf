//! CMA-ES: a normal distribution that moves and turns towards what was good.
//!
//! It remembers nothing: every suggestion replays the history, `population` results at a time in the order they
//! were asked for. A result that comes late takes its place in that order and changes what follows; a result that
//! came from another distribution (an older one, a point given by hand) counts, with its length limited.

mod evolution;

use crate::search::{History, Rng, Space};
use crate::value::Params;

use super::table::{Table, rank};
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
        let state = replay(space, history, &evolving, rng);
        let floors = floors(space, &evolving);
        let mut point = base;
        point.resize(space.axes().len(), 0.5);
        for _ in 0..Space::TRIES {
            let drawn = state.draw(&floors, rng);
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

fn replay(space: &Space, history: &History<'_>, evolving: &[usize], rng: &Rng) -> Evolution {
    let ended = rank(history).ended;
    let table = Table::of(space, history, ended.iter().map(|ended| ended.place));
    let mut restarts = rng.sweep();
    let mut state = Evolution::new(vec![0.5; evolving.len()], 1.0 / 6.0, 1);
    let mut generation = Vec::new();
    for (row, ended) in table.rows().zip(&ended) {
        let at = evolving.iter().map(|coordinate| row.get(*coordinate).copied().unwrap_or(f64::NAN));
        let at: Vec<f64> = at.collect();
        // Only a trial of an earlier form of the space lacks a coordinate.
        if at.iter().any(|at| at.is_nan()) {
            continue;
        }
        generation.push(Individual { at, ended: *ended });
        if generation.len() < state.population() {
            continue;
        }
        generation.sort_by(|a, b| a.ended.better(&b.ended));
        state.learn(&generation);
        generation.clear();
        if state.is_spent() {
            let mean = evolving.iter().map(|_| restarts.unit()).collect();
            state = Evolution::new(mean, 0.25, state.scale * 2);
        }
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_objective_makes_it_start_again_with_more() {
        let mut state = Evolution::new(vec![0.5; 2], 1.0 / 6.0, 1);
        let mut rng = crate::search::rng(1, 0);
        let flat = |at: Vec<f64>| Individual { at, ended: super::super::table::Ended::done(0, 1.0) };
        for _ in 0..200 {
            let generation: Vec<_> = (0..state.population()).map(|_| flat(state.draw(&[0.0; 2], &mut rng))).collect();
            state.learn(&generation);
            if state.is_spent() {
                return;
            }
        }
        panic!("never spent");
    }
}
