//! Laptop → jump host → login node → SLURM, all of them real, as an unprivileged user.

mod faults;
mod journey;
mod machine;
mod resume;
mod site;
mod taken;
