//! Laptop → jump host → login node → SLURM, all of them real, as an unprivileged user.

mod bringing;
mod journey;
mod machine;
mod site;
