//! `yard sweep best`: the winner, ready to run.

use clap::Args;
use serde_json::{Value, json};
use trainyard_core::plan::arguments::{ArgumentError, added};
use trainyard_core::quote::posix_line;
use trainyard_core::search::Scored;
use trainyard_core::spec::{JobSpec, set_param};
use trainyard_core::value::Params;
use trainyard_engine::sweep::Overview;

use super::find_row;
use super::show::{score_json, score_text};
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style};

#[derive(Debug, Args)]
pub(super) struct Best {
    /// The sweep by name or number
    name: String,

    /// Only the arguments, as a shell would need them: the program's, or `yard run`'s where it gets its parameters another way
    #[arg(long)]
    args: bool,
}

impl Best {
    pub(super) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let ledger = context.ledger()?;
        let overview = Overview::of(&ledger, find_row(context, &ledger, &self.name)?)?;
        let Some(best) = overview.sweep.standing().into_iter().next() else {
            return Err(CommandError::new(Exit::RunFailed, format!("no trial of `{}` has a result yet", self.name)));
        };
        let job = ledger.batch(*overview.row.batches.first().unwrap_or(&0))?.job;
        let params = overview.params_of(best.trial);
        let failed = |error: &dyn std::error::Error| CommandError::new(Exit::RunFailed, error.to_string());
        let words = words(&job, &params).map_err(|error| failed(&error))?;
        if self.args {
            let line = posix_line(words.list()).map_err(|error| failed(&error))?;
            context.printer.bytes(format!("{line}\n").as_bytes());
            return Ok(Exit::Done);
        }
        context.printer.report(&Winner { overview: &overview, best, params, words, job: &job.name });
        Ok(Exit::Done)
    }
}

/// How the parameters are given by hand.
enum Words {
    /// To the program.
    Program(Vec<String>),
    /// To `yard run`.
    Yard(Vec<String>),
}

impl Words {
    fn list(&self) -> &[String] {
        match self {
            Self::Program(words) | Self::Yard(words) => words,
        }
    }

    fn command(&self, job: &str) -> Vec<String> {
        let (between, words) = match self {
            Self::Program(words) => (Some("--"), words),
            Self::Yard(words) => (None, words),
        };
        let head = ["yard", "run", job].into_iter().chain(between);
        head.map(str::to_owned).chain(words.iter().cloned()).collect()
    }
}

fn words(job: &JobSpec, params: &Params) -> Result<Words, ArgumentError> {
    if let Some(words) = added(job, params)? {
        return Ok(Words::Program(words));
    }
    let sets = params.iter().filter_map(|(name, value)| set_param(&job.name, name, value));
    Ok(Words::Yard(sets.flat_map(|set| ["--set".to_owned(), set]).collect()))
}

struct Winner<'a> {
    overview: &'a Overview,
    best: Scored,
    params: Params,
    words: Words,
    job: &'a str,
}

impl Report for Winner<'_> {
    fn json(&self) -> Value {
        json!({
            "sweep": self.overview.row.name,
            "trial": self.best.trial,
            "score": score_json(&self.best.score),
            "params": self.params,
            "args": self.words.list(),
            "command": self.words.command(self.job),
        })
    }

    fn text(&self, style: Style) -> String {
        let metric = &self.overview.row.spec.metric;
        let command = self.words.command(self.job);
        let line = posix_line(&command).unwrap_or_else(|_| format!("{command:?}"));
        format!(
            "{}  {metric} = {}\n{}  {line}\n",
            style.bold(&format!("trial {}", self.best.trial)),
            score_text(&self.best.score),
            style.bold("run it again"),
        )
    }
}
