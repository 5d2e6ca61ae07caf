//! `yard ps`: what is going on.

use std::time::Duration;

use clap::Args;
use serde_json::Value;
use trainyard_agent::disk::now;
use trainyard_core::time::Instant;
use trainyard_engine::ledger::{Filter, Ledger, Recent, RunRow, SiteRow};

use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::interrupt;
use crate::report::{
    Report, RunTable, Style, ago, drop_empty_columns, metric_text, note, silence, silent, site_json, table, why,
};

/// List runs: what is open, and what ended last
#[derive(Debug, Args)]
pub(crate) struct Ps {
    /// All runs there ever were
    #[arg(long, short)]
    all: bool,

    /// One line for each run instead of one for each submission; filters and `--all` do the same
    #[arg(long, short = 'l')]
    long: bool,

    /// Only runs of this job
    #[arg(long)]
    job: Option<String>,

    /// Only runs on this target
    #[arg(long = "on", value_name = "TARGET")]
    target: Option<String>,

    /// Only runs in this state
    #[arg(long, value_parser = ["queued", "starting", "waiting", "running", "cancelling", "succeeded", "failed", "cancelled"])]
    state: Option<String>,

    /// Show it again and again
    #[arg(long, short)]
    watch: bool,
}

impl Ps {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        context.refuse_elsewhere(self.watch, "--watch")?;
        let ledger = context.ledger()?;
        let mut caller = context.rouse(&ledger)?;
        if !self.watch {
            self.print(context, &ledger)?;
            return Ok(Exit::Done);
        }
        interrupt::count();
        while interrupt::take() == 0 {
            if context.printer.is_watched() {
                context.printer.bytes(b"\x1b[H\x1b[2J");
            }
            self.print(context, &ledger)?;
            std::thread::sleep(Duration::from_millis(200));
            let told = caller.as_mut().map_or(Ok(()), |caller| caller.wait(Duration::from_secs(2)));
            if told.is_err() || caller.is_none() {
                caller = context.rouse(&ledger)?;
            }
        }
        Ok(Exit::Interrupted)
    }

    fn print(&self, context: &Context, ledger: &Ledger) -> Result<(), CommandError> {
        let (printer, now) = (context.printer, now());
        if !printer.is_json()
            && !self.long
            && !self.all
            && self.job.is_none()
            && self.target.is_none()
            && self.state.is_none()
        {
            let groups = Groups::recent(ledger, now)?;
            printer.report(&groups);
            tell_silence(context, &ledger.sites()?, &ledger.open_rows()?);
            return Ok(());
        }
        let rows = ledger.runs(&Filter {
            recent: if self.all { Recent::All } else { Recent::Short },
            job: self.job.clone(),
            target: self.target.clone(),
            state: self.state.clone(),
            batch: None,
            tie: None,
        })?;
        let ids = if printer.is_json() {
            Vec::new()
        } else {
            rows.iter().map(|row| short_id(ledger, row)).collect::<Result<_, _>>()?
        };
        let sites = ledger.sites()?;
        printer.report(&Listing { table: RunTable { rows: &rows, now, ids }, sites: &sites });
        tell_silence(context, &sites, &rows);
        Ok(())
    }
}

/// What is shown of these runs is not of now.
fn tell_silence(context: &Context, sites: &[SiteRow], rows: &[RunRow]) {
    if !context.printer.is_json() {
        silent(sites, rows).filter_map(silence).for_each(|line| context.printer.say(&line));
    }
}

/// Runs, and how the sites they are at were last heard.
struct Listing<'a> {
    table: RunTable<'a>,
    sites: &'a [SiteRow],
}

impl Report for Listing<'_> {
    fn json(&self) -> Value {
        let mut value = self.table.json();
        let is_shown = |site: &&SiteRow| self.table.rows.iter().any(|row| row.target == site.name);
        if let Some(fields) = value.as_object_mut() {
            fields.insert("sites".to_owned(), self.sites.iter().filter(is_shown).map(site_json).collect());
        }
        value
    }

    fn text(&self, style: Style) -> String {
        self.table.text(style)
    }
}

/// The shortest prefix that is this run's alone.
fn short_id(ledger: &Ledger, row: &RunRow) -> Result<String, CommandError> {
    let digits = ledger.unique_digits(row.id)?.max(8);
    Ok(row.id.0.simple().to_string().chars().take(digits).collect())
}

/// Runs of one submission on one line.
struct Groups {
    lines: Vec<Group>,
    now: Instant,
}

