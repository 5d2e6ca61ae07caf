//! Which configuration to try next. A sampler is a pure function: what it knows is in the history it is given,
//! what it draws comes from the generator it is given.

mod auto;
mod cmaes;
mod gp;
mod grid;
mod random;
mod sobol;
mod table;
mod tpe;

pub use auto::Auto;
pub use cmaes::Cmaes;
pub use gp::Gp;
pub use grid::Grid;
pub use random::Random;
pub use sobol::Sobol;
pub use tpe::Tpe;

use crate::spec::SamplerKind;
use crate::value::Params;

use super::history::History;
use super::rng::Rng;
use super::space::Space;

/// Suggests configurations.
pub trait Sampler {
    /// The sampled values of the next trial: they lie in the space, unless its constraints leave next to nothing.
    /// Pending trials of the history are taken into account, so that asking in batches spreads out.
    fn ask(&self, space: &Space, history: &History<'_>, rng: &mut Rng) -> Params;
}

/// The sampler of this kind for a sweep of so many trials; `None` if the space is to be gone through.
pub fn sampler(kind: SamplerKind, space: &Space, trials: Option<u32>) -> Box<dyn Sampler + Send + Sync> {
    match kind {
        SamplerKind::Grid => Box::new(Grid::for_trials(space, trials.unwrap_or(1))),
        SamplerKind::Random => Box::new(Random),
        SamplerKind::Sobol => Box::new(Sobol),
        SamplerKind::Cmaes => Box::new(Cmaes),
        SamplerKind::Gp => Box::new(Gp::default()),
        SamplerKind::Tpe => Box::new(Tpe::default()),
        SamplerKind::Auto => Box::new(Auto),
    }
}
