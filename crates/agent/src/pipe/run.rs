//! One short program at the site: input given, output kept up to a limit, its process group killed in time.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::message::Status;

/// More is read and dropped, so that the program is not held up.
const KEPT: usize = 32 << 20;
/// How often we look whether the program has ended while somebody else still holds its output.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Ran {
    pub(super) status: Status,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) cut: bool,
}

/// `peer` is our own input: when it ends nobody waits for the answer, and the program is killed.
pub(super) fn run(
    argv: &[String],
    env: &BTreeMap<String, String>,
    input: &[u8],
    limit: Duration,
    peer: Option<BorrowedFd<'_>>,
) -> io::Result<Ran> {
    let not_started = |why: String| Ran { status: Status::NotStarted(why), stdout: vec![], stderr: vec![], cut: false };
    let Some((program, arguments)) = argv.split_first() else {
        return Ok(not_started("an empty command".to_owned()));
    };
    let mut command = Command::new(program);
    command.args(arguments).envs(env).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Ok(not_started(format!("{program}: {error}"))),
    };
    let mut talk = Talk::with(&mut child, input)?;
    let ended = talk.until_end(&mut child, Instant::now().checked_add(limit), peer);
    if !matches!(ended, Ok(Some(_))) {
        end_group(&mut child);
    }
    let status = match ended? {
        Some(status) => ended_as(status),
        None => Status::TimedOut,
    };
    talk.drain();
    let cut = talk.stdout.cut || talk.stderr.cut;
    Ok(Ran { status, stdout: talk.stdout.kept, stderr: talk.stderr.kept, cut })
}

fn ended_as(status: ExitStatus) -> Status {
    match status.code() {
        Some(code) => Status::Exited(code),
        None => Status::Killed(status.signal().unwrap_or(0)),
    }
}

fn end_group(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        // It may have ended by itself meanwhile.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    drop(child.wait());
}

struct Talk<'a> {
    stdin: Option<std::process::ChildStdin>,
    input: &'a [u8],
    stdout: Heard<std::process::ChildStdout>,
    stderr: Heard<std::process::ChildStderr>,
}

impl<'a> Talk<'a> {
    fn with(child: &mut Child, input: &'a [u8]) -> io::Result<Self> {
        let missing = || io::Error::other("a pipe of the child is missing");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        rustix::io::ioctl_fionbio(&stdin, true)?;
        rustix::io::ioctl_fionbio(&stdout, true)?;
        rustix::io::ioctl_fionbio(&stderr, true)?;
        Ok(Self { stdin: Some(stdin), input, stdout: Heard::new(stdout), stderr: Heard::new(stderr) })
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
            if self.wait(peer)? == Peer::Gone {
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

    fn wait(&self, peer: Option<BorrowedFd<'_>>) -> io::Result<Peer> {
        let mut waiting = Vec::with_capacity(4);
        if let Some(peer) = peer {
            waiting.push(PollFd::from_borrowed_fd(peer, PollFlags::RDHUP));
        }
        if let Some(stdin) = &self.stdin {
            waiting.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::OUT));
        }
        waiting.extend(self.stdout.source.as_ref().map(|from| PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN)));
        waiting.extend(self.stderr.source.as_ref().map(|from| PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN)));
        // Both outputs are closed a moment before the end.
        let closed = self.stdout.source.is_none() && self.stderr.source.is_none();
        let pause = if closed { Duration::from_millis(1) } else { LOOK };
        let pause = rustix::event::Timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() };
        match rustix::event::poll(&mut waiting, Some(&pause)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        let peer_gone = peer.is_some() && waiting.first().is_some_and(|first| first.revents().intersects(gone));
        Ok(if peer_gone { Peer::Gone } else { Peer::Waits })
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
