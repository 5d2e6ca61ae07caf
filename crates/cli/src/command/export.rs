//! `yard export`: curves for other programs.

mod mlflow;

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use trainyard_engine::curves::{export_tensorboard, write_csv};

use super::curves::{Charted, load, metric};
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style, plural};

/// Write metrics of runs for other programs
#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(subcommand)]
    form: Form,
}

#[derive(Debug, Subcommand)]
enum Form {
    /// A table with a line for each point: run, seed, metric, step, time, value
    Csv {
        /// Runs by name or id, or a job for all runs of its newest submission
        #[arg(required = true)]
        runs: Vec<String>,

        /// Only this metric; may be given several times
        #[arg(long, short, value_name = "NAME")]
        metric: Vec<String>,

        /// The file to write; standard output when not given
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// A folder of event files for each run, with its parameters; written again, it is brought up to date
    Tensorboard {
        /// Runs by name or id, or a job for all runs of its newest submission; then the folder
        #[arg(required = true, num_args = 1.., value_name = "RUN… DIR")]
        runs_and_folder: Vec<String>,

        /// Only this metric; may be given several times
        #[arg(long, short, value_name = "NAME")]
        metric: Vec<String>,

        /// Runs of this MLflow server instead; only the folder is named then
        #[arg(long, value_name = "ADDRESS", requires = "experiment", conflicts_with = "metric")]
        mlflow: Option<String>,

        /// The server's experiment
        #[arg(long, value_name = "NAME", requires = "mlflow")]
        experiment: Option<String>,
    },
    Mlflow(mlflow::ToMlflow),
}

impl Export {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        match self.form {
            Form::Csv { runs, metric, to } => {
                let runs = charted(context, &runs, &metric)?;
                match to {
                    None => to_output(context, &runs, &metric),
                    Some(to) => to_file(context, &runs, &metric, &context.folder.join(to))?,
                }
            }
            Form::Mlflow(export) => return export.run(context),
            Form::Tensorboard { mut runs_and_folder, metric, mlflow, experiment } => {
                let folder = runs_and_folder.pop().unwrap_or_default();
                if let Some((uri, experiment)) = mlflow.zip(experiment) {
                    no_runs(&runs_and_folder)?;
                    return mlflow::from_mlflow(context, &uri, &experiment, &context.folder.join(folder));
                }
                if runs_and_folder.is_empty() {
                    return Err(CommandError::new(Exit::Usage, "name the runs, and then the folder to write to"));
                }
                let runs = charted(context, &runs_and_folder, &metric)?;
                let folder = context.folder.join(folder);
                let mut done = Done { to: folder.clone(), folders: Vec::new(), points: 0 };
                for run in &runs {
                    let (folder, points) = export_tensorboard(&folder, &run.row, &run.curves, &names(run, &metric))?;
                    done.folders.push(folder);
                    done.points += points;
                }
                context.printer.report(&done);
            }
        }
        Ok(Exit::Done)
    }
}

fn no_runs(words: &[String]) -> Result<(), CommandError> {
    let message = "with `--mlflow` all runs of the experiment are written; name only the folder";
    if words.is_empty() { Ok(()) } else { Err(CommandError::new(Exit::Usage, message)) }
}

/// Every metric that was named is in one of them at least.
fn charted(context: &Context, words: &[String], metrics: &[String]) -> Result<Vec<Charted>, CommandError> {
    let ledger = context.ledger()?;
    context.rouse(&ledger)?;
    let rows = context.resolve(&ledger, words)?;
    let runs = load(context, &ledger, rows)?;
    for name in metrics {
        metric(&runs, Some(name))?;
    }
    metric(&runs, None)?;
    Ok(runs)
}

fn names<'a>(run: &'a Charted, wanted: &[String]) -> Vec<&'a str> {
    let all = run.curves.names().into_iter();
    all.filter(|name| wanted.is_empty() || wanted.iter().any(|one| one == name)).collect()
}

const HEADER: &[u8] = b"run,seed,metric,step,time,value\n";

fn to_output(context: &Context, runs: &[Charted], metrics: &[String]) {
    context.printer.bytes(HEADER);
    for run in runs {
        for name in names(run, metrics) {
            let mut text = Vec::new();
            // Memory takes everything.
            drop(write_csv(&mut text, &run.row, &run.curves, &[name]));
            context.printer.bytes(&text);
        }
    }
}

/// The file is there whole or as it was.
fn to_file(context: &Context, runs: &[Charted], metrics: &[String], to: &Path) -> Result<(), CommandError> {
    let beside = to.with_file_name(format!(".yard-export-{}.part", std::process::id()));
    let write = || {
        let mut file = BufWriter::new(fs_err::File::create(&beside)?);
        file.write_all(HEADER)?;
        let mut points = 0;
        for run in runs {
            points += write_csv(&mut file, &run.row, &run.curves, &names(run, metrics))?;
        }
        file.flush()?;
        fs_err::rename(&beside, to)?;
        Ok::<u64, std::io::Error>(points)
    };
    let points = write().inspect_err(|_| drop(std::fs::remove_file(&beside)))?;
    context.printer.report(&Done { to: to.to_owned(), folders: Vec::new(), points });
    Ok(())
}

struct Done {
    to: PathBuf,
    folders: Vec<PathBuf>,
    points: u64,
}

impl Report for Done {
    fn json(&self) -> Value {
        json!({ "to": self.to, "folders": self.folders, "points": self.points })
    }

    fn text(&self, _: Style) -> String {
        let points = plural(usize::try_from(self.points).unwrap_or(usize::MAX), "point");
        match self.folders.len() {
            0 => format!("{points} → {}\n", self.to.display()),
            count => format!("{}, {points} → {}\n", plural(count, "run"), self.to.display()),
        }
    }
}
