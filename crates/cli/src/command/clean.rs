//! `yard clean`: give disk space back.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use clap::Args;
use serde_json::{Value, json};
use trainyard_agent::disk::now;
use trainyard_agent::reclaim::Item;
use trainyard_core::spec::{TargetKind, TargetSpec, format_size, parse_duration};
use trainyard_core::time::Span;
use trainyard_engine::ledger::{Filter, Ledger, Recent, RunRow};
use trainyard_engine::reclaim::{self, AtSite, Plan, ReclaimError};

use crate::context::Context;
use crate::errand::Pipes;
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style, plural};

/// Remove ended runs, their folders, and code and images that no run needs any more; shows the plan first
#[derive(Debug, Args)]
pub(crate) struct Clean {
    /// Runs by name, id, or job; otherwise all that ended long enough ago
    runs: Vec<String>,

    /// Only at this target; otherwise here, and at every site that can be reached without asking you anything
    #[arg(long = "on", value_name = "TARGET")]
    target: Option<String>,

    /// How long ago is long enough
    #[arg(long, value_name = "TIME", default_value = "7d", conflicts_with = "runs")]
    older: String,

    /// Do it without asking
    #[arg(long, short)]
    yes: bool,

    /// Only show the plan
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

impl Clean {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let mut ledger = context.ledger()?;
        let (here, there) = self.sorted(context, &ledger)?;
        let mut pipes = Pipes::new(context);
        let mut whole = Whole::default();
        if self.target.as_ref().is_none_or(|name| name == LOCAL) {
            whole.here = reclaim::plan(&ledger, &context.home.depot(), &context.home.images(), here)?;
        }
        for (target, runs) in there {
            let is_meant = self.target.is_some() || !self.runs.is_empty();
            let pipe = if is_meant { pipes.to(&target) } else { pipes.quietly_to(&target) };
            let planned = pipe.and_then(|pipe| Ok(reclaim::plan_at(pipe, &ledger, &context.home.images(), runs)?));
            match planned {
                Ok(plan) => whole.sites.push((target, plan)),
                Err(error) if is_meant => return Err(error),
                Err(error) => whole.skipped.push((target.name, error.chain.join(": "))),
            }
        }
        whole.skipped.iter().for_each(|(name, why)| context.printer.say(&format!("{name} is left alone: {why}")));
        whole.done = !whole.is_empty() && self.agreed(context, &whole);
        if whole.done {
            reclaim::carry_out(&whole.here, &mut ledger)?;
            for (target, plan) in &mut whole.sites {
                reclaim::carry_out_at(pipes.to(target)?, plan, &mut ledger)?;
            }
            for row in whole.runs() {
                // What was fetched of its metrics; most runs have nothing there.
                drop(std::fs::remove_dir_all(context.home.curves().join(row.id.to_string())));
            }
        }
        if context.printer.is_json() || !context.printer.can_ask() || self.yes || whole.is_empty() {
            context.printer.report(&whole);
        }
        Ok(Exit::Done)
    }

    /// Candidates on this machine, and those at each site that is to be looked at.
    fn sorted(&self, context: &Context, ledger: &Ledger) -> Result<(Vec<RunRow>, There), CommandError> {
        let wanted = |name: &str| self.target.as_ref().is_none_or(|target| target == name);
        let mut there: There = Vec::new();
        if self.runs.is_empty() {
            let known = ledger.targets()?.into_iter().filter(|target| wanted(&target.name));
            there.extend(known.map(|target| (target, Vec::new())));
            if let (Some(name), true) = (&self.target, there.is_empty()) {
                there.extend(in_files(context, name)?.map(|target| (target, Vec::new())));
            }
        }
        let (mut here, mut sites) = (Vec::new(), HashMap::new());
        for row in self.candidates(context, ledger)?.into_iter().filter(|row| wanted(&row.target)) {
            let site = match sites.entry(row.batch) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(ledger.batch(row.batch)?.site.map(|site| site.target)),
            };
            let Some(target) = site else {
                here.push(row);
                continue;
            };
            let same = |known: &TargetSpec| known.name == target.name && known.depot == target.depot;
            match there.iter_mut().find(|(known, _)| same(known)) {
                Some((_, rows)) => rows.push(row),
                None => there.push((target.clone(), vec![row])),
            }
        }
        Ok((here, there))
    }

    fn candidates(&self, context: &Context, ledger: &Ledger) -> Result<Vec<RunRow>, CommandError> {
        if !self.runs.is_empty() {
            let rows = context.resolve(ledger, &self.runs)?;
            if let Some(open) = rows.iter().find(|row| row.ended.is_none()) {
                let error = CommandError::new(Exit::Usage, format!("{} has not ended ({})", open.name, open.state));
                return Err(error.hint(format!("`yard cancel {}` ends it", open.name)));
            }
            return Ok(rows);
        }
        let age: Span =
            parse_duration(&self.older).map_err(|error| CommandError::new(Exit::Usage, format!("--older: {error}")))?;
        let rows = ledger.runs(&Filter { recent: Recent::All, ..Filter::default() })?;
        let now = now();
        Ok(rows.into_iter().filter(|row| row.ended.is_some_and(|ended| now.since(ended) >= age)).collect())
    }

    fn agreed(&self, context: &Context, whole: &Whole) -> bool {
        let printer = context.printer;
        if self.yes || self.dry_run || !printer.can_ask() {
            return self.yes;
        }
        printer.report(whole);
        printer.ask("remove all this? [y/N]").starts_with('y')
    }
}

