//! `yard diff`: what changed in code and settings between two runs, or since a run.

use std::path::Path;

use clap::Args;
use serde_json::{Value, json};
use trainyard_agent::order::Source;
use trainyard_agent::snapshot::{Kind, Manifest};
use trainyard_core::spec::{Loaded, format_size};
use trainyard_engine::compare::{self, Code, FileChange, Lines, SettingChange};
use trainyard_engine::ledger::{Batch, Ledger, RunRow};
use trainyard_engine::provenance::{Provenance, provenance};
use trainyard_engine::snapshot;

use super::run::rules;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style, plural};

/// Show what changed in code and settings between two runs, or between a run and the project now
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The run by name, id or prefix of the id
    run: String,

    /// Another run; the project as it is now when not given
    other: Option<String>,

    /// Only list the files, with how many lines changed
    #[arg(long)]
    stat: bool,

    /// Exit with 1 if something differs
    #[arg(long)]
    exit_code: bool,
}

/// One of the two that are compared.
struct Side {
    name: String,
    settings: Value,
    /// `None` for a run in the project folder itself: what was there then was not kept.
    code: Option<Code>,
}

impl Diff {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let ledger = context.ledger()?;
        let (row, batch) = one(context, &ledger, &self.run)?;
        let new = match &self.other {
            Some(other) => {
                let (row, batch) = one(context, &ledger, other)?;
                of_run(context, &row, &batch)?
            }
            None => of_now(context, &row, &batch)?,
        };
        let old = of_run(context, &row, &batch)?;
        let files = old.code.as_ref().zip(new.code.as_ref()).map(|(old, new)| compare::code(old, new));
        let settings = compare::settings(&old.settings, &new.settings);
        let report = Differences { old: old.name, new: new.name, settings, files, stat: self.stat };
        let differs = !report.is_same();
        context.printer.report(&report);
        Ok(if self.exit_code && differs { Exit::Different } else { Exit::Done })
    }
}

fn one(context: &Context, ledger: &Ledger, word: &str) -> Result<(RunRow, Batch), CommandError> {
    let mut rows = context.resolve(ledger, &[word.to_owned()])?;
    match (rows.pop(), rows.len()) {
        (Some(row), 0) => {
            let batch = ledger.batch(row.batch)?;
            Ok((row, batch))
        }
        (_, more) => {
            let message = format!("`{word}` means {} runs", more + 1);
            Err(CommandError::new(Exit::Usage, message).hint("name one of them; `yard ps -a` lists all"))
        }
    }
}

fn of_run(context: &Context, row: &RunRow, batch: &Batch) -> Result<Side, CommandError> {
    let mut settings = json!(batch.job);
    add(&mut settings, "params", json!(row.params));
    add(&mut settings, "seed", json!(row.seed));
    add(&mut settings, "target", json!(batch.target));
    add(&mut settings, "extra-arguments", if batch.extra.is_empty() { Value::Null } else { json!(batch.extra) });
    add(&mut settings, "git", git(batch.provenance.as_ref()));
    let code = match &batch.source {
        Source::InPlace(_) => None,
        Source::Snapshot(digest) => {
            // A run elsewhere has its manifest here and its contents there.
            let depots = vec![batch.depot.clone(), context.home.depot()];
            let manifest =
                Manifest::read(&batch.depot, digest).or_else(|_| Manifest::read(&context.home.depot(), digest));
            let manifest = manifest.map_err(|error| {
                CommandError::new(Exit::Settings, format!("the code of {} is not known here: {error}", row.name))
            })?;
            Some(Code::stored(manifest, depots))
        }
    };
    Ok(Side { name: row.name.clone(), settings, code })
}

/// What a run of the same job would be now. Seed, target and further arguments are the command line's to say, so they
/// are taken to be the same.
fn of_now(context: &Context, row: &RunRow, batch: &Batch) -> Result<Side, CommandError> {
    let project = &batch.project;
    let loaded = context.load(Some(project))?;
    let mut settings = loaded.config.jobs.get(&row.job).map_or(Value::Null, |job| json!(job));
    if settings.is_object() {
        add(&mut settings, "seed", json!(row.seed));
        add(&mut settings, "target", json!(batch.target));
        add(&mut settings, "extra-arguments", if batch.extra.is_empty() { Value::Null } else { json!(batch.extra) });
        add(&mut settings, "git", git(provenance(project).as_ref()));
    }
    let code = match &batch.source {
        Source::InPlace(_) => None,
        Source::Snapshot(_) => Some(scan(context, project, &loaded)?),
    };
    Ok(Side { name: "now".to_owned(), settings, code })
}

fn scan(context: &Context, project: &Path, loaded: &Loaded) -> Result<Code, CommandError> {
    let snapshot = snapshot::scan(project, &rules(&loaded.config), &context.home.scan_cache(project))?;
    Ok(Code::scanned(snapshot))
}

fn add(settings: &mut Value, key: &str, value: Value) {
    if let Some(fields) = settings.as_object_mut() {
        fields.insert(key.to_owned(), value);
    }
}

fn git(provenance: Option<&Provenance>) -> Value {
    provenance.map_or(Value::Null, |git| json!({ "commit": git.commit, "branch": git.branch, "changes": git.dirty }))
}

