//! `yard agent serve`: one request after another on standard input, answers on standard output. The same over ssh,
//! over a Kubernetes exec and for a child on this machine.
//!
//! [`frame`] bounds what a peer can make us hold, [`message`] is what is said, [`serve`] is the agent's side.

mod blobs;
pub mod edit;
pub mod fetch;
mod files;
pub mod frame;
pub mod image;
pub mod message;
mod outputs;
pub mod serve;
pub(crate) mod store;
