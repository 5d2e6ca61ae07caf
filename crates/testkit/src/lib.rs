//! For tests only: a yard of its own in a temporary home, waiting for conditions, and what is left running.

pub mod census;
pub mod conformance;
pub mod processes;
pub mod small_disk;
pub mod waiting;
pub mod yard;

pub use waiting::{eventually, within};
pub use yard::{Output, Yard};
