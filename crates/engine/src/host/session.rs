//! One child that speaks on its standard input and output, with a limit on every wait.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use trainyard_agent::pipe::frame;

/// A started child. Reads and writes fail with [`io::ErrorKind::TimedOut`] when nothing moves for [`Session::limit`].
#[derive(Debug)]
pub struct Session {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    /// A file and no pipe: a connection that stays in the background may hold it open for ever.
    stderr: File,
    pub limit: Duration,
    /// One of the few sessions a host allows; given back when this is dropped.
    place: Option<OwnedFd>,
}

/// What becomes of the child's errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stderr {
    Kept,
    /// For a connection that may ask: banners explain what is asked.
    Shown,
}

impl Session {
    /// A child on this machine.
    pub(crate) fn start_here(command: Command, limit: Duration) -> io::Result<Self> {
        Self::start(command, Stderr::Kept, limit, None)
    }

    pub(super) fn start(
        mut command: Command,
        stderr: Stderr,
        limit: Duration,
        place: Option<OwnedFd>,
    ) -> io::Result<Self> {
        let kept = unnamed_file()?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        match stderr {
            Stderr::Kept => command.stderr(kept.try_clone()?),
            Stderr::Shown => command.stderr(Stdio::inherit()),
        };
        let mut child = command.spawn()?;
        let missing = || io::Error::other("a pipe of the child is missing");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        frame::widen(&stdin);
        rustix::io::ioctl_fionbio(&stdin, true)?;
        rustix::io::ioctl_fionbio(&stdout, true)?;
        Ok(Self { child, stdin: Some(stdin), stdout, stderr: kept, limit, place })
    }

    /// Whether there is something to read, or the other side has gone.
    pub fn is_readable(&self) -> bool {
        let mut waiting = [PollFd::from_borrowed_fd(self.stdout.as_fd(), PollFlags::IN)];
        rustix::event::poll(&mut waiting, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
    }

    /// No more input for the child.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Waits for the end; kills at the limit.
    pub fn end(&mut self) -> io::Result<ExitStatus> {
        self.close_input();
        let deadline = Instant::now() + self.limit;
        let mut pause = Duration::from_micros(200);
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                drop(self.child.kill());
                return self.child.wait();
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// The last of what the child printed to its errors.
    pub fn said(&mut self) -> String {
        use std::os::unix::fs::FileExt;
        let length = self.stderr.stream_position().unwrap_or(0);
        let start = length.saturating_sub(16 << 10);
        let mut bytes = vec![0; usize::try_from(length - start).unwrap_or(0)];
        let count = self.stderr.read_at(&mut bytes, start).unwrap_or(0);
        super::error::without_noise(&String::from_utf8_lossy(bytes.get(..count).unwrap_or_default()))
    }
}

/// In memory, and it cannot grow: whoever is at the other end of the connection writes to it.
fn unnamed_file() -> io::Result<File> {
    use rustix::fs::{MemfdFlags, SealFlags};
    let file = rustix::fs::memfd_create("stderr", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, 1 << 20)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK)?;
    Ok(File::from(file))
}

fn wait(fd: &impl AsFd, flags: PollFlags, limit: Duration) -> io::Result<()> {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left =
            Timespec { tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() };
        match rustix::event::poll(&mut [PollFd::from_borrowed_fd(fd.as_fd(), flags)], Some(&left)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl Read for Session {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stdout.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait(&self.stdout, PollFlags::IN, self.limit)?;
                }
                other => return other,
            }
        }
    }
}

impl Write for Session {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(stdin) = &mut self.stdin else { return Err(io::ErrorKind::BrokenPipe.into()) };
        loop {
            match stdin.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(stdin, PollFlags::OUT, self.limit)?,
                other => return other,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Session {
    /// An agent leaves when its input ends; whoever does not is killed, so that nothing is left behind.
    fn drop(&mut self) {
        if self.place.is_some() {
            // This ends our side of the connection only; the agent's input ends with it.
            drop(self.child.kill());
        }
        self.limit = self.limit.min(Duration::from_millis(500));
        drop(self.end());
    }
}