struct Group {
    id: String,
    first: RunRow,
    seeds: Option<(u64, u64)>,
    /// The sweep they are trials of.
    sweep: Option<String>,
    /// The group they are runs of: what it is tied by, and its name.
    tie: Option<(String, String)>,
    tally: Vec<(String, i64)>,
}

impl Groups {
    fn recent(ledger: &Ledger, now: Instant) -> Result<Self, CommandError> {
        let mut lines = Vec::new();
        for batch in ledger.recent_batches()? {
            if let Some(first) = ledger.first_of(batch)? {
                let (seeds, tally) = (ledger.seeds_of(batch)?, ledger.tally(batch)?);
                let sweep = ledger.leg_of(first.id)?.map(|(sweep, _)| ledger.sweep(sweep)).transpose()?.flatten();
                let sweep = sweep.map(|row| row.name);
                let group =
                    Group { id: short_id(ledger, &first)?, first, seeds, sweep, tie: ledger.group_of(batch)?, tally };
                match lines.iter_mut().rev().find(|line: &&mut Group| line.tie.is_some() && line.tie == group.tie) {
                    Some(line) => line.add(&group),
                    None => lines.push(group),
                }
            }
        }
        Ok(Self { lines, now })
    }
}

impl Group {
    /// Another job of the same group.
    fn add(&mut self, other: &Self) {
        for (state, count) in &other.tally {
            match self.tally.iter_mut().find(|(known, _)| known == state) {
                Some((_, sum)) => *sum += count,
                None => self.tally.push((state.clone(), *count)),
            }
        }
        self.tally.sort();
        if note(&self.first).is_none() {
            self.first.note = other.first.note.clone().filter(|_| self.first.ended.is_none());
        }
    }

    fn count(&self) -> i64 {
        self.tally.iter().map(|(_, count)| count).sum()
    }

    /// Without the seed when there are several.
    fn name(&self) -> &str {
        if let Some(name) = self.sweep.as_ref().or(self.tie.as_ref().map(|(_, name)| name)) {
            return name;
        }
        let whole = self.first.name.as_str();
        if self.count() == 1 { whole } else { whole.rsplit_once("-s").map_or(whole, |(name, _)| name) }
    }

    /// `1-4`; with gaps `1…9`.
    fn seeds(&self) -> String {
        match self.seeds {
            // Seeds of a sweep say nothing about it.
            Some((least, greatest)) if self.count() > 1 && self.sweep.is_none() && self.tie.is_none() => {
                let whole = greatest
                    .checked_sub(least)
                    .is_some_and(|span| i64::try_from(span).is_ok_and(|span| span + 1 == self.count()));
                if whole { format!("{least}-{greatest}") } else { format!("{least}…{greatest}") }
            }
            _ => String::new(),
        }
    }

    /// Of a single run whose job says which of its numbers counts; several have no number in common.
    fn metric(&self) -> String {
        let is_named = self.count() == 1 && self.first.headline.is_some();
        if is_named { metric_text(&self.first) } else { String::new() }
    }

    fn state(&self) -> String {
        match &self.tally[..] {
            [(state, 1)] => state.clone(),
            tally => tally.iter().map(|(state, count)| format!("{count} {state}")).collect::<Vec<_>>().join(", "),
        }
    }

    /// The state that says most about a group: bad news first, then what still goes on.
    fn leading(&self) -> &'static str {
        let order = ["failed", "running", "starting", "waiting", "queued", "cancelling", "cancelled"];
        let has = |state: &&&str| self.tally.iter().any(|(word, _)| word == **state);
        order.iter().find(has).copied().unwrap_or("succeeded")
    }
}

impl Report for Groups {
    fn json(&self) -> Value {
        Value::Null
    }

    fn text(&self, style: Style) -> String {
        if self.lines.is_empty() {
            return "no runs; `yard run JOB` starts one\n".to_owned();
        }
        let cells = |group: &Group| {
            let first = &group.first;
            let reason = if group.count() == 1 { why(first) } else { note(first) };
            let reason = reason.unwrap_or_default().to_owned();
            let state = style.state(group.leading(), &group.state());
            vec![
                style.dim(&group.id),
                group.name().to_owned(),
                first.target.clone(),
                group.seeds(),
                state,
                ago(first.created, self.now),
                group.metric(),
                reason,
            ]
        };
        let mut header = vec!["ID", "NAME", "TARGET", "SEEDS", "STATE", "CREATED", "METRIC", "REASON"];
        let mut rows: Vec<Vec<String>> = self.lines.iter().map(cells).collect();
        drop_empty_columns(&mut header, &mut rows);
        table(&header, rows)
    }
}
