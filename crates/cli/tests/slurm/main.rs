//! Laptop → jump host → login node → SLURM, all of them real, as an unprivileged user.
#![expect(clippy::unwrap_used, reason = "tests")]

mod across;
mod books;
mod bringing;
mod cleaning;
mod conformance;
mod containers;
mod doubt;
mod faults;
mod groups;
mod images;
mod journey;
mod machine;
mod quoting;
mod scratch;
mod secrets;
mod seeds;
mod several;
mod site;
mod sweeps;
mod taken;
mod target;
mod versions;
