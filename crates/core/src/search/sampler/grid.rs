//! One configuration after the other.

use std::collections::HashSet;

use crate::search::{History, Rng, Space};
use crate::value::Params;

use super::Sampler;

/// The first configuration of the grid that the history does not have. When all are through it begins again.
#[derive(Debug, Clone, Copy)]
pub struct Grid {
    /// Values of each parameter that cannot be counted.
    pub levels: u64,
}

impl Grid {
    /// As many levels as it takes to have at least `trials` configurations.
    pub fn for_trials(space: &Space, trials: u32) -> Self {
        let countable: f64 = space.axes().filter_map(|(_, axis)| axis.count()).map(|count| count as f64).product();
        let others = space.axes().filter(|(_, axis)| axis.count().is_none()).count().max(1);
        let needed = (f64::from(trials) / countable.max(1.0)).max(1.0);
        Self { levels: (needed.powf(1.0 / others as f64) - 1e-9).ceil().max(2.0) as u64 }
    }

    /// How many configurations there are; stops counting at `most`.
    pub fn size(&self, space: &Space, most: usize) -> usize {
        space.grid(self.levels).take(most).count()
    }
}

impl Sampler for Grid {
    fn ask(&self, space: &Space, history: &History<'_>, rng: &mut Rng) -> Params {
        let key = |params: &Params| -> Vec<u64> { space.point(params).iter().map(|at| at.to_bits()).collect() };
        let tried: HashSet<Vec<u64>> = history.trials.iter().map(|trial| key(&trial.params)).collect();
        if let Some(fresh) = space.grid(self.levels).find(|params| !tried.contains(&key(params))) {
            return fresh;
        }
        let size = self.size(space, history.trials.len() + 1).max(1);
        space.grid(self.levels).nth(history.trials.len() % size).unwrap_or_else(|| space.draw(rng))
    }
}
