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

use std::io::{self, Read, Write};
use std::time::Duration;

/// A host that says more has something else in mind.
const MOST_SAID: u64 = 16 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    Here,
    Ssh(SshHost),
    /// Machines that are spoken to through a server of theirs, by its address.
    Cluster(String),
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
            Self::Cluster(address) => address,
        }
    }

    /// Makes sure that the kept connection is there. With [`Person::AtTerminal`] `ssh` may ask for passwords, second
    /// factors and about host keys on the terminal; otherwise it fails instead of asking.
    pub fn connect(&self, person: Person, limit: Duration) -> Result<(), HostError> {
        match self {
            Self::Here | Self::Cluster(_) => Ok(()),
            Self::Ssh(host) => host.connect(person, limit),
        }
    }

    /// What `sh` prints that is given this script. Whether it succeeded is for the script to say; a login shell may have
    /// talked before it.
    pub fn run(&self, script: &str, limit: Duration) -> Result<String, HostError> {
        let failed = |error: io::Error| HostError::Other { host: self.name().to_owned(), said: error.to_string() };
        let mut session = match self {
            Self::Here => {
                let mut command = std::process::Command::new("sh");
                command.arg("-s");
                Session::start_here(command, limit).map_err(failed)?
            }
            Self::Ssh(host) => host.start("exec sh -s", Person::Nobody, Stderr::Kept, limit)?,
            Self::Cluster(_) => return Err(failed(io::ErrorKind::Unsupported.into())),
        };
        let mut said = Vec::new();
        let written = session.write_all(script.as_bytes());
        session.close_input();
        written.and_then(|()| Read::take(&mut session, MOST_SAID).read_to_end(&mut said)).map_err(failed)?;
        match self {
            Self::Ssh(host) if said.is_empty() => Err(host.why(&mut session)),
            _ => Ok(String::from_utf8_lossy(&said).into_owned()),
        }
    }

    /// Ends the kept connection, if there is one.
    pub fn disconnect(&self) {
        if let Self::Ssh(host) = self {
            host.disconnect();
        }
    }
}
