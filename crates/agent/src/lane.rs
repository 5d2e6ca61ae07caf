//! An agent that takes one order after another, as lines of JSON on its standard input, and reports on its
//! standard output. One program at a time: so everything below this process belongs to the current attempt.
//!
//! When the input ends, because the yardmaster stopped or was killed, the current attempt goes on to its end
//! and then the agent leaves. SIGTERM stops the current attempt; a second one kills it.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use serde::{Deserialize, Serialize};
use trainyard_core::id::Token;
use trainyard_core::time::Instant;

use crate::order::{AttemptResult, Order, Secrets, Status};
use crate::overseer::Overseer;
use crate::supervise::{NotTaken, supervise};
use crate::sys;

/// What an agent is told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Down {
    Run { order: Box<Order>, secrets: Secrets },
    Stop { token: Token },
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
                let up = match supervise(&order, &secrets, &mut lane) {
                    Ok(result) => Up::Ended { result: Box::new(result) },
                    Err(NotTaken::Claimed) => Up::Claimed { token },
                    Err(NotTaken::Folder(error)) => Up::NotTaken { token, why: error.to_string() },
                };
                lane.say(&up);
                lane.signalled = false;
            }
            // For an attempt that has ended meanwhile.
            Some(Down::Stop { .. }) => {}
            None => return Ok(()),
        }
    }
}

struct Lane {
    input: Input,
    output: fs_err::File,
    signals: OwnedFd,
    signalled: bool,
    heard: bool,
}

impl Lane {
    fn open() -> io::Result<Self> {
        let input = Input::new(rustix::stdio::stdin().try_clone_to_owned()?)?;
        let output = std::fs::File::from(rustix::stdio::stdout().try_clone_to_owned()?);
        let output = fs_err::File::from_parts(output, "standard output");
        Ok(Self { input, output, signals: sys::stop_signals()?, signalled: false, heard: true })
    }

    /// The next order, or `None` when there will be no more.
    fn next(&mut self) -> io::Result<Option<Down>> {
        loop {
            if let Some(down) = self.input.pop() {
                return Ok(Some(down));
            }
            if self.input.ended || self.take_signal() {
                return Ok(None);
            }
            let mut fds =
                [self.input.fd.as_fd(), self.signals.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            match rustix::event::poll(&mut fds, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => self.input.fill(),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn say(&mut self, up: &Up) {
        let Ok(mut line) = serde_json::to_vec(up) else { return };
        line.push(b'\n');
        // A yardmaster that is gone finds `result.json` when it comes back.
        self.heard = self.heard && self.output.write_all(&line).is_ok();
    }

    fn take_signal(&mut self) -> bool {
        let mut siginfo = [0; 128];
        rustix::io::read(&self.signals, &mut siginfo).is_ok()
    }
}

impl Overseer for Lane {
    fn started(&mut self, token: &Token, at: Instant) {
        self.say(&Up::Started { token: token.clone(), at });
    }

    fn beat(&mut self, token: &Token, status: &Status) {
        self.say(&Up::Beat { token: token.clone(), status: status.clone() });
    }

    fn wants_stop(&mut self, token: &Token) -> bool {
        self.input.fill();
        let told = self.input.take_stop(token);
        self.take_signal() || told
    }

    fn listen(&self) -> Vec<BorrowedFd<'_>> {
        let input = (!self.input.ended).then(|| self.input.fd.as_fd());
        input.into_iter().chain([self.signals.as_fd()]).collect()
    }

    fn is_heard(&self) -> bool {
        self.heard && !self.input.ended
    }
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
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags | rustix::fs::OFlags::NONBLOCK)?;
        Ok(Self { fd, bytes: Vec::new(), waiting: VecDeque::new(), ended: false })
    }

    fn pop(&mut self) -> Option<Down> {
        self.waiting.pop_front()
    }

    fn take_stop(&mut self, wanted: &Token) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|down| !matches!(down, Down::Stop { token } if token == wanted));
        self.waiting.len() < before
    }

    fn fill(&mut self) {
        let mut buffer = [0; 1 << 14];
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
