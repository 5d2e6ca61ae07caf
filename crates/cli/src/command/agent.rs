//! `yard agent …`: this program at the site. Not for people.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use trainyard_agent::depot::Depot;
use trainyard_agent::reclaim::{self, Wish};
use trainyard_agent::{inspect, look, ray};
use trainyard_core::id::RunId;
use trainyard_core::spec::JobSpec;

use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::report::Printer;

/// Works beside the job
#[derive(Debug, Args)]
pub(crate) struct Agent {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Executes one order after another from standard input
    Lane,
    /// Takes the runs of one allocation through their attempts
    Parcel {
        #[arg(long)]
        depot: PathBuf,
        #[arg(long)]
        parcel: String,
        #[arg(long)]
        group: u32,
    },
    /// Runs a program as one of several processes of a run
    #[command(name = "task")]
    OneOfSeveral {
        #[arg(long)]
        step: PathBuf,
        #[arg(last = true)]
        argv: Vec<OsString>,
    },
    /// Runs a program as the first process of its container
    Inside {
        #[arg(long)]
        step: PathBuf,
        #[arg(last = true)]
        argv: Vec<OsString>,
    },
    /// Says what lies in the folders of runs; questions on standard input
    Look {
        #[arg(long)]
        depot: PathBuf,
    },
    /// Finds out what an attempt came to that no scheduler knows; its job on standard input
    Settle {
        #[arg(long)]
        depot: PathBuf,
        #[arg(long)]
        run: RunId,
        #[arg(long)]
        attempt: u32,
    },
    /// Says what of a depot can go, or removes it; what is known elsewhere on standard input
    Reclaim {
        #[arg(long)]
        depot: PathBuf,
        /// Remove it
        #[arg(long)]
        now: bool,
    },
    /// Says what the machine it runs on is like, seen from a depot
    Inspect {
        #[arg(long)]
        depot: PathBuf,
        /// A file in the working folder that is handed back
        #[arg(long)]
        proof: Option<PathBuf>,
    },
    /// Answers requests about a depot on standard input and output
    Serve {
        #[arg(long)]
        depot: PathBuf,
        /// What to say first
        #[arg(long, default_value = "yard")]
        marker: String,
    },
    /// Takes up what came with a Ray job
    Ray {
        #[arg(long)]
        depot: PathBuf,
        /// Its name in the depot
        #[arg(long)]
        agent: String,
        /// The group of the parcel that came
        #[arg(long, conflicts_with_all = ["answer", "keep"], required_unless_present_any = ["answer", "gang", "keep"])]
        group: Option<u32>,
        /// The parcel whose groups start together
        #[arg(long, conflicts_with_all = ["answer", "group"])]
        gang: Option<String>,
        /// The name of the answer to the request that came
        #[arg(long)]
        answer: Option<String>,
        /// The name of the job that is to keep sweeps going
        #[arg(long, conflicts_with = "answer")]
        keep: Option<String>,
    },
    /// Fails unless this very program has the hash
    Verify { hash: String },
}

impl Agent {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        match self.task {
            Task::Lane => trainyard_agent::lane::serve()?,
            Task::Parcel { depot, parcel, group } => {
                let code = trainyard_agent::allocation::serve(&Depot::new(depot), &parcel, group)?;
                return Ok(Exit::Job(u8::try_from(code).unwrap_or(1)));
            }
            Task::OneOfSeveral { step, argv } => {
                let code = trainyard_agent::task::run(&step, &argv)?;
                return Ok(Exit::Job(u8::try_from(code).unwrap_or(1)));
            }
            Task::Inside { step, argv } => {
                let code = trainyard_agent::inside::run(&step, &argv)?;
                return Ok(Exit::Job(u8::try_from(code).unwrap_or(1)));
            }
            Task::Look { depot } => {
                let (depot, questions) = (Depot::new(depot), input::<Vec<look::Question>>()?);
                answer(
                    context.printer,
                    &questions.iter().map(|question| look::look(&depot, question)).collect::<Vec<_>>(),
                )?;
            }
            Task::Settle { depot, run, attempt } => {
                answer(context.printer, &look::settle(&Depot::new(depot), run, attempt, &input::<JobSpec>()?)?)?;
            }
            Task::Reclaim { depot, now } => {
                let (depot, wish) = (Depot::new(depot), input::<Wish>()?);
                answer(
                    context.printer,
                    &if now { reclaim::carry_out(&depot, &wish)? } else { reclaim::plan(&depot, &wish)? },
                )?;
            }
            Task::Inspect { depot, proof } => {
                answer(context.printer, &inspect::inspect(&Depot::new(depot), proof.as_deref()))?;
            }
            Task::Serve { depot, marker } => trainyard_agent::pipe::serve::serve(&depot, &marker)?,
            Task::Ray { depot, agent, group, gang, answer, keep } => {
                let (place, depot) = (depot.to_string_lossy().into_owned(), Depot::new(depot));
                let code = match (answer, keep, gang) {
                    (Some(name), ..) => ray::answer(&depot, &agent, &name)?,
                    (None, Some(job), _) => {
                        ray::become_other(&depot, &agent, &["controller", "keep", "--depot", &place, "--job", &job])?
                    }
                    (None, None, Some(parcel)) => ray::lead(&depot, &agent, &parcel)?,
                    (None, None, None) => ray::begin(&depot, &agent, group.unwrap_or(0))?,
                };
                return Ok(Exit::Job(u8::try_from(code).unwrap_or(1)));
            }
            Task::Verify { hash } => {
                if !trainyard_agent::pipe::serve::is_program(&hash)? {
                    return Err(CommandError::new(Exit::Refused, "this program is not the one that was sent"));
                }
            }
        }
        Ok(Exit::Done)
    }
}

pub(super) fn input<T: serde::de::DeserializeOwned>() -> Result<T, CommandError> {
    let wrong = |error: serde_json::Error| CommandError::new(Exit::Fault, format!("standard input: {error}"));
    serde_json::from_reader(std::io::stdin().lock()).map_err(wrong)
}

/// For the yard at the other end, not for people.
pub(super) fn answer(printer: Printer, value: &impl serde::Serialize) -> Result<(), CommandError> {
    let text = serde_json::to_vec(value).map_err(|error| CommandError::new(Exit::Fault, error.to_string()))?;
    printer.bytes(&text);
    Ok(())
}
