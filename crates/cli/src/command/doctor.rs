//! `yard doctor`: is everything in order?

use clap::Args;
use serde_json::{Value, json};
use trainyard_core::spec::{TargetKind, TargetSpec};
use trainyard_engine::doctor::{Finding, Health, examine};

use trainyard_engine::target::{Declared, capacity};

use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style, table};

/// Look whether everything is in order; exit 3 if something is not
#[derive(Debug, Args)]
pub(crate) struct Doctor {}

impl Doctor {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let (files, local) = files(context);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut findings = vec![files];
        findings.extend(examine(&context.home, &runtime.block_on(capacity(&local))));
        let exit = if findings.iter().any(|found| found.health == Health::Bad) { Exit::Settings } else { Exit::Done };
        context.printer.report(&Findings(findings));
        Ok(exit)
    }
}

/// The project's and the user's files, and what they declare about this machine.
fn files(context: &Context) -> (Finding, Declared) {
    let found = |health, detail: String| Finding { what: "files", health, detail };
    let (loaded, detail) = match context.project() {
        Ok(project) => (project.loaded, format!("{} is fine", project.folder.join("trainyard.toml").display())),
        Err(error) => match context.load(None) {
            Ok(loaded) if error.hints.iter().any(|hint| hint.contains("init")) => {
                (loaded, "no project here".to_owned())
            }
            _ => return (found(Health::Bad, error.chain.join(": ")), Declared::default()),
        },
    };
    let local = match loaded.config.targets.get(TargetSpec::LOCAL).map(|target| &target.kind) {
        Some(TargetKind::Local(limits)) => Declared::of(limits),
        _ => Declared::default(),
    };
    (found(Health::Good, detail), local)
}

struct Findings(Vec<Finding>);

fn word(health: Health) -> &'static str {
    match health {
        Health::Good => "ok",
        Health::Remark => "note",
        Health::Bad => "bad",
    }
}

impl Report for Findings {
    fn json(&self) -> Value {
        let one = |found: &Finding| json!({ "what": found.what, "health": word(found.health), "detail": found.detail });
        json!({ "findings": self.0.iter().map(one).collect::<Vec<_>>() })
    }

    fn text(&self, style: Style) -> String {
        let paint = |health| match health {
            Health::Good => style.state("succeeded", "ok"),
            Health::Remark => style.state("starting", "note"),
            Health::Bad => style.red("bad"),
        };
        let row = |found: &Finding| vec![paint(found.health), found.what.to_owned(), found.detail.clone()];
        table(&["", "", ""], self.0.iter().map(row).collect()).trim_start_matches('\n').to_owned()
    }
}
