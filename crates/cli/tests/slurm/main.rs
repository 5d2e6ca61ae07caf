//! Laptop → jump host → login node → SLURM, all of them real, as an unprivileged user.
#![expect(clippy::unwrap_used, reason = "tests")]

mod containers;
mod journey;
mod scratch;
mod several;
mod site;
