//! `yard image ls`

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value, json};
use trainyard_agent::depot::ImageName;
use trainyard_agent::disk::now;
use trainyard_core::spec::{TargetKind, TargetSpec, round_size};
use trainyard_core::time::Instant;
use trainyard_engine::images::{Kept, kept};

use crate::command::run::no_target;
use crate::context::Context;
use crate::errand::Errand;
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style, ago, rfc3339, table};

/// List converted images, here or at a target, and which open runs use them
#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Those that lie at this target
    #[arg(long = "on", value_name = "TARGET")]
    target: Option<String>,
}

impl Ls {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let folder = context.home.images();
        let here = kept(&folder);
        let mut rows = match &self.target {
            None => here.iter().map(|kept| Row::here(kept, &folder)).collect(),
            Some(name) => {
                let loaded = context.anywhere()?;
                let targets = &loaded.config.targets;
                let target = targets.get(name).ok_or_else(|| no_target(targets.keys(), name))?;
                match target.kind {
                    TargetKind::Local(_) => here.iter().map(|kept| Row::here(kept, &folder)).collect(),
                    _ => there(context, target, &here)?,
                }
            }
        };
        let users = users(context)?;
        rows.iter_mut().for_each(|row| row.users = users.get(&row.path).cloned().unwrap_or_default());
        rows.sort_by_key(|row| std::cmp::Reverse(row.at));
        context.printer.report(&Images(rows));
        Ok(Exit::Done)
    }
}

fn there(context: &Context, target: &TargetSpec, here: &[Kept]) -> Result<Vec<Row>, CommandError> {
    let mut errand = Errand::new(context, target);
    let pipe = errand.pipe()?;
    let folder = format!("{}/images", pipe.depot());
    let listed = pipe.list("images")?;
    let row = |listed: &trainyard_engine::pipe::Listed| {
        let name = ImageName::parse(&listed.path)?;
        let known = here.iter().find(|kept| kept.name == name);
        Some(Row {
            profile: known.map(|kept| kept.profile.clone()),
            from: known.map(|kept| kept.from.clone()),
            digest: name.digest().to_owned(),
            bytes: listed.size,
            at: Instant(listed.modified / 1_000_000),
            path: format!("{folder}/{name}"),
            users: Vec::new(),
        })
    };
    Ok(listed.iter().filter_map(row).collect())
}

/// Open runs, by the path of their image.
fn users(context: &Context) -> Result<BTreeMap<String, Vec<String>>, CommandError> {
    let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
    if !context.home.ledger().exists() {
        return Ok(users);
    }
    let ledger = context.ledger()?;
    for row in ledger.open_rows()? {
        if let Some(container) = ledger.batch(row.batch)?.job.around.container {
            users.entry(container.image).or_default().push(row.name);
        }
    }
    Ok(users)
}

struct Row {
    profile: Option<String>,
    from: Option<String>,
    digest: String,
    bytes: u64,
    at: Instant,
    path: String,
    users: Vec<String>,
}

impl Row {
    fn here(kept: &Kept, folder: &std::path::Path) -> Self {
        Self {
            profile: Some(kept.profile.clone()),
            from: Some(kept.from.clone()),
            digest: kept.name.digest().to_owned(),
            bytes: kept.size,
            at: kept.made,
            path: kept.path(folder).to_string_lossy().into_owned(),
            users: Vec::new(),
        }
    }
}

struct Images(Vec<Row>);

impl Report for Images {
    fn json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "image": row.profile,
                "from": row.from,
                "digest": row.digest,
                "bytes": row.bytes,
                "at": rfc3339(row.at),
                "path": row.path,
                "open_runs": row.users,
            })
        };
        json!({ "images": self.0.iter().map(row).collect::<Vec<_>>() })
    }

    fn text(&self, _: Style) -> String {
        if self.0.is_empty() {
            return "no images\n".to_owned();
        }
        let now = now();
        let cells = |row: &Row| {
            vec![
                row.profile.clone().unwrap_or_else(|| "-".to_owned()),
                row.digest.get(..12).unwrap_or_default().to_owned(),
                round_size(row.bytes),
                ago(row.at, now),
                row.from.clone().unwrap_or_default(),
                row.users.join(", "),
            ]
        };
        table(&["IMAGE", "DIGEST", "SIZE", "MADE", "FROM", "OPEN RUNS"], self.0.iter().map(cells).collect())
    }
}
