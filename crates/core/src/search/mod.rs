//! Which parameters to try next, and which trials to go on with: pure functions of space, history and a seeded
//! generator. Nothing here remembers anything or knows where a trial runs.

mod curve;
mod descent;
mod draw;
mod history;
mod importance;
mod linear;
mod normal;
mod parallel;
mod race;
mod rng;
mod sampler;
mod scheduler;
mod statistics;
mod sweep;

use crate::space::{self, axis};
pub use crate::space::{Axis, Expression, ExpressionError, Fault, Point, Space, SpaceError, Unfit};
pub use curve::{value_at, value_of};
pub use history::{Fate, History, Report, Trial};
pub use importance::{Importance, importance};
pub use parallel::{Line, Parallel, ParallelAxis, parallel};
pub use race::{Confirmed, Race, Results, split};
pub use rng::{Rng, rng};
pub use sampler::{Auto, Cmaes, Gp, Grid, Random, Sampler, Sobol, Tpe, sampler};
pub use scheduler::{Asha, Hyperband, Median, Never, Outlook, Pbt, Scheduler, Verdict, scheduler};
pub use statistics::{aggregate, interval, is_hopeless};
pub use sweep::{Deed, End, Leg, LegRecord, Outcome, Phase, Record, Role, Score, Scored, Spent, Sweep, Told};
