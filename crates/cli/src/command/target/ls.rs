//! `yard target ls`

use clap::Args;
use serde_json::{Value, json};
use trainyard_agent::disk::now;
use trainyard_core::spec::{TargetKind, TargetSpec};
use trainyard_engine::ledger::SiteRow;
use trainyard_engine::site::{Known, depot_of};

use super::{gpus, host, summary};
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style, ago, rfc3339, table};

/// List targets, when each was last heard and what is known about it
#[derive(Debug, Args)]
pub(crate) struct Ls {}

impl Ls {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let loaded = context.anywhere()?;
        // Looking makes no ledger.
        let heard = if context.home.ledger().exists() { context.ledger()?.sites()? } else { Vec::new() };
        let row = |target: &TargetSpec| Row {
            known: Known::recall(&context.home.site(&target.name), target),
            heard: heard.iter().find(|site| site.name == target.name).cloned(),
            depot: match target.kind {
                TargetKind::Local(_) => {
                    target.depot.clone().unwrap_or_else(|| context.home.depot().root().display().to_string())
                }
                _ => depot_of(target),
            },
            target: target.clone(),
        };
        context.printer.report(&Targets(loaded.config.targets.values().map(row).collect()));
        Ok(Exit::Done)
    }
}

struct Targets(Vec<Row>);

struct Row {
    target: TargetSpec,
    depot: String,
    known: Option<Known>,
    heard: Option<SiteRow>,
}

impl Row {
    fn is_here(&self) -> bool {
        matches!(self.target.kind, TargetKind::Local(_))
    }

    fn seen(&self) -> Option<trainyard_core::time::Instant> {
        let known = self.known.as_ref().map(|known| known.at);
        self.heard.as_ref().and_then(|heard| heard.seen).into_iter().chain(known).max()
    }

    /// What was heard since then has put it right.
    fn problem(&self) -> Option<&str> {
        let (problem, since) = self.heard.as_ref()?.problem.as_ref()?;
        self.seen().is_none_or(|seen| seen < *since).then_some(problem)
    }

    fn heard(&self) -> String {
        match (self.is_here(), self.problem(), self.seen()) {
            (true, ..) => "here".to_owned(),
            (_, Some(problem), _) => problem.to_owned(),
            (_, _, Some(seen)) => ago(seen, now()),
            _ => "never".to_owned(),
        }
    }

    fn known(&self) -> String {
        let facts = self.known.as_ref().and_then(|known| known.facts.as_ref());
        match (facts, self.is_here(), self.seen()) {
            (Some(facts), ..) => summary(facts),
            (None, false, None) => format!("`yard target check {}` finds out", self.target.name),
            _ => String::new(),
        }
    }

    fn json(&self) -> Value {
        let facts = self.known.as_ref().and_then(|known| known.facts.as_ref());
        let names = facts.and_then(|facts| facts.partitions.known());
        json!({
            "name": self.target.name,
            "kind": self.target.kind.name(),
            "host": host(&self.target),
            "depot": self.depot,
            "heard": self.seen().map(rfc3339),
            "problem": self.problem(),
            "known": facts.map(|facts| json!({
                "slurm": facts.version.known(),
                "partitions": names.map(|all| all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>()),
                "gpus": gpus(facts),
            })),
        })
    }
}

impl Report for Targets {
    fn json(&self) -> Value {
        json!({ "targets": self.0.iter().map(Row::json).collect::<Vec<_>>() })
    }

    fn text(&self, style: Style) -> String {
        let row = |row: &Row| {
            vec![
                style.bold(&row.target.name),
                row.target.kind.name().to_owned(),
                host(&row.target).unwrap_or("this machine").to_owned(),
                row.depot.clone(),
                if row.problem().is_some() { style.red(&row.heard()) } else { row.heard() },
                style.dim(&row.known()),
            ]
        };
        table(&["NAME", "KIND", "HOST", "DEPOT", "HEARD", "KNOWN"], self.0.iter().map(row).collect())
    }
}
