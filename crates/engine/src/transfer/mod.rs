//! Files to a site and back: only what is not there, compressed, verified, each one whole or not at all.

mod ahead;
mod pull;
mod upload;

pub use pull::{Pulled, pull, pull_outputs};
pub use upload::{Base, Sent, upload};

use std::path::PathBuf;

use crate::pipe::PipeError;

/// How far a transfer is; `wire` is what went over the connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    pub bytes: u64,
    pub of: u64,
    pub wire: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error(transparent)]
    Pipe(#[from] PipeError),
    /// Scan again, and then upload again: what has arrived is not sent twice.
    #[error("{} changed while it was sent", path.display())]
    Changed { path: PathBuf },
    /// It was forgotten; whoever makes it again may send it.
    #[error("the image {} is damaged on this disk: it will be made anew", path.display())]
    Damaged { path: PathBuf },
    #[error("{need} bytes are to be sent, but the depot has only {free} bytes free")]
    Full { need: u64, free: u64 },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}
