//! One kind of error for people: what went wrong, why, and what to do about it. Its class is the exit code.

use std::error::Error;
use std::process::ExitCode;

use trainyard_core::spec::SpecError;
use trainyard_engine::curves::{ExportError, FetchError, ReadError};
use trainyard_engine::home::HomeError;
use trainyard_engine::images::ImageError;
use trainyard_engine::ledger::LedgerError;
use trainyard_engine::pipe::PipeError;
use trainyard_engine::ray::RayError;
use trainyard_engine::snapshot::SnapshotError;
use trainyard_engine::submit::SubmitError;
use trainyard_engine::tracking::TrackingError;
use trainyard_engine::transfer::TransferError;
use trainyard_engine::yardmaster::{CallError, YardmasterError};

/// Exit codes are an API; `docs/exit-codes.md` explains each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    RunFailed,
    /// Two things that were to be the same are not.
    Different,
    Usage,
    Settings,
    Unreachable,
    Refused,
    Unknown,
    Fault,
    Interrupted,
    /// What an agent hands on to the scheduler that started it.
    Job(u8),
}

impl Exit {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::RunFailed | Self::Different => 1,
            Self::Usage => 2,
            Self::Settings => 3,
            Self::Unreachable => 4,
            Self::Refused => 5,
            Self::Unknown => 6,
            Self::Fault => 70,
            Self::Interrupted => 130,
            Self::Job(code) => code,
        }
    }

    /// The word in JSON.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::RunFailed => "run-failed",
            Self::Different => "different",
            Self::Usage => "usage",
            Self::Settings => "settings",
            Self::Unreachable => "target-unreachable",
            Self::Refused => "target-refused",
            Self::Unknown => "state-unknown",
            Self::Fault => "fault",
            Self::Interrupted => "interrupted",
            Self::Job(_) => "job",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[derive(Debug)]
pub(crate) struct CommandError {
    pub(crate) exit: Exit,
    /// The message, then its causes, outermost first.
    pub(crate) chain: Vec<String>,
    pub(crate) hints: Vec<String>,
}

impl CommandError {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, chain: vec![message.into()], hints: Vec::new() }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    fn of(exit: Exit, error: &dyn Error) -> Self {
        let mut chain = vec![error.to_string()];
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // A layer that only passes on says the same again.
            if !chain.last().is_some_and(|said| said.contains(&text)) {
                chain.push(text);
            }
            cause = error.source();
        }
        Self { exit, chain, hints: Vec::new() }
    }
}

impl From<SpecError> for CommandError {
    fn from(error: SpecError) -> Self {
        let mut hints: Vec<String> = error.problems.iter().filter_map(|problem| problem.hint.clone()).collect();
        hints.dedup();
        Self { exit: Exit::Settings, chain: vec![error.to_string()], hints }
    }
}

impl From<HomeError> for CommandError {
    fn from(error: HomeError) -> Self {
        Self::of(Exit::Settings, &error).hint("set `YARD_HOME` to a folder you can write to")
    }
}

impl From<LedgerError> for CommandError {
    fn from(error: LedgerError) -> Self {
        match &error {
            LedgerError::Ambiguous(_) => Self::of(Exit::Usage, &error).hint("give more digits of the id"),
            LedgerError::Newer { .. } => Self::of(Exit::Settings, &error).hint("use the newer yard"),
            LedgerError::Open { .. } | LedgerError::ReadOnly { .. } | LedgerError::Sql(_) => {
                Self::of(Exit::Settings, &error).hint("`yard doctor` looks at yard's home; `YARD_HOME` names another")
            }
            LedgerError::Unreadable(_) | LedgerError::Sweep { .. } => Self::of(Exit::Fault, &error),
        }
    }
}

impl From<TrackingError> for CommandError {
    fn from(error: TrackingError) -> Self {
        let exit = match &error {
            TrackingError::Web(_) => Exit::Unreachable,
            _ => Exit::Settings,
        };
        Self::of(exit, &error)
    }
}

