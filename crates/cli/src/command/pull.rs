//! `yard pull`: results home.

use std::path::PathBuf;
use std::time::{Duration, Instant as Clock};

use clap::Args;
use serde_json::{Value, json};
use trainyard_agent::order::Source;
use trainyard_core::id::RunId;
use trainyard_core::spec::{TargetSpec, format_size};
use trainyard_engine::ledger::{Batch, Ledger, RunRow};
use trainyard_engine::results::{Pulled, pull};
use trainyard_engine::snapshot::RESULTS_FOLDER;
use trainyard_engine::transfer::{self, Progress, TransferError};

use crate::context::Context;
use crate::errand::Pipes;
use crate::error::{CommandError, Exit};
use crate::report::{Bar, Report, Style, plural};

/// Copy what runs have made to the project, or elsewhere
#[derive(Debug, Args)]
pub(crate) struct Pull {
    /// Runs by name, id, or job
    #[arg(required = true)]
    runs: Vec<String>,

    /// The folder that gets one folder per run; `yard-results` in the project when not given
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,

    /// Go on until the runs have ended
    #[arg(long, short)]
    watch: bool,
}

impl Pull {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        context.refuse_elsewhere(self.watch, "--watch")?;
        let ledger = context.ledger()?;
        let mut brought = Vec::new();
        for row in context.resolve(&ledger, &self.runs)? {
            let batch = ledger.batch(row.batch)?;
            if let Source::InPlace(folder) = &batch.source {
                context.printer.say(&format!("{} ran in place: its results are in {}", row.name, folder.display()));
                continue;
            }
            if batch.job.outputs.is_empty() {
                context.printer.say(&format!("job `{}` declares no `outputs`", row.job));
            }
            let base =
                self.to.as_ref().map_or_else(|| batch.project.join(RESULTS_FOLDER), |to| context.folder.join(to));
            let to = base.join(folder_name(&row));
            brought.push(Brought { row, batch, to, pulled: Pulled::default() });
        }
        let mut pipes = Pipes::new(context);
        if self.watch {
            watch(context, &ledger, &mut pipes, &mut brought)?;
        } else {
            for one in &mut brought {
                one.pull(context, &mut pipes)?;
            }
        }
        let missing = brought.iter().any(|one| one.row.state == "succeeded" && !one.pulled.missing.is_empty());
        context.printer.report(&Pulls(brought));
        Ok(if missing { Exit::RunFailed } else { Exit::Done })
    }
}

/// Between two looks at what a run has made.
const AGAIN: Duration = Duration::from_secs(2);
/// A listing costs a cluster's file server something.
const AGAIN_AT_SITE: Duration = Duration::from_secs(10);

/// Pulls again and again until the runs have ended. Ctrl-C ends it at any time: what was cut goes on the next time.
fn watch(
    context: &Context,
    ledger: &Ledger,
    pipes: &mut Pipes<'_>,
    brought: &mut [Brought],
) -> Result<(), CommandError> {
    let mut caller = context.rouse(ledger)?;
    let mut lost = false;
    loop {
        let mut open = false;
        for one in brought.iter_mut() {
            // Asked before pulling: what was made before the end is then brought for certain.
            if let Some(row) = ledger.run(one.row.id)? {
                one.row = row;
            }
            let before = (one.pulled.files, one.pulled.bytes);
            match one.pull(context, pipes) {
                Err(error) if error.exit == Exit::Unreachable => {
                    if !lost {
                        context.printer.say(&format!("{}; trying again", error.chain.join(": ")));
                    }
                    lost = true;
                    open = true;
                }
                other => {
                    other?;
                    lost = false;
                    open |= one.row.ended.is_none();
                }
            }
            if before != (one.pulled.files, one.pulled.bytes) {
                let (files, bytes) = (one.pulled.files - before.0, one.pulled.bytes - before.1);
                let came = format!("{}, {}", plural(files, "file"), format_size(bytes));
                context.printer.say(&format!("{}: {came}", one.row.name));
            }
        }
        if !open {
            return Ok(());
        }
        let at_site = brought.iter().any(|one| one.batch.site.is_some());
        let until = Clock::now() + if at_site { AGAIN_AT_SITE } else { AGAIN };
        while Clock::now() < until && !has_moved(ledger, brought)? {
            let told = caller.as_mut().map_or(Ok(()), |caller| caller.wait(Duration::from_millis(200)));
            if caller.is_none() {
                std::thread::sleep(Duration::from_millis(200));
            }
            if told.is_err() || caller.is_none() {
                caller = context.rouse(ledger)?;
            }
        }
    }
}

