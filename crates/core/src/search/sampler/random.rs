//! Uniform draws.

use crate::search::{History, Rng, Space};
use crate::value::Params;

use super::Sampler;

/// Draws without looking at the history.
#[derive(Debug, Clone, Copy, Default)]
pub struct Random;

impl Sampler for Random {
    fn ask(&self, space: &Space, _history: &History<'_>, rng: &mut Rng) -> Params {
        space.draw(rng)
    }
}
