//! One short program: input given, output kept up to a limit, its process group killed in time. Nothing sleeps: its end
//! is waited for together with its output.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags};

/// More is read and dropped, so that the program is not held up.
const KEPT: usize = 32 << 20;
/// How often we look whether the program has ended, where the kernel (before 5.3) cannot tell.
const LOOK: Duration = Duration::from_millis(20);
/// The same once both outputs are closed: that is a moment before the end.
const SOON: Duration = Duration::from_millis(1);

/// What a program is given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) argv: &'a [String],
    /// Of what we have ourselves, it does not get these.
    pub(crate) without: &'a [&'a str],
    /// More than we have ourselves.
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) input: &'a [u8],
    pub(crate) limit: Duration,
    pub(crate) group: Group,
}

/// Whose process group it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// At the limit all of it is killed.
    Own,
    /// It may ask at our terminal; at the limit it alone is killed.
    Ours,
}

/// What it came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) ending: Ending,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// There was more output than is kept.
    pub(crate) cut: bool,
}

#[derive(Debug)]
pub(crate) enum Ending {
    Ended(ExitStatus),
    /// Killed at the limit.
    TimedOut,
    NotStarted(io::Error),
}

/// Runs a command to its end, or ends it when it takes too long. It reads nothing.
pub fn run_limited(argv: &[String], limit: Duration) -> io::Result<Output> {
    run_limited_with(argv, &BTreeMap::new(), limit)
}

/// The same with more in its environment.
pub fn run_limited_with(argv: &[String], env: &BTreeMap<String, String>, limit: Duration) -> io::Result<Output> {
    run_limited_without(argv, &[], env, limit)
}

/// The same with less in its environment too.
pub(crate) fn run_limited_without(
    argv: &[String],
    without: &[&str],
    env: &BTreeMap<String, String>,
    limit: Duration,
) -> io::Result<Output> {
    let call = Call { argv, without, env, input: &[], limit, group: Group::Ours };
    let Ran { ending, stdout, stderr, .. } = run(&call, None)?;
    let program = argv.first().map_or("", String::as_str);
    match ending {
        Ending::Ended(status) => Ok(Output { status, stdout, stderr }),
        Ending::TimedOut => {
            Err(io::Error::new(io::ErrorKind::TimedOut, format!("`{program}` did not end in {limit:?}")))
        }
        Ending::NotStarted(error) => Err(error),
    }
}

/// `peer` is our own input: when it ends nobody waits for the answer, and the program is killed.
pub(crate) fn run(call: &Call<'_>, peer: Option<BorrowedFd<'_>>) -> io::Result<Ran> {
    let mut child = match start(call) {
        Ok(child) => child,
        Err(error) => {
            return Ok(Ran { ending: Ending::NotStarted(error), stdout: Vec::new(), stderr: Vec::new(), cut: false });
        }
    };
    let mut talk = Talk::with(&mut child, call.input)?;
    let ended = talk.until_end(&mut child, Instant::now().checked_add(call.limit), peer);
    if !matches!(ended, Ok(Some(_))) {
        end(&mut child, call.group);
    }
    let ending = ended?.map_or(Ending::TimedOut, Ending::Ended);
    talk.drain();
    let cut = talk.stdout.cut || talk.stderr.cut;
    Ok(Ran { ending, stdout: talk.stdout.kept, stderr: talk.stderr.kept, cut })
}

fn start(call: &Call<'_>) -> io::Result<Child> {
    let [program, arguments @ ..] = call.argv else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "an empty command"));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    for name in call.without {
        command.env_remove(name);
    }
    command.envs(call.env);
    if call.group == Group::Own {
        command.process_group(0);
    }
    let stdin = if call.input.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn()
}

