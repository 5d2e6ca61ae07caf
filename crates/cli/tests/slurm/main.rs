//! Laptop → jump host → login node → SLURM, all of them real, as an unprivileged user.
#![expect(clippy::unwrap_used, reason = "tests")]

mod books;
mod bringing;
mod cleaning;
mod containers;
mod doubt;
mod conformance;
mod faults;
mod journey;
mod machine;
mod quoting;
mod resume;
mod scratch;
mod seeds;
mod several;
mod secrets;
mod site;
mod taken;
mod versions;
