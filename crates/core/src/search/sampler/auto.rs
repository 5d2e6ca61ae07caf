//! Chooses a sampler by the space and by what the results look like.

use crate::search::{History, Rng, Space};
use crate::value::Params;

use super::{Cmaes, Gp, Sampler, Tpe};

/// A Gaussian process while the trials are few and their results follow the parameters; then, or when they do
/// not, CMA-ES where most parameters are numeric, and TPE for the rest.
#[derive(Debug, Clone, Copy, Default)]
pub struct Auto;

/// Beyond these the process is slow, and its lead is gone.
const MOST_FOR_GP: usize = 200;
const WIDEST_FOR_GP: usize = 20;
/// Measured with `bench/samplers`: below 0.01 on functions and tables, 0.17 to 0.6 on results like those of RL.
const NOISY: f64 = 0.15;

impl Sampler for Auto {
    fn ask(&self, space: &Space, history: &History<'_>, rng: &mut Rng) -> Params {
        let (axes, numeric) = (space.axes().len(), space.axes().filter(|(_, axis)| axis.is_ordered()).count());
        if history.trials.len() < MOST_FOR_GP
            && axes <= WIDEST_FOR_GP
            && !space.is_conditional()
            && let Some(params) = Gp::default().ask_unless(space, history, &mut rng.clone(), NOISY)
        {
            return params;
        }
        // Three of four: the choices among them are left to TPE by CMA-ES itself.
        if 4 * numeric >= 3 * axes && !space.is_conditional() {
            Cmaes.ask(space, history, rng)
        } else {
            Tpe::default().ask(space, history, rng)
        }
    }
}
