//! Which parameters to try next, and which trials to go on with: pure functions of space, history and a seeded
//! generator. Nothing here remembers anything or knows where a trial runs.

mod axis;
mod descent;
mod expression;
mod history;
mod linear;
mod normal;
mod rng;
mod sampler;
mod space;

pub use axis::Axis;
pub use expression::{Expression, ExpressionError, Fault};
pub use history::{Fate, History, Report, Trial};
pub use rng::{Rng, rng};
pub use sampler::{Auto, Cmaes, Gp, Grid, Random, Sampler, Sobol, Tpe, sampler};
pub use space::{Point, Space, SpaceError, Unfit};
