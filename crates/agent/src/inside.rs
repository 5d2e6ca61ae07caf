//! The first process in a container of Docker or Podman: runs the program, hands signals on to all there is, and ends what the
//! program left behind.
//!
//! A program that is itself the first process of a container hears no signal that it has no handler for, and nobody
//! waits for its orphans. And a container goes on when everybody outside is gone. This one is told on its standard input what
//! the program's variables are, so that no engine writes them down, and that input ends with whoever started it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, kill_process};

use crate::process::descendants;
use crate::step::first_to_fail;
use crate::sys::{self, Ended, Reap};
use crate::task::{end_leftovers, not_started};

/// As a shell says that somebody was killed.
const KILLED: i32 = 128 + 9;
/// A record of the kernel about a signal; its number comes first.
const RECORD: usize = 128;

/// What is said at the start: variables and their values, in one line.
pub(crate) fn told(env: &BTreeMap<String, String>) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(env)?;
    line.push(b'\n');
    Ok(line)
}

fn hear() -> io::Result<Option<BTreeMap<String, String>>> {
    let mut line = Vec::new();
    io::stdin().lock().read_until(b'\n', &mut line)?;
    if line.is_empty() { Ok(None) } else { Ok(Some(serde_json::from_slice(&line)?)) }
}

/// Returns the program's exit code. How it ended is written down beside `step`, since a first process cannot die by a signal.
pub fn run(step: &Path, argv: &[OsString]) -> io::Result<i32> {
    let [program, arguments @ ..] = argv else { return Err(io::Error::other("no program")) };
    let Some(env) = hear()? else { return Ok(KILLED) };
    let mut command = Command::new(program);
    command.args(arguments).envs(&env).stdin(Stdio::null());
    sys::adopt_orphans()?;
    sys::stay(&mut command)?;
    let signals = sys::all_signals()?;
    let child = match command.spawn() {
        Ok(child) => i32::try_from(child.id()).unwrap_or(i32::MAX),
        Err(error) => return Ok(not_started(step, program, &error)),
    };
    let Some(ended) = watch(child, &signals)? else { return Ok(KILLED) };
    first_to_fail(step, ended);
    end_leftovers();
    Ok(match ended {
        Ended::Exited(code) => code,
        Ended::Killed(signal) => 128 + signal,
    })
}

/// How the program ended; nothing where nobody outside is left who wants to know.
fn watch(child: i32, signals: &OwnedFd) -> io::Result<Option<Ended>> {
    let input = io::stdin();
    loop {
        loop {
            match sys::reap()? {
                Reap::Child(reaped) if reaped.pid == child => return Ok(Some(reaped.ending)),
                Reap::Child(_) => {}
                Reap::Busy => break,
                Reap::NoChildren => return Err(io::Error::other("the program is gone and nobody knows how it ended")),
            }
        }
        let mut fds = [PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN), PollFd::new(&input, PollFlags::IN)];
        match rustix::event::poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => continue,
            polled => drop(polled?),
        }
        let [heard, outside] = fds.map(|fd| !fd.revents().is_empty());
        if outside && has_ended(&input)? {
            return Ok(None);
        }
        if heard {
            hand_on(signals)?;
        }
    }
}

/// Nothing more is ever sent; what comes all the same is passed over.
fn has_ended(input: &io::Stdin) -> io::Result<bool> {
    Ok(rustix::io::read(input, &mut [0; 512])? == 0)
}

fn hand_on(signals: &OwnedFd) -> io::Result<()> {
    let mut record = [0; RECORD];
    if rustix::io::read(signals, &mut record)? < RECORD {
        return Ok(());
    }
    let number = record.first_chunk::<4>().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
    let Some(signal) = Signal::from_named_raw(number).filter(|signal| *signal != Signal::CHILD) else { return Ok(()) };
    let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    for pid in descendants(own).into_iter().filter_map(Pid::from_raw) {
        // Gone already is what was wanted.
        let _ = kill_process(pid, signal);
    }
    Ok(())
}
