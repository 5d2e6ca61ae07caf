//! Logs of runs as they grow, wherever they lie: on this machine, or at a site behind one connection for all of its runs.

mod site;

use std::collections::HashMap;

use trainyard_agent::depot::Depot;
use trainyard_agent::tail::{self, From, Portion, Start, Wanted};
use trainyard_core::id::RunId;
use trainyard_core::spec::TargetSpec;
use trainyard_engine::ledger::{Ledger, RunRow};
use trainyard_engine::pipe::Pipe;
use trainyard_engine::site::Reach;

use crate::context::Context;
use crate::errand::connect;
use crate::error::CommandError;
use site::SiteLogs;

/// What a look brought.
#[derive(Debug, Default)]
pub(crate) struct Look {
    pub(crate) portions: Vec<Portion>,
    /// Of a run that has ended, or when only what is there was asked for: nothing more will come.
    pub(crate) is_all: bool,
    /// The rest could not be had.
    pub(crate) is_cut: bool,
    /// What a person should know about the connection, once.
    pub(crate) talk: Option<String>,
}

/// Brings what runs have written. Does not make its caller wait for a site.
trait LogSource {
    /// What is new of a run, as the ledger knows it now.
    fn look(&mut self, row: &RunRow) -> Result<Look, CommandError>;
}

/// How long a reader stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// What is there now.
    Now,
    /// Until the runs have ended; a connection that breaks is made anew.
    Ended,
}

/// Which part of a run's log.
#[derive(Debug, Clone, Default)]
pub(crate) struct Part {
    pub(crate) only: Option<u32>,
    pub(crate) start: Start,
}

impl Part {
    fn of(&self, row: &RunRow) -> Wanted {
        let from = From::Start(self.start.clone());
        Wanted { run: row.id, only: self.only, newest: row.attempt, from }
    }
}

/// The logs of some runs.
pub(crate) struct Logs {
    here: Here,
    sites: Vec<SiteLogs>,
    whose: HashMap<RunId, usize>,
}

impl Logs {
    /// Connects to the sites of the runs, asking the person what `ssh` wants to know.
    pub(crate) fn open(
        context: &Context,
        ledger: &Ledger,
        rows: &[RunRow],
        part: &Part,
        until: Until,
    ) -> Result<Self, CommandError> {
        let mut logs = Self { here: Here::default(), sites: Vec::new(), whose: HashMap::new() };
        let mut there: Vec<(TargetSpec, Vec<Wanted>)> = Vec::new();
        let mut batches = HashMap::new();
        for row in rows {
            let (depot, target) = match batches.get(&row.batch) {
                Some(known) => known,
                None => {
                    let batch = ledger.batch(row.batch)?;
                    batches.entry(row.batch).or_insert((batch.depot, batch.site.map(|site| site.target)))
                }
            };
            let Some(target) = target else {
                logs.here.add(depot.clone(), part.of(row));
                continue;
            };
            let place = there.iter().position(|(known, _)| known == target);
            logs.whose.insert(row.id, place.unwrap_or(there.len()));
            match place.and_then(|place| there.get_mut(place)) {
                Some((_, wanted)) => wanted.push(part.of(row)),
                None => there.push((target.clone(), vec![part.of(row)])),
            }
        }
        for (target, wanted) in there {
            let reach = context.reach()?;
            let pipe = connect(&reach, &target)?;
            logs.sites.push(SiteLogs::start(reach, target, Some(pipe), wanted, until));
        }
        Ok(logs)
    }

    /// The whole log of one run until its end. Without a pipe the connection is made in the background.
    pub(crate) fn of(reach: Reach, ledger: &Ledger, row: &RunRow, pipe: Option<Pipe>) -> Result<Self, CommandError> {
        let batch = ledger.batch(row.batch)?;
        let wanted = Part::default().of(row);
        let mut logs = Self { here: Here::default(), sites: Vec::new(), whose: HashMap::new() };
        match batch.site {
            None => logs.here.add(batch.depot, wanted),
            Some(site) => {
                logs.whose.insert(row.id, 0);
                logs.sites.push(SiteLogs::start(reach, site.target, pipe, vec![wanted], Until::Ended));
            }
        }
        Ok(logs)
    }

    pub(crate) fn look(&mut self, row: &RunRow) -> Result<Look, CommandError> {
        let site = self.whose.get(&row.id).and_then(|place| self.sites.get_mut(*place));
        match site {
            Some(site) => site.look(row),
            None => self.here.look(row),
        }
    }
}

/// Logs on this machine.
#[derive(Default)]
struct Here {
    wanted: HashMap<RunId, (Depot, Wanted)>,
}

/// Of one log at a time; a long one is shown as it is read.
const PORTION: u64 = 16 << 20;

impl Here {
    fn add(&mut self, depot: Depot, wanted: Wanted) {
        self.wanted.insert(wanted.run, (depot, wanted));
    }
}

impl LogSource for Here {
    fn look(&mut self, row: &RunRow) -> Result<Look, CommandError> {
        let Some((depot, wanted)) = self.wanted.get_mut(&row.id) else { return Ok(Look::default()) };
        wanted.newest = row.attempt;
        let reading = tail::read(depot, wanted, PORTION);
        wanted.from = From::At(reading.next);
        Ok(Look { portions: reading.portions, is_all: reading.is_all, is_cut: false, talk: None })
    }
}
