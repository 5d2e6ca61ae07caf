//! What a run is, what can happen to it, and what follows. Start with [`decide`].

mod decide;
mod ending;
mod policy;
mod state;
mod tie;

pub use decide::{Decision, Effect, Event, decide};
pub use ending::{Ending, Outcome, Reason, signal_name};
pub use policy::{Policy, Verdict};
pub use state::{Run, State};
pub use tie::{Peer, Tie, Turn};
