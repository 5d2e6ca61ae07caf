//! Who runs an attempt. A claim is made at most once, whatever is killed when, so no attempt is executed twice.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use trainyard_core::id::Token;

use crate::depot::AttemptFolder;
use crate::process::Identity;

/// `claim.json`: written before anything of the attempt is executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub token: Token,
    /// `None` makes the attempt void: it was not executed, and now never will be.
    pub agent: Option<Identity>,
}

/// What a claim says about the attempt now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// Nothing of the attempt has been executed, and none will be without a claim.
    Nobody,
    /// Nothing of it has been executed, and nothing ever will be.
    Void,
    Alive(Identity),
    /// The agent is gone; the attempt may have executed, in part or whole.
    Gone,
}

/// Takes the attempt on for this process. `AlreadyExists` means that another has it.
pub fn take(folder: &AttemptFolder, token: &Token) -> io::Result<()> {
    make(folder, Claim { token: token.clone(), agent: Some(Identity::mine()?) })
}

/// Makes sure that nobody ever takes the attempt on. `AlreadyExists` means that somebody has.
pub fn make_void(folder: &AttemptFolder, token: &Token) -> io::Result<()> {
    make(folder, Claim { token: token.clone(), agent: None })
}

/// The claim appears whole or not at all.
fn make(folder: &AttemptFolder, claim: Claim) -> io::Result<()> {
    folder.create()?;
    let beside = folder.path().join(format!("claim.{}.tmp", std::process::id()));
    fs_err::write(&beside, serde_json::to_vec(&claim)?)?;
    let taken = publish(&beside, &folder.claim());
    if taken.is_err() {
        // Why it was not taken matters more than a file left over.
        drop(fs_err::remove_file(&beside));
    }
    taken
}

/// Renames unless the name is taken. File systems that cannot do that in one step (NFS) can make a link.
fn publish(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            fs_err::hard_link(from, to)?;
            fs_err::remove_file(from)
        }
        other => other.map_err(Into::into),
    }
}

/// A torn claim, as a power cut leaves it, counts as [`Holder::Gone`]: somebody got as far as making it.
pub fn holder(folder: &AttemptFolder) -> Holder {
    if !folder.claim().exists() {
        // A log is made under a claim; if only the log is there, somebody removed the claim.
        return if folder.log().exists() { Holder::Gone } else { Holder::Nobody };
    }
    match crate::disk::read_json::<Claim>(&folder.claim()) {
        Some(Claim { agent: None, .. }) => Holder::Void,
        Some(Claim { agent: Some(agent), .. }) if agent.is_alive() => Holder::Alive(agent),
        Some(_) | None => Holder::Gone,
    }
}
