//! For tests only: a yard of its own in a temporary home, real engines on loopback, waiting for conditions, and what is
//! left running.

pub mod apptainer;
pub mod census;
pub mod conformance;
pub mod container_engine;
pub mod docker;
mod forwarder;
pub mod login;
pub mod mlflow;
pub mod podman;
pub mod ports;
pub mod processes;
pub mod ray;
pub mod slurm;
pub mod small_disk;
pub mod sshd;
pub mod stage;
pub mod waiting;
pub mod yard;

pub use login::Login;
pub use slurm::Slurm;
pub use waiting::{eventually, within};
pub use yard::{Output, Yard};
