//! What `yard run --dry-run` prints.

use serde_json::{Value, json};
use trainyard_agent::snapshot::{Entry, Kind, decode};
use trainyard_core::quote::posix_line;
use trainyard_core::spec::{GroupSpec, Start, format_duration, format_size};
use trainyard_engine::site::depot_of;
use trainyard_engine::snapshot::Snapshot;
use trainyard_engine::submit::{self, Destination, Plan};

use super::MOST_LINES;
use crate::report::{Report, Style, plural};

/// One job, or those of a group in their order.
pub(super) struct DryRuns<'a> {
    pub(super) group: Option<&'a GroupSpec>,
    pub(super) plans: Vec<DryRun<'a>>,
}

impl Report for DryRuns<'_> {
    fn json(&self) -> Value {
        match (self.group, &self.plans[..]) {
            (None, [plan]) => plan.json(),
            (group, plans) => json!({
                "dry_run": true,
                "group": group.map(|group| &group.name),
                "start": group.map(|group| group.start),
                "plans": plans.iter().map(DryRun::json).collect::<Vec<_>>(),
            }),
        }
    }

    fn text(&self, style: Style) -> String {
        let mut lines = Vec::new();
        if let Some(group) = self.group {
            lines.push(format!("{}  {}, {}", style.bold("group  "), group.name, when(group)));
        }
        for plan in &self.plans {
            if self.group.is_some() {
                lines.push(String::new());
                lines.push(format!("{}  {}", style.bold("job    "), plan.plan.job.name));
            }
            lines.extend(plan.lines(style));
        }
        lines.push("nothing was sent".to_owned());
        lines.join("\n") + "\n"
    }
}

fn when(group: &GroupSpec) -> &'static str {
    match group.start {
        Start::WhenFree => "each starts when there is room for it",
        Start::InOrder => "each starts when the one before it has succeeded",
        Start::Together => "all start when there is room for all of them",
    }
}

/// Of one job.
pub(super) struct DryRun<'a> {
    pub(super) plan: &'a Plan,
    /// Batch scripts, and the files whose contents a site would get.
    pub(super) scripts: Vec<String>,
    pub(super) snapshot: Option<Snapshot>,
}

impl DryRun<'_> {
    fn depot(&self) -> String {
        match &self.plan.destination {
            Destination::Here { depot, .. } => depot.root().display().to_string(),
            Destination::Site(site) => depot_of(&site.target),
        }
    }

    fn files(&self) -> Vec<(String, u64)> {
        let entries = self.snapshot.iter().flat_map(|snapshot| &snapshot.manifest.entries);
        let file = |entry: &Entry| match entry.kind {
            Kind::File { size, .. } => Some((decode(&entry.path).display().to_string(), size)),
            Kind::Folder | Kind::Link { .. } => None,
        };
        entries.filter_map(file).collect()
    }
}

impl DryRun<'_> {
    fn json(&self) -> Value {
        let plan = self.plan;
        let run = |run: &submit::PlannedRun| json!({ "name": run.name, "seed": run.seed, "argv": run.call.argv, "env": run.call.env });
        let file = |(path, bytes): &(String, u64)| json!({ "path": path, "bytes": bytes });
        json!({
            "dry_run": true,
            "target": plan.target,
            "project": plan.project,
            "depot": self.depot(),
            "job": plan.job,
            "runs": plan.runs.iter().map(run).collect::<Vec<_>>(),
            "scripts": self.scripts,
            "files": self.files().iter().map(file).collect::<Vec<_>>(),
        })
    }

    fn lines(&self, style: Style) -> Vec<String> {
        let plan = self.plan;
        let job = &plan.job;
        let mut lines = vec![
            format!("{}  {}", style.bold("target "), plan.target),
            format!("{}  {}", style.bold("project"), plan.project.display()),
            format!("{}  {}", style.bold("depot  "), self.depot()),
        ];
        let memory = job.memory.map(|bytes| format!(", {}", format_size(bytes))).unwrap_or_default();
        let time = job.time.map(|time| format!(", {} at most", format_duration(time))).unwrap_or_default();
        let share = match job.per_node {
            Some(runs) => format!("1/{runs} of a node"),
            None => format!("{} CPU, {} GPU", job.cpus, job.gpus),
        };
        let node = job.node.as_ref().map(|node| format!(", on `{node}`")).unwrap_or_default();
        lines.push(format!("{}  {share}{memory}{time}{node}", style.bold("each   ")));
        for run in &plan.runs {
            let call = posix_line(&run.call.argv).unwrap_or_else(|_| format!("{:?}", run.call.argv));
            lines.push(format!("{}  {call}", style.bold(&run.name)));
        }
        lines.extend(self.sent(style));
        lines
    }
}

impl DryRun<'_> {
    /// What a site would get.
    fn sent(&self, style: Style) -> Vec<String> {
        let Some(snapshot) = &self.snapshot else { return Vec::new() };
        let files = self.files();
        let total = format!("{}, {}", plural(files.len(), "file"), format_size(snapshot.bytes));
        let mut lines = vec![format!("{}  {total}, less what is there already", style.bold("files  "))];
        lines.extend(files.iter().take(MOST_LINES).map(|(path, bytes)| format!("  {path}  {}", format_size(*bytes))));
        if let Some(more) = files.len().checked_sub(MOST_LINES).filter(|more| *more > 0) {
            lines.push(format!("  and {more} more"));
        }
        if let Some(script) = self.scripts.first() {
            let others = match self.scripts.len() {
                1 => String::new(),
                count => format!(" (the first of {count}, which are alike)"),
            };
            lines.push(format!("{}{others}", style.bold("script")));
            lines.extend(script.lines().map(|line| format!("  {line}")));
        }
        lines
    }
}