/// It may have ended by itself meanwhile.
fn end(child: &mut Child, group: Group) {
    match pid(child) {
        Some(pid) if group == Group::Own => {
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
        _ => drop(child.kill()),
    }
    drop(child.wait());
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

struct Talk<'a> {
    /// Readable when it has ended.
    end: Option<OwnedFd>,
    stdin: Option<std::process::ChildStdin>,
    input: &'a [u8],
    stdout: Heard<std::process::ChildStdout>,
    stderr: Heard<std::process::ChildStderr>,
}

impl<'a> Talk<'a> {
    fn with(child: &mut Child, input: &'a [u8]) -> io::Result<Self> {
        let missing = || io::Error::other("a pipe of the child is missing");
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        if let Some(stdin) = &stdin {
            rustix::io::ioctl_fionbio(stdin, true)?;
        }
        rustix::io::ioctl_fionbio(&stdout, true)?;
        rustix::io::ioctl_fionbio(&stderr, true)?;
        let end = pid(child).and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
        Ok(Self { end, stdin, input, stdout: Heard::new(stdout), stderr: Heard::new(stderr) })
    }

    /// `None` at the limit.
    fn until_end(
        &mut self,
        child: &mut Child,
        deadline: Option<Instant>,
        peer: Option<BorrowedFd<'_>>,
    ) -> io::Result<Option<ExitStatus>> {
        loop {
            self.give();
            self.stdout.take();
            self.stderr.take();
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(None);
            }
            if self.wait(deadline, peer)? == Peer::Gone {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn give(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        while !self.input.is_empty() {
            match stdin.write(self.input) {
                Ok(count) => self.input = self.input.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // A program need not read its input.
                Err(_) => break,
            }
        }
        self.stdin = None;
    }

    fn wait(&self, deadline: Option<Instant>, peer: Option<BorrowedFd<'_>>) -> io::Result<Peer> {
        let mut waiting = Vec::with_capacity(5);
        if let Some(peer) = peer {
            waiting.push(PollFd::from_borrowed_fd(peer, PollFlags::RDHUP));
        }
        if let Some(stdin) = &self.stdin {
            waiting.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::OUT));
        }
        waiting.extend(self.stdout.source.as_ref().map(|from| PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN)));
        waiting.extend(self.stderr.source.as_ref().map(|from| PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN)));
        waiting.extend(self.end.as_ref().map(|end| PollFd::new(end, PollFlags::IN)));
        let pause = self.pause(deadline).and_then(|pause| rustix::event::Timespec::try_from(pause).ok());
        match rustix::event::poll(&mut waiting, pause.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        let peer_gone = peer.is_some() && waiting.first().is_some_and(|first| first.revents().intersects(gone));
        Ok(if peer_gone { Peer::Gone } else { Peer::Waits })
    }

    /// `None` is for as long as it takes.
    fn pause(&self, deadline: Option<Instant>) -> Option<Duration> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if self.end.is_some() {
            return left;
        }
        let closed = self.stdout.source.is_none() && self.stderr.source.is_none();
        let look = if closed { SOON } else { LOOK };
        Some(left.map_or(look, |left| left.min(look)))
    }

    /// What was written before the end; not what those who inherited the output write later.
    fn drain(&mut self) {
        self.stdout.take();
        self.stderr.take();
    }
}

#[derive(PartialEq, Eq)]
enum Peer {
    Waits,
    Gone,
}

struct Heard<R> {
    source: Option<R>,
    kept: Vec<u8>,
    cut: bool,
}

impl<R: Read> Heard<R> {
    fn new(source: R) -> Self {
        Self { source: Some(source), kept: Vec::new(), cut: false }
    }

    fn take(&mut self) {
        let mut buffer = [0; 1 << 14];
        while let Some(source) = &mut self.source {
            match source.read(&mut buffer) {
                Ok(0) => self.source = None,
                Ok(count) => {
                    let room = KEPT.saturating_sub(self.kept.len());
                    self.cut |= count > room;
                    self.kept.extend_from_slice(buffer.get(..count.min(room)).unwrap_or_default());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.source = None,
            }
        }
    }
}