type There = Vec<(TargetSpec, Vec<RunRow>)>;

/// The name of the target that is this machine.
const LOCAL: &str = "local";

/// A site that no run of the ledger went to, by what the files say.
fn in_files(context: &Context, name: &str) -> Result<Option<TargetSpec>, CommandError> {
    let loaded = match context.project() {
        Ok(project) => project.loaded,
        Err(_) => context.load(None)?,
    };
    let Some(target) = loaded.config.targets.get(name) else {
        return Err(CommandError::new(Exit::Settings, format!("no target `{name}`")));
    };
    Ok(Some(target.clone()).filter(|target| !matches!(target.kind, TargetKind::Local(_))))
}

impl From<ReclaimError> for CommandError {
    fn from(error: ReclaimError) -> Self {
        match error {
            ReclaimError::Ledger(error) => error.into(),
            ReclaimError::Io(error) => error.into(),
            ReclaimError::Pipe(error) => error.into(),
        }
    }
}

/// Here and at all sites.
#[derive(Default)]
struct Whole {
    here: Plan,
    sites: Vec<(TargetSpec, AtSite)>,
    /// Sites that could not be asked, and why.
    skipped: Vec<(String, String)>,
    done: bool,
}

impl Whole {
    fn is_empty(&self) -> bool {
        self.here.is_empty() && self.sites.iter().all(|(_, plan)| plan.is_empty())
    }

    fn runs(&self) -> impl Iterator<Item = &RunRow> {
        self.here.runs.iter().chain(self.sites.iter().flat_map(|(_, plan)| &plan.runs))
    }

    fn line(&self, place: &str, items: usize, bytes: u64) -> String {
        let verb = if self.done { "removed" } else { "would remove" };
        format!("{verb} {}, {}{place}\n", plural(items, "item"), format_size(bytes))
    }
}

fn site_json((target, plan): &(TargetSpec, AtSite)) -> Value {
    let file = |item: &Item| json!({ "what": item.what, "path": item.path, "bytes": item.bytes });
    json!({
        "name": target.name,
        "depot": plan.depot,
        "files": plan.found.items.iter().map(file).collect::<Vec<_>>(),
        "bytes": plan.bytes(),
        "at_work": plan.found.at_work,
    })
}

impl Report for Whole {
    fn json(&self) -> Value {
        let file = |(path, size): &(std::path::PathBuf, u64)| json!({ "path": path, "bytes": size });
        let skipped = |(name, why): &(String, String)| json!({ "name": name, "why": why });
        json!({
            "removed": self.done,
            "runs": self.runs().map(|row| json!({ "id": row.id, "name": row.name })).collect::<Vec<_>>(),
            "files": self.here.files.iter().map(file).collect::<Vec<_>>(),
            "bytes": self.here.bytes(),
            "sites": self.sites.iter().map(site_json).collect::<Vec<_>>(),
            "skipped": self.skipped.iter().map(skipped).collect::<Vec<_>>(),
        })
    }

    fn text(&self, _: Style) -> String {
        if self.is_empty() {
            return "nothing to remove\n".to_owned();
        }
        let names: Vec<&str> = self.runs().map(|row| row.name.as_str()).collect();
        let (shown, more) = names.split_at(names.len().min(10));
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        let verb = if self.done { "removed" } else { "would remove" };
        let mut text = String::new();
        if !names.is_empty() {
            text.push_str(&format!("{verb} {}: {}{more}\n", plural(names.len(), "run"), shown.join(", ")));
        }
        if !self.here.is_empty() || self.sites.is_empty() {
            text.push_str(&self.line("", self.here.files.len(), self.here.bytes()));
        }
        for (target, plan) in &self.sites {
            text.push_str(&self.line(&format!(" at {}", target.name), plan.found.items.len(), plan.bytes()));
            if plan.found.blind {
                text.push_str(&format!(
                    "{}: something there was sent by another version of yard, so code is left alone\n",
                    target.name
                ));
            }
        }
        if !self.done {
            text.push_str("`--yes` does it\n");
        }
        text
    }
}
