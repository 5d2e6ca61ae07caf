//! Works at the site: the depot's folders, and the supervision of one program at a time in its own session.
//!
//! Needs nothing on the machine: no network, no database, no Python. Start reading at [`supervise`]; [`lane`] is
//! how the yardmaster talks to it.

pub mod checkpoint;
pub mod claim;
pub mod crew;
pub mod depot;
pub mod disk;
pub mod lane;
mod launch;
pub mod log;
mod metrics;
pub mod order;
mod overseer;
pub mod process;
pub mod snapshot;
pub mod supervise;
mod sys;
mod tree;
pub mod view;
mod watch;
mod work;
