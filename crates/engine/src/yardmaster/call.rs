//! The other side of the door: how a command reaches the yardmaster, starting one if there is none.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::socket::{Answer, Door, Knock};
use crate::home::Home;

const PATIENCE: Duration = Duration::from_secs(30);
/// A yardmaster that leaves just then is followed by another; this many in a row is a fault.
const TRIES: usize = 5;

#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("cannot start the yardmaster; see {}", log.display())]
    NotStarted { log: PathBuf, source: io::Error },
    #[error("the yardmaster does not answer; see {}", log.display())]
    Silent { log: PathBuf, source: io::Error },
}

/// How to start a yardmaster: this program, which is also its own agent.
#[derive(Debug, Clone)]
pub struct Start {
    pub program: PathBuf,
}

/// A connection to the yardmaster that has looked at the ledger since it was made.
#[derive(Debug)]
pub struct Caller {
    stream: BufReader<UnixStream>,
}

/// Tells builds apart: a yardmaster gives way to a newer program, and serves older ones.
pub(super) fn build() -> String {
    use std::os::unix::fs::MetadataExt;
    let file = std::fs::metadata("/proc/self/exe")
        .map(|data| format!("{}.{:09}.{}", data.mtime(), data.mtime_nsec(), data.size()));
    format!("{} {}", env!("CARGO_PKG_VERSION"), file.unwrap_or_default())
}

/// Whether the yardmaster of `ours` gives way to a visitor of `theirs`. An older one can use it as well: what they have
/// to say to each other is in the ledger, and a ledger of another format they would not have opened. Were both to give
/// way, two laptops with different builds would have one machine's yardmaster start anew at every look.
pub(super) fn gives_way(ours: &str, theirs: &str) -> bool {
    match (age(ours), age(theirs)) {
        (Some(ours), Some(theirs)) => theirs > ours,
        _ => ours != theirs,
    }
}

/// Version, and when the file was written: at a site that is when it arrived there.
fn age(build: &str) -> Option<(Vec<u64>, u64, u64)> {
    let (version, file) = build.split_once(' ')?;
    let (release, _) = version.split_once('-').unwrap_or((version, ""));
    let version = release.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    let mut written = file.split('.').map(str::parse);
    Some((version, written.next()?.ok()?, written.next()?.ok()?))
}

impl Caller {
    /// Returns when the yardmaster has taken up what the ledger holds.
    pub fn knock(home: &Home, start: &Start, secrets: &BTreeMap<String, String>) -> Result<Self, CallError> {
        let mut last = io::Error::other("it left before it answered");
        for _ in 0..TRIES {
            match Self::try_knock(home, secrets) {
                Ok(Some(caller)) => return Ok(caller),
                Ok(None) => {}
                Err(error) => last = error,
            }
            launch(home, start).map_err(|source| CallError::NotStarted { log: home.yardmaster_log(), source })?;
        }
        Err(CallError::Silent { log: home.yardmaster_log(), source: last })
    }

    /// The yardmaster that is at work, if one is, after it has taken up what the ledger holds.
    pub fn visit(home: &Home, secrets: &BTreeMap<String, String>) -> Option<Self> {
        Self::try_knock(home, secrets).ok().flatten()
    }

    /// `None` when a yardmaster of an older build was there and leaves.
    fn try_knock(home: &Home, secrets: &BTreeMap<String, String>) -> io::Result<Option<Self>> {
        let stream = UnixStream::connect(Door::of(home)?.path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut line = serde_json::to_vec(&Knock { build: build(), secrets: secrets.clone() })?;
        line.push(b'\n');
        (&stream).write_all(&line)?;
        let mut caller = Self { stream: BufReader::new(stream) };
        match caller.hear()? {
            Answer::Seen | Answer::Changed => Ok(Some(caller)),
            Answer::Leaving => {
                // Until it is gone: the lock must be free for the next.
                drop(caller.stream.read_to_end(&mut Vec::new()));
                Ok(None)
            }
        }
    }

    fn hear(&mut self) -> io::Result<Answer> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Waits until something in the ledger may have changed, at most this long. An error means that the yardmaster
    /// has gone, and it is time to knock again.
    pub fn wait(&mut self, at_most: Duration) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(Some(at_most.max(Duration::from_millis(1))))?;
        match self.hear() {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Starts one in the background and returns when it is ready, or when it found another at work.
fn launch(home: &Home, start: &Start) -> io::Result<()> {
    let log = fs_err::OpenOptions::new().create(true).append(true).open(home.yardmaster_log())?;
    let log: OwnedFd = std::fs::File::from(log).into();
    let mut command = Command::new(&start.program);
    command.args(["yardmaster", "--detached"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    command.current_dir("/");
    let mut child = command.spawn()?;
    let mut ready = String::new();
    if let Some(mut output) = child.stdout.take() {
        output.read_to_string(&mut ready)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newer_build_stays() {
        let old = "0.1.0 1794975458.391423853.22295752";
        for newer in ["0.1.0 1794975458.391423854.1", "0.1.0 1794975459.000000001.9", "0.10.0 9.9.9", "0.2.0-rc1 1.1.1"]
        {
            assert!(gives_way(old, newer), "{newer}");
            assert!(!gives_way(newer, old), "{newer}");
        }
        assert!(!gives_way(old, old));
        // What cannot be compared is another.
        assert!(gives_way(old, "0.1.0 "));
        assert!(gives_way("0.1.0 ", old));
        assert!(!gives_way("0.1.0 ", "0.1.0 "));
    }
}
