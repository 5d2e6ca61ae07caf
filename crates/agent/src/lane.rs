//! An agent that takes one order after another, as lines of JSON on its standard input, and reports on its
//! standard output. One program at a time: so everything below this process belongs to the current attempt.
//!
//! When the input ends, because the yardmaster stopped or was killed, the current attempt goes on to its end
//! and then the agent leaves. SIGTERM stops the current attempt gently, SIGINT at once.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use trainyard_core::id::Token;
use trainyard_core::time::Instant;

use crate::order::{AttemptResult, Order, Secrets, Status, Stop, Wish};
use crate::overseer::Overseer;
use crate::supervise::{NotTaken, supervise};
use crate::sys;

/// What an agent is told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Down {
    Run { order: Box<Order>, secrets: Secrets },
    Stop { token: Token, how: Stop },
}

/// What an agent says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Up {
    Started {
        token: Token,
        at: Instant,
    },
    Beat {
        token: Token,
        status: Status,
    },
    Ended {
        result: Box<AttemptResult>,
    },
    /// Another agent has the attempt; its claim says which.
    Claimed {
        token: Token,
    },
    /// Nothing was executed.
    NotTaken {
        token: Token,
        why: String,
    },
}

/// Serves orders until the input ends.
pub fn serve() -> io::Result<()> {
    sys::adopt_orphans()?;
    let mut lane = Lane::open()?;
    loop {
        match lane.next()? {
            Some(Down::Run { order, secrets }) => {
                let token = order.token.clone();
                match supervise(&order, &secrets, &mut lane) {
                    Ok(ended) => {
                        lane.output.say(&Up::Ended { result: Box::new(ended.result.clone()) });
                        ended.insist();
                    }
                    Err(NotTaken::Claimed) => lane.output.say(&Up::Claimed { token }),
                    Err(NotTaken::Folder(error)) => lane.output.say(&Up::NotTaken { token, why: error.to_string() }),
                }
            }
            // For an attempt that has ended meanwhile.
            Some(Down::Stop { .. }) => {}
            None => return Ok(()),
        }
    }
}

struct Lane {
    input: Input,
    output: Output,
    signals: OwnedFd,
}

impl Lane {
    fn open() -> io::Result<Self> {
        let input = Input::new(rustix::stdio::stdin().try_clone_to_owned()?)?;
        let output = Output::new(rustix::stdio::stdout().try_clone_to_owned()?)?;
        Ok(Self { input, output, signals: sys::stop_signals()? })
    }

    /// The next order, or `None` when there will be no more.
    fn next(&mut self) -> io::Result<Option<Down>> {
        loop {
            if let Some(down) = self.input.pop() {
                return Ok(Some(down));
            }
            if self.input.ended || self.take_signal().is_some() {
                return Ok(None);
            }
            match self.wait() {
                Ok(()) | Err(rustix::io::Errno::INTR) => self.input.fill(),
                Err(error) => return Err(error.into()),
            }
            self.output.flush();
        }
    }

    fn wait(&self) -> rustix::io::Result<()> {
        let listen = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut fds = vec![listen(self.input.fd.as_fd()), listen(self.signals.as_fd())];
        if !self.output.unsent.is_empty() {
            fds.push(PollFd::new(&self.output.fd, PollFlags::OUT));
        }
        rustix::event::poll(&mut fds, None).map(drop)
    }

    fn take_signal(&mut self) -> Option<Stop> {
        let mut siginfo = [0; 128];
        rustix::io::read(&self.signals, &mut siginfo).ok()?;
        let number = siginfo.first_chunk().copied().map(u32::from_ne_bytes);
        let is_term = number == u32::try_from(Signal::TERM.as_raw()).ok();
        Some(if is_term { Stop::Gently } else { Stop::Now })
    }
}

impl Overseer for Lane {
    fn started(&mut self, token: &Token, at: Instant) {
        self.output.say(&Up::Started { token: token.clone(), at });
    }

    fn beat(&mut self, token: &Token, status: &Status) {
        // What was said before still waits to be heard; the next beat says it all again.
        if self.output.unsent.is_empty() {
            self.output.say(&Up::Beat { token: token.clone(), status: status.clone() });
        }
    }

    fn wants_stop(&mut self, token: &Token) -> Option<Wish> {
        self.output.flush();
        self.input.fill();
        let (asked, signal) = (self.input.take_stop(token), self.take_signal());
        asked.max(signal).map(|how| Wish { how, by_signal: asked.is_none() })
    }

    fn listen(&self) -> Vec<BorrowedFd<'_>> {
        let input = (!self.input.ended).then(|| self.input.fd.as_fd());
        input.into_iter().chain([self.signals.as_fd()]).collect()
    }
}

/// Lines to a descriptor that is never waited for: a yardmaster that hangs must not hold up the program.
struct Output {
    fd: OwnedFd,
    unsent: Vec<u8>,
}

impl Output {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        never_wait_for(&fd)?;
        Ok(Self { fd, unsent: Vec::new() })
    }

    fn say(&mut self, up: &Up) {
        // Plain data of ours always has a JSON form.
        let Ok(line) = serde_json::to_vec(up) else { return };
        self.unsent.extend(line);
        self.unsent.push(b'\n');
        self.flush();
    }

    fn flush(&mut self) {
        while !self.unsent.is_empty() {
            match rustix::io::write(&self.fd, &self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                // A yardmaster that is gone finds `result.json` when it comes back.
                Err(_) => self.unsent.clear(),
            }
        }
    }
}

fn never_wait_for(fd: &OwnedFd) -> rustix::io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    rustix::fs::fcntl_setfl(fd, flags | rustix::fs::OFlags::NONBLOCK)
}

/// Lines from a descriptor that is never waited for.
struct Input {
    fd: OwnedFd,
    bytes: Vec<u8>,
    waiting: VecDeque<Down>,
    ended: bool,
}

impl Input {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        never_wait_for(&fd)?;
        Ok(Self { fd, bytes: Vec::new(), waiting: VecDeque::new(), ended: false })
    }

    fn pop(&mut self) -> Option<Down> {
        self.waiting.pop_front()
    }

    fn take_stop(&mut self, wanted: &Token) -> Option<Stop> {
        let mut strongest = None;
        self.waiting.retain(|down| match down {
            Down::Stop { token, how } if token == wanted => {
                strongest = strongest.max(Some(*how));
                false
            }
            Down::Stop { .. } | Down::Run { .. } => true,
        });
        strongest
    }

    fn fill(&mut self) {
        let mut buffer = [0; 1 << 12];
        while !self.ended {
            match rustix::io::read(&self.fd, &mut buffer) {
                Ok(0) => self.ended = true,
                Ok(count) => self.take(buffer.get(..count).unwrap_or_default()),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                Err(_) => self.ended = true,
            }
        }
    }

    /// A line nobody understands comes from a yardmaster of another version; it is not guessed at.
    fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        while let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            self.waiting.extend(serde_json::from_slice::<Down>(&line));
        }
    }
}