impl From<SnapshotError> for CommandError {
    fn from(error: SnapshotError) -> Self {
        let told = Self::of(Exit::Settings, &error);
        match &error {
            SnapshotError::Mistake(mistake) => {
                // A string of JSON is one of TOML too.
                let line = serde_json::Value::from(mistake.pattern());
                told.hint(format!("leave it out: `exclude = [{line}]` under `[project]`"))
                    .hint(format!("or ship it: `allow-large = [{line}]` there"))
            }
            SnapshotError::Changing { .. } => told.hint("run again when it is written"),
            SnapshotError::Write { .. } => told.hint("free some space, or set `YARD_HOME` or `targets.local.depot`"),
            SnapshotError::Read(_) | SnapshotError::Walk(_) => {
                told.hint("leave it out with `exclude` under `[project]`")
            }
            SnapshotError::Pattern { .. } => told,
        }
    }
}

impl From<SubmitError> for CommandError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Snapshot(error) => error.into(),
            SubmitError::Ledger(error) => error.into(),
            SubmitError::Arguments { .. } | SubmitError::ParamsFile { .. } => Self::of(Exit::Settings, &error),
            SubmitError::Kind { .. } => Self::of(Exit::Refused, &error).hint("`--on local` runs it on this machine"),
            SubmitError::InPlace { .. } => Self::of(Exit::Settings, &error).hint("`--on local` runs it here"),
            SubmitError::Refused { .. } => Self::of(Exit::Refused, &error),
            SubmitError::Transfer(error) => error.into(),
            SubmitError::SharedFolder { .. } => {
                Self::of(Exit::Settings, &error).hint("take `in-place` out, or give one seed")
            }
        }
    }
}

impl From<PipeError> for CommandError {
    fn from(error: PipeError) -> Self {
        match &error {
            PipeError::Host(host) => Self::of(Exit::Unreachable, &error).hint(host.hint()),
            PipeError::Dropped | PipeError::TimedOut => {
                Self::of(Exit::Unreachable, &error).hint("it is safe to try again")
            }
            PipeError::Refused(_) => Self::of(Exit::Refused, &error),
            PipeError::Ray(RayError::Denied(_)) => Self::of(Exit::Refused, &error)
                .hint("name its token as `token` of the target, such as `{ file = \"…\" }`"),
            PipeError::Ray(RayError::Web(_)) => Self::of(Exit::Unreachable, &error),
            PipeError::Ray(RayError::Token(_)) => Self::of(Exit::Settings, &error),
            PipeError::Ray(_) => Self::of(Exit::Refused, &error),
        }
    }
}

impl From<TransferError> for CommandError {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Pipe(error) => error.into(),
            TransferError::Full { .. } => Self::of(Exit::Refused, &error).hint("`yard clean` frees space there"),
            TransferError::Changed { .. } => Self::of(Exit::Settings, &error).hint("run again when it is written"),
            TransferError::Damaged { .. } => Self::of(Exit::Settings, &error).hint("do the same again"),
            TransferError::Read { .. } | TransferError::Write { .. } => Self::of(Exit::Settings, &error),
        }
    }
}

impl From<ImageError> for CommandError {
    fn from(error: ImageError) -> Self {
        let told = Self::of(Exit::Settings, &error);
        match &error {
            ImageError::Keep { .. } => told.hint("free some space, or set `YARD_HOME` to a folder with more"),
            ImageError::Convert { .. } | ImageError::Profile { .. } => told,
        }
    }
}

impl From<ReadError> for CommandError {
    fn from(error: ReadError) -> Self {
        Self::of(Exit::Settings, &error)
    }
}

impl From<FetchError> for CommandError {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::Pipe(error) => error.into(),
            FetchError::Keep { .. } => Self::of(Exit::Settings, &error),
        }
    }
}

impl From<ExportError> for CommandError {
    fn from(error: ExportError) -> Self {
        Self::of(Exit::Settings, &error)
    }
}

impl From<CallError> for CommandError {
    fn from(error: CallError) -> Self {
        Self::of(Exit::Settings, &error).hint("what was submitted is in the ledger and will be taken up")
    }
}

impl From<YardmasterError> for CommandError {
    fn from(error: YardmasterError) -> Self {
        Self::of(Exit::Settings, &error)
    }
}

impl From<std::io::Error> for CommandError {
    fn from(error: std::io::Error) -> Self {
        Self::of(Exit::Settings, &error)
    }
}
