//! Laptop → jump host → login node → SLURM, all of them real, as an unprivileged user.
#![expect(clippy::unwrap_used, reason = "tests")]

mod bringing;
mod faults;
mod journey;
mod machine;
mod resume;
mod site;
mod taken;
mod target;
