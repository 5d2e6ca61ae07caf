//! Which trials go on. A scheduler is told what trials report at the steps it asked about, and answers.

mod asha;
mod hyperband;
mod median;
mod mutate;
mod none;
mod pbt;
mod table;

pub use asha::Asha;
pub use hyperband::Hyperband;
pub use median::Median;
pub use none::Never;
pub use pbt::Pbt;

use std::fmt::Debug;

use serde::{Deserialize, Serialize};

use crate::spec::{SchedulerKind, StopSpec};
use crate::value::Params;

use super::Space;

/// What is to become of a trial at a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Continue,
    /// It makes room here and goes on from its checkpoint once it is promoted.
    Pause,
    Stop,
    /// It goes on from the newest checkpoint of `leader`, which is another trial that has not ended, with these
    /// parameters: sampled values only, as in a trial.
    Replace {
        leader: u32,
        params: Params,
    },
}

/// Whether there is anything to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outlook {
    /// Trials are going on, or more will begin.
    More,
    /// None is going on and none will begin: somebody must be promoted, or nobody completes.
    Last,
}

/// Knows nothing but what it was told, in the order it was told: a scheduler that is told the same again is the same
/// again. That is how it survives a crash.
pub trait Scheduler: Debug + Send {
    /// A trial begins, for the first time.
    fn begin(&mut self, trial: u32, params: &Params);

    /// The step at which it is to be judged next; `None` leaves it alone.
    fn next_step(&self, trial: u32) -> Option<i64>;

    /// It has reached the step it was to be judged at, or a later one if it jumps, and this is its value there. Less is
    /// better, whatever the goal; what is not finite counts as the worst. Asked too early it answers `Continue`.
    fn judge(&mut self, trial: u32, step: i64, loss: f64) -> Verdict;

    /// It has ended by itself, well or badly, or was stopped from outside.
    fn end(&mut self, trial: u32);

    /// A paused trial that has earned to go on; it counts as going on from here.
    fn promote(&mut self, outlook: Outlook) -> Option<u32>;
}

/// The scheduler of a sweep over this space with this seed.
pub fn scheduler(spec: Option<&StopSpec>, space: &Space, seed: u64) -> Box<dyn Scheduler> {
    match spec {
        Some(spec) => match spec.scheduler {
            SchedulerKind::None => Box::new(Never),
            SchedulerKind::Median => Box::new(Median::new(spec)),
            SchedulerKind::Asha => Box::new(Asha::new(spec)),
            SchedulerKind::Hyperband => Box::new(Hyperband::new(spec)),
            SchedulerKind::Pbt => Box::new(Pbt::new(spec, space.clone(), seed)),
        },
        None => Box::new(Never),
    }
}
