//! One yardmaster per user.

use std::io;

use rustix::fs::{FlockOperation, flock};

use crate::home::Home;

/// Held as long as it lives; the kernel lets go when the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    _file: fs_err::File,
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("another yardmaster is at work")]
    Taken,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Lock {
    pub fn take(home: &Home) -> Result<Self, LockError> {
        let file = fs_err::OpenOptions::new().create(true).truncate(false).write(true).open(home.lock())?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(LockError::Taken),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }
}
