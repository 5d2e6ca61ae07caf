//! A machine that can be commanded: this one, or one behind `ssh`.
//!
//! The system's `ssh` is used with one kept connection per host, so that everything in `~/.ssh/config`, jump hosts,
//! second factors and Kerberos just work. Only [`Host::connect`] may ask a person something.

mod error;
mod session;
mod ssh;

pub use error::HostError;
pub use session::{Session, Stderr};
pub use ssh::SshHost;

use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    Here,
    Ssh(SshHost),
}

/// Whether somebody is there to type a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Person {
    AtTerminal,
    Nobody,
}

impl Host {
    /// As the user calls it.
    pub fn name(&self) -> &str {
        match self {
            Self::Here => "this machine",
            Self::Ssh(host) => host.alias(),
        }
    }

    /// Makes sure that the kept connection is there. With [`Person::AtTerminal`] `ssh` may ask for passwords, second
    /// factors and about host keys on the terminal; otherwise it fails instead of asking.
    pub fn connect(&self, person: Person, limit: Duration) -> Result<(), HostError> {
        match self {
            Self::Here => Ok(()),
            Self::Ssh(host) => host.connect(person, limit),
        }
    }

    /// Ends the kept connection, if there is one.
    pub fn disconnect(&self) {
        if let Self::Ssh(host) = self {
            host.disconnect();
        }
    }
}
