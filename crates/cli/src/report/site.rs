//! Sites that do not answer: what is shown of their runs is from before.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use trainyard_engine::ledger::{RunRow, SiteRow};

use super::{rfc3339, time_of_day};

/// Those of these that open runs are at and that do not answer.
pub(crate) fn silent<'a>(sites: &'a [SiteRow], rows: &'a [RunRow]) -> impl Iterator<Item = &'a SiteRow> {
    let has_open = |site: &&SiteRow| rows.iter().any(|row| row.ended.is_none() && row.target == site.name);
    sites.iter().filter(|site| site.problem.is_some()).filter(has_open)
}

/// `euler has not answered since 14:02 (no route); states are as of then`
pub(crate) fn silence(site: &SiteRow) -> Option<String> {
    let (problem, since) = site.problem.as_ref()?;
    let name = &site.name;
    Some(match site.seen {
        Some(seen) => {
            format!(
                "{name} has not answered since {} ({problem}); states are as of then",
                time_of_day(seen.min(*since))
            )
        }
        None => format!("{name} has not answered yet, since {} ({problem})", time_of_day(*since)),
    })
}

pub(crate) fn site_json(site: &SiteRow) -> Value {
    let problem = site.problem.as_ref();
    json!({
        "name": site.name,
        "seen": site.seen.map(rfc3339),
        "problem": problem.map(|(problem, _)| problem),
        "since": problem.map(|(_, since)| rfc3339(*since)),
    })
}

/// Says once when a site falls silent, and once when it answers again.
#[derive(Debug, Default)]
pub(crate) struct Silences {
    told: BTreeSet<String>,
}

impl Silences {
    /// What is to be said now.
    pub(crate) fn news(&mut self, sites: &[SiteRow], rows: &[RunRow]) -> Vec<String> {
        let now: BTreeSet<String> = silent(sites, rows).map(|site| site.name.clone()).collect();
        let new = sites.iter().filter(|site| now.contains(&site.name) && !self.told.contains(&site.name));
        let mut news: Vec<String> = new.filter_map(silence).collect();
        let back = |name: &&String| sites.iter().any(|site| site.name == **name && site.problem.is_none());
        news.extend(self.told.iter().filter(back).map(|name| format!("{name} answers again")));
        self.told = now;
        news
    }
}
