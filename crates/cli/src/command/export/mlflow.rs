//! `yard export mlflow` and `yard export tensorboard --mlflow`: to and from a tracking server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use trainyard_core::template::plain;
use trainyard_engine::ledger::{Ledger, RunRow};
use trainyard_engine::results;
use trainyard_engine::sweep::Overview;
use trainyard_engine::tracking::{
    Artifact, Exporter, Mlflow, MlflowSettings, Point, RunStatus, TrackedRun, TrackingError, tensorboard,
};

use crate::command::curves::{Charted, load};
use crate::context::Context;
use crate::env;
use crate::error::{CommandError, Exit};
use crate::interrupt;
use crate::report::{Report, Style, plural};

/// A server is not asked more often than this while runs go on.
const PAUSE: Duration = Duration::from_secs(5);

/// Runs or sweeps to an MLflow server: parameters, tags and every point, each exactly once
#[derive(Debug, Args)]
pub(crate) struct ToMlflow {
    /// Runs by name or id, jobs, or sweeps
    #[arg(required = true)]
    runs: Vec<String>,

    /// The server's address; `MLFLOW_TRACKING_URI` when not given
    #[arg(long, value_name = "ADDRESS")]
    uri: Option<String>,

    /// The experiment to put them into; it is made if there is none
    #[arg(long, value_name = "NAME", default_value = "trainyard")]
    experiment: String,

    /// Go on until the runs have ended
    #[arg(long, short)]
    watch: bool,

    /// Outputs, too, of runs on this machine
    #[arg(long)]
    artifacts: bool,
}

pub(super) fn server(uri: Option<&str>) -> Result<Mlflow, CommandError> {
    let settings = MlflowSettings::from_environment(uri, None, env::secret)
        .map_err(|error| CommandError::new(Exit::Settings, error.to_string()))?;
    Ok(Mlflow::new(&settings)?)
}

