//! JobSpec and facts → what is sent: pure text and values.

pub mod arguments;
pub mod container;
pub mod expand;
pub mod hydra;
pub mod ray;
pub mod slots;
pub mod slurm;
