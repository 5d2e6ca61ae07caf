//! Chooses a sampler by the space, the budget and what the results look like.

use crate::search::{History, Rng, Space};
use crate::value::Params;

use super::{Cmaes, Gp, Random, Sampler, Tpe};

/// A Gaussian process while it is affordable and the parameters are few, then CMA-ES where nearly everything is
/// numeric, and TPE for the rest.
#[derive(Debug, Clone, Copy)]
pub struct Auto {
    /// How many trials there will be; `None` if that is open.
    pub trials: Option<u32>,
}

/// The measurements behind these are in `bench/samplers`: beyond them the process is slow, and its lead is gone.
const MOST_FOR_GP: usize = 200;
const WIDEST_FOR_GP: usize = 20;

impl Auto {
    fn choose(&self, space: &Space, history: &History<'_>) -> &'static dyn Sampler {
        let axes = space.axes().len();
        let numeric = space.axes().filter(|(_, axis)| axis.is_ordered()).count();
        if axes == 0 {
            &Random
        } else if history.trials.len() < MOST_FOR_GP && axes <= WIDEST_FOR_GP && !space.is_conditional() {
            &Gp { startup: 8, most: MOST_FOR_GP }
        } else if numeric == axes && !space.is_conditional() {
            &Cmaes
        } else {
            &Tpe { startup: 10, candidates: 24 }
        }
    }
}

impl Sampler for Auto {
    fn ask(&self, space: &Space, history: &History<'_>, rng: &mut Rng) -> Params {
        self.choose(space, history).ask(space, history, rng)
    }
}
