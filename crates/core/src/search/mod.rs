//! Which parameters to try next, and which trials to go on with: pure functions of space, history and a seeded
//! generator. Nothing here remembers anything or knows where a trial runs.

mod history;

pub use history::{Fate, History, Report, Trial};