struct Differences {
    old: String,
    new: String,
    settings: Vec<SettingChange>,
    files: Option<Vec<FileChange>>,
    stat: bool,
}

impl Differences {
    fn is_same(&self) -> bool {
        self.settings.is_empty() && self.files.as_ref().is_none_or(Vec::is_empty)
    }
}

impl Report for Differences {
    fn json(&self) -> Value {
        let setting = |change: &SettingChange| json!({ "key": change.key, "old": change.old, "new": change.new });
        let files =
            |files: &Vec<FileChange>| files.iter().map(|change| file_json(change, self.stat)).collect::<Vec<_>>();
        json!({
            "old": self.old,
            "new": self.new,
            "same": self.is_same(),
            "settings": self.settings.iter().map(setting).collect::<Vec<_>>(),
            "files": self.files.as_ref().map(files),
        })
    }

    fn text(&self, style: Style) -> String {
        let mut text = format!("{}\n", style.bold(&format!("{} → {}", self.old, self.new)));
        for change in &self.settings {
            let shown = |value: &Option<Value>| {
                value.as_ref().map_or("not set".to_owned(), |value| visible(&value.to_string()))
            };
            let (old, new) = (shown(&change.old), shown(&change.new));
            text.push_str(&format!("{}  {} → {}\n", change.key, style.red(&old), style.green(&new)));
        }
        let Some(files) = &self.files else {
            return text + "the code is not compared: a run in place keeps no snapshot of it\n";
        };
        if self.is_same() {
            return text + "no differences\n";
        }
        if !files.is_empty() {
            text.push_str(&format!("{}\n", plural(files.len(), "file")));
        }
        for change in files {
            text.push_str(&file_text(change, self.stat, style));
        }
        text
    }
}

fn word(change: &FileChange) -> &'static str {
    match (&change.old, &change.new) {
        (None, _) => "added",
        (_, None) => "removed",
        _ => "changed",
    }
}

fn file_json(change: &FileChange, stat: bool) -> Value {
    let (added, removed, patch) = match &change.lines {
        Lines::Patch { text, added, removed } => (Some(added), Some(removed), Some(text).filter(|_| !stat)),
        Lines::Same | Lines::Binary | Lines::TooLong | Lines::Elsewhere => (None, None, None),
    };
    json!({
        "path": change.path,
        "change": word(change),
        "old": change.old,
        "new": change.new,
        "added_lines": added,
        "removed_lines": removed,
        "patch": patch,
        "note": note(change),
    })
}

/// What is to be said about a file besides its lines.
fn note(change: &FileChange) -> Option<String> {
    let mode = |kind: &Option<Kind>| match kind {
        Some(Kind::File { mode, .. }) => Some(*mode),
        Some(Kind::Folder | Kind::Link { .. }) | None => None,
    };
    let size = |kind: &Option<Kind>| match kind {
        Some(Kind::File { size, .. }) => format_size(*size),
        Some(Kind::Folder | Kind::Link { .. }) | None => "nothing".to_owned(),
    };
    let sizes = || format!("{} → {}", size(&change.old), size(&change.new));
    let modes = mode(&change.old).zip(mode(&change.new)).filter(|(old, new)| old != new);
    let modes = modes.map(|(old, new)| format!("mode {old:03o} → {new:03o}"));
    let content = match &change.lines {
        Lines::Patch { .. } | Lines::Same => None,
        Lines::Binary => Some(format!("binary, {}", sizes())),
        Lines::TooLong => Some(format!("too long to compare, {}", sizes())),
        Lines::Elsewhere => Some(format!("content is at the site, {}", sizes())),
    };
    let folder = [&change.old, &change.new].contains(&&Some(Kind::Folder)).then(|| "empty folder".to_owned());
    let notes: Vec<String> = [content, modes, folder].into_iter().flatten().collect();
    (!notes.is_empty()).then(|| notes.join(", "))
}

fn file_text(change: &FileChange, stat: bool, style: Style) -> String {
    let note = note(change).map(|note| format!("  ({note})")).unwrap_or_default();
    let lines = match &change.lines {
        Lines::Patch { added, removed, .. } if added + removed > 0 => format!("  +{added} -{removed}"),
        _ => String::new(),
    };
    let mut text = format!("{:8}{}{lines}{note}\n", word(change), visible(&change.path));
    if let Lines::Patch { text: patch, .. } = &change.lines
        && !stat
    {
        for line in patch.lines() {
            let line = visible(line);
            let painted = match line.as_bytes().first() {
                Some(b'+') => style.green(&line),
                Some(b'-') => style.red(&line),
                Some(b'@') => style.dim(&line),
                _ => line,
            };
            text.push_str(&format!("{painted}\n"));
        }
    }
    text
}

/// What a terminal would act on is shown as text.
fn visible(text: &str) -> String {
    let is_bad = |letter: char| letter.is_control() && letter != '\t';
    if !text.contains(is_bad) {
        return text.to_owned();
    }
    text.chars()
        .map(|letter| if is_bad(letter) { letter.escape_default().to_string() } else { letter.into() })
        .collect()
}
