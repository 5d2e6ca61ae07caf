//! Laptop → jump host → login node → SLURM, all of them real, as an unprivileged user.

mod journey;
mod several;
mod site;
