//! Works at the site: the depot's folders, and the supervision of one program at a time in its own session.
//!
//! Needs nothing on the machine: no network, no database, no Python. Start reading at [`supervise`]; [`lane`] is
//! how the yardmaster talks to it.

pub mod allocation;
pub mod beneath;
pub mod block;
pub mod checkpoint;
pub mod claim;
pub mod container;
pub mod crew;
pub mod depot;
pub mod disk;
mod engine;
mod heir;
pub mod inside;
pub mod inspect;
pub mod lane;
mod launch;
mod lay;
mod lessor;
pub mod log;
pub mod look;
mod metrics;
pub mod order;
mod overseer;
pub mod pack;
pub mod params_file;
pub mod parcel;
pub mod pipe;
pub mod post;
pub mod process;
pub mod program;
pub mod ray;
pub mod reclaim;
mod scratch;
pub mod site;
mod slurm;
pub mod snapshot;
mod step;
pub mod supervise;
mod sys;
pub mod tail;
pub mod task;
mod tree;
pub mod view;
mod watch;
mod work;
