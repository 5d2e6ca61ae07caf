//! Laptop → jump host → login node → SLURM, all of them real, as an unprivileged user.
#![expect(clippy::unwrap_used, reason = "tests")]

mod bringing;
mod cleaning;
mod containers;
mod doubt;
mod faults;
mod journey;
mod machine;
mod resume;
mod scratch;
mod seeds;
mod several;
mod site;
mod taken;