impl ToMlflow {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let mut exporter = Exporter::new(server(self.uri.as_deref())?, &self.experiment)?;
        let ledger = context.ledger()?;
        context.rouse(&ledger)?;
        interrupt::count();
        let mut sum = Sum::default();
        loop {
            let going_on = self.pass(context, &ledger, &mut exporter, &mut sum)?;
            if !going_on || !self.watch || interrupt::take() > 0 {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        context.printer.report(&sum);
        Ok(Exit::Done)
    }

    /// Brings everything up to date once; true while something goes on.
    fn pass(
        &self,
        context: &Context,
        ledger: &Ledger,
        exporter: &mut Exporter,
        sum: &mut Sum,
    ) -> Result<bool, CommandError> {
        let mut going_on = false;
        let mut tracked = Vec::new();
        for word in &self.runs {
            match ledger.find_sweep(word)? {
                Some(row) => {
                    let overview = Overview::of(ledger, row)?;
                    going_on |= !overview.row.state.has_ended();
                    tracked.push(of_sweep(&overview));
                    for run in overview.runs.iter().flatten() {
                        let Some(row) = ledger.run(*run)? else { continue };
                        tracked.extend(self.of_runs(context, ledger, vec![row], Some(sweep_id(&overview)))?);
                    }
                }
                None => {
                    let rows = context.resolve(ledger, std::slice::from_ref(word))?;
                    tracked.extend(self.of_runs(context, ledger, rows, None)?);
                }
            }
        }
        going_on |= tracked.iter().any(|run| matches!(run.status, RunStatus::Running | RunStatus::Scheduled));
        sum.runs = tracked.len();
        for run in &tracked {
            let done = exporter.export(run)?;
            sum.points += done.points;
            sum.requests += done.requests;
            sum.artifacts += done.artifacts;
        }
        Ok(going_on)
    }

    fn of_runs(
        &self,
        context: &Context,
        ledger: &Ledger,
        rows: Vec<RunRow>,
        parent: Option<String>,
    ) -> Result<Vec<TrackedRun>, CommandError> {
        let charted = load(context, ledger, rows)?;
        charted.iter().map(|run| self.of_run(run, parent.clone())).collect()
    }

    fn of_run(&self, run: &Charted, parent: Option<String>) -> Result<TrackedRun, CommandError> {
        let row = &run.row;
        let mut params: BTreeMap<String, String> =
            row.params.iter().map(|(name, value)| (name.clone(), plain(value))).collect();
        params.extend(row.seed.map(|seed| ("seed".to_owned(), seed.to_string())));
        let series = |name: &str| {
            let points = run.curves.get(name).into_iter().flat_map(|series| series.iter());
            let points = points.map(|point| Point {
                step: point.step,
                time: (point.wall_time * 1000.0) as i64,
                value: point.value,
            });
            (name.to_owned(), points.collect())
        };
        let artifacts = if self.artifacts { artifacts(run)? } else { Vec::new() };
        Ok(TrackedRun {
            id: row.id.to_string(),
            name: row.name.clone(),
            parent,
            params,
            tags: tags(run),
            status: status(&row.state),
            started: row.started.unwrap_or(row.created).0,
            ended: row.ended.map(|at| at.0),
            metrics: run.curves.names().into_iter().map(series).collect(),
            artifacts,
        })
    }
}

fn tags(run: &Charted) -> BTreeMap<String, String> {
    let row = &run.row;
    let mut tags: BTreeMap<String, String> = [("job", &row.job), ("target", &row.target), ("state", &row.state)]
        .map(|(name, value)| (format!("trainyard.{name}"), value.clone()))
        .into();
    let commit = run.batch.provenance.as_ref().and_then(|provenance| provenance.commit.clone());
    tags.extend(commit.map(|commit| ("mlflow.source.git.commit".to_owned(), commit)));
    tags
}

fn artifacts(run: &Charted) -> Result<Vec<Artifact>, CommandError> {
    if run.batch.site.is_some() {
        return Ok(Vec::new());
    }
    let files = results::files(&run.batch.depot, run.row.id, &run.batch.job.outputs)?;
    Ok(files.into_iter().map(|(name, path)| Artifact { name, path }).collect())
}

fn status(state: &str) -> RunStatus {
    match state {
        "succeeded" => RunStatus::Finished,
        "failed" => RunStatus::Failed,
        "cancelled" => RunStatus::Killed,
        "queued" | "waiting" | "starting" => RunStatus::Scheduled,
        _ => RunStatus::Running,
    }
}

fn sweep_id(overview: &Overview) -> String {
    format!("sweep {} of {}", overview.row.id, overview.row.created.0)
}

/// The run that those of a sweep lie below.
fn of_sweep(overview: &Overview) -> TrackedRun {
    let row = &overview.row;
    let tags = [("metric", row.spec.metric.clone()), ("state", row.state.word().to_owned())];
    let best = overview.sweep.standing().into_iter().next();
    let params = best.map(|best| overview.params_of(best.trial)).unwrap_or_default();
    let best = params.iter().map(|(name, value)| (format!("trainyard.best.{name}"), plain(value)));
    TrackedRun {
        id: sweep_id(overview),
        name: row.name.clone(),
        parent: None,
        params: BTreeMap::new(),
        tags: tags.into_iter().map(|(name, value)| (format!("trainyard.{name}"), value)).chain(best).collect(),
        status: if row.ended.is_some() { RunStatus::Finished } else { RunStatus::Running },
        started: row.created.0,
        ended: row.ended.map(|at| at.0),
        metrics: Vec::new(),
        artifacts: Vec::new(),
    }
}

#[derive(Default)]
struct Sum {
    runs: usize,
    points: usize,
    requests: usize,
    artifacts: usize,
}

impl Report for Sum {
    fn json(&self) -> Value {
        json!({ "runs": self.runs, "points": self.points, "requests": self.requests, "artifacts": self.artifacts })
    }

    fn text(&self, _: Style) -> String {
        format!(
            "{}: {} sent in {}\n",
            plural(self.runs, "run"),
            plural(self.points, "point"),
            plural(self.requests, "request")
        )
    }
}

/// All runs of a server's experiment as event files.
pub(super) fn from_mlflow(context: &Context, uri: &str, experiment: &str, folder: &Path) -> Result<Exit, CommandError> {
    let mlflow = server(Some(uri))?;
    let missing = || TrackingError::NoExperiment { name: experiment.to_owned(), server: mlflow.address() };
    let found = mlflow.experiment(experiment)?.ok_or_else(missing)?;
    let written = tensorboard::write(&mlflow, &found, folder, &|_, _| {})?;
    for path in &written.foreign {
        context.printer.say(&format!("{} was made by something else, and was left as it is", path.display()));
    }
    for (run, error) in &written.failed {
        context.printer.say(&format!("run {run}: {error}"));
    }
    let failed = written.failed.len();
    context.printer.report(&Brought {
        folder: folder.to_owned(),
        written: written.written,
        unchanged: written.unchanged,
        failed,
    });
    Ok(if failed == 0 { Exit::Done } else { Exit::RunFailed })
}

struct Brought {
    folder: PathBuf,
    written: Vec<PathBuf>,
    unchanged: usize,
    failed: usize,
}

impl Report for Brought {
    fn json(&self) -> Value {
        json!({ "folder": self.folder, "written": self.written, "unchanged": self.unchanged, "failed": self.failed })
    }

    fn text(&self, _: Style) -> String {
        format!(
            "{} written below {}, {} as they were\n",
            plural(self.written.len(), "run"),
            self.folder.display(),
            self.unchanged
        )
    }
}
