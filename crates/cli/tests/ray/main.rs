//! Laptop → Ray clusters, all of them real, with nodes that share no disk.
#![expect(clippy::unwrap_used, reason = "tests")]

mod clusters;
mod conformance;
mod detached;
mod faults;
mod gate;
mod groups;
mod journey;
mod seeds;
mod sweep;