/// Whether one of them has ended since the last look.
fn has_moved(ledger: &Ledger, brought: &[Brought]) -> Result<bool, CommandError> {
    let open: Vec<RunId> = brought.iter().filter(|one| one.row.ended.is_none()).map(|one| one.row.id).collect();
    Ok(ledger.still_open(&open)?.len() < open.len())
}

/// The readable name, and enough of the id that no other run's results are ever written over.
fn folder_name(row: &RunRow) -> String {
    let digits: String = row.id.0.simple().to_string().chars().take(16).collect();
    format!("{}-{digits}", row.name)
}

/// A run and what has come home of it.
struct Brought {
    row: RunRow,
    batch: Batch,
    to: PathBuf,
    pulled: Pulled,
}

/// A connection that breaks is made anew this often; what arrived is not sent again.
const TRIES: usize = 5;

impl Brought {
    fn pull(&mut self, context: &Context, pipes: &mut Pipes<'_>) -> Result<(), CommandError> {
        let failed = |error: std::io::Error| {
            CommandError::new(Exit::Settings, format!("cannot pull {}: {error}", self.row.name))
        };
        let outputs = &self.batch.job.outputs;
        let new = match &self.batch.site {
            None => pull(&self.batch.depot, self.row.id, outputs, &self.to).map_err(failed)?,
            Some(site) => self.pull_from(context, pipes, &site.target.clone())?,
        };
        let Pulled { files, bytes, .. } = self.pulled;
        self.pulled = Pulled { files: files + new.files, bytes: bytes + new.bytes, ..new };
        Ok(())
    }

    fn pull_from(&self, context: &Context, pipes: &mut Pipes<'_>, target: &TargetSpec) -> Result<Pulled, CommandError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let pipe = pipes.to(target)?;
            let mut bar = Bar::new(context.printer, &format!("pulling {}", self.row.name));
            let mut show = |progress: Progress| bar.show(progress.bytes, progress.of);
            let pulled = transfer::pull_outputs(pipe, self.row.id, &self.batch.job.outputs, &self.to, &mut show);
            drop(bar);
            match pulled {
                Ok(pulled) => {
                    for path in &pulled.refused {
                        context.printer.say(&format!("`{path}` leads out of the folder and was left"));
                    }
                    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
                    let (files, unchanged) = (count(pulled.files), count(pulled.unchanged));
                    return Ok(Pulled { files, bytes: pulled.bytes, unchanged, missing: pulled.missing });
                }
                Err(error) => {
                    pipes.close(target);
                    if tries == TRIES || !matches!(&error, TransferError::Pipe(error) if error.is_broken()) {
                        return Err(error.into());
                    }
                }
            }
        }
    }
}

struct Pulls(Vec<Brought>);

fn one_json(one: &Brought) -> Value {
    let Brought { row, to, pulled, .. } = one;
    json!({
        "id": row.id,
        "name": row.name,
        "to": to,
        "files": pulled.files,
        "bytes": pulled.bytes,
        "unchanged": pulled.unchanged,
        "missing": pulled.missing,
    })
}

fn one_text(one: &Brought) -> String {
    let Brought { row, to, pulled, .. } = one;
    let same = if pulled.unchanged > 0 { format!(", {} unchanged", pulled.unchanged) } else { String::new() };
    let missing = if pulled.missing.is_empty() { String::new() } else { format!(", no {}", pulled.missing.join(", ")) };
    let (files, size) = (plural(pulled.files, "file"), format_size(pulled.bytes));
    format!("{}  {files}, {size}{same}{missing} → {}\n", row.name, to.display())
}

impl Report for Pulls {
    fn json(&self) -> Value {
        json!({ "pulled": self.0.iter().map(one_json).collect::<Vec<_>>() })
    }

    fn text(&self, _: Style) -> String {
        self.0.iter().map(one_text).collect()
    }
}
