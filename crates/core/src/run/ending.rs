//! How an attempt ended, and why a run did.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// What became of one attempt, with what the resume policy wants to know of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    pub outcome: Outcome,
    pub lasted: Span,
    /// Whether the attempt left a checkpoint that was not there before; `None` when the job declares none.
    pub new_checkpoint: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Outcome {
    Exited {
        code: i32,
    },
    Killed {
        signal: i32,
    },
    /// The program ended with 0, but outputs it promised are not there.
    OutputsMissing {
        paths: Vec<String>,
    },
    /// The agent ended it at the time limit, whatever its exit status was.
    TimeLimit,
    Preempted,
    /// The agent ended it because it was told to.
    Stopped,
    /// The program never ran: `code` is what a shell would have said (126, 127), or 125 for our own preparations.
    CannotStart {
        code: i32,
        why: String,
    },
    /// The agent is gone and left no result: it was killed, or the machine went down.
    Lost {
        why: String,
    },
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Reason {
    Attempt {
        outcome: Outcome,
    },
    /// All allowed attempts were used; the last ended so.
    AttemptsUsed {
        attempts: u32,
        outcome: Outcome,
    },
    /// Attempts in a row that got nowhere.
    CrashLoop {
        attempts: u32,
        outcome: Outcome,
    },
    /// The target, or the plan, would not take it.
    Refused {
        why: String,
    },
}

impl Outcome {
    /// The exit code a shell would show.
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Exited { code } | Self::CannotStart { code, .. } => Some(*code),
            Self::Killed { signal } => Some(128 + signal),
            Self::OutputsMissing { .. } => Some(0),
            Self::TimeLimit | Self::Preempted | Self::Stopped | Self::Lost { .. } => None,
        }
    }
}

impl Reason {
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Attempt { outcome } | Self::AttemptsUsed { outcome, .. } | Self::CrashLoop { outcome, .. } => {
                Some(outcome)
            }
            Self::Refused { .. } => None,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "exit code {code}"),
            Self::Killed { signal: 9 } => f.write_str("killed by SIGKILL (often the kernel, when memory runs out)"),
            Self::Killed { signal } => write!(f, "killed by {}", signal_name(*signal)),
            Self::OutputsMissing { paths } => write!(f, "ended with 0 but left no {}", paths.join(", ")),
            Self::TimeLimit => f.write_str("time limit reached"),
            Self::Preempted => f.write_str("preempted"),
            Self::Stopped => f.write_str("stopped"),
            Self::CannotStart { why, .. } | Self::Lost { why } => f.write_str(why),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attempt { outcome } => outcome.fmt(f),
            Self::AttemptsUsed { attempts, outcome } => write!(f, "{outcome}; all {attempts} attempts used"),
            Self::CrashLoop { attempts, outcome } => {
                write!(f, "{outcome}; {attempts} attempts in a row got nowhere (crash loop)")
            }
            Self::Refused { why } => f.write_str(why),
        }
    }
}

/// `SIGTERM` for 15; a number nobody knows stays a number.
pub fn signal_name(signal: i32) -> String {
    const NAMES: [(i32, &str); 16] = [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (3, "SIGQUIT"),
        (4, "SIGILL"),
        (5, "SIGTRAP"),
        (6, "SIGABRT"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (10, "SIGUSR1"),
        (11, "SIGSEGV"),
        (12, "SIGUSR2"),
        (13, "SIGPIPE"),
        (14, "SIGALRM"),
        (15, "SIGTERM"),
        (24, "SIGXCPU"),
    ];
    NAMES
        .iter()
        .find(|(number, _)| *number == signal)
        .map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}
