//! A plain machine behind `ssh`: its own yardmaster, with a home in the depot, has the queue and the slots. So they live
//! on when nobody is logged in, and all who share the depot stand in one queue.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use trainyard_agent::look::{Fate, Finding, Question};
use trainyard_core::id::RunId;
use trainyard_core::run::State;
use trainyard_core::spec::JobSpec;

use super::{Asked, InQueue, Over, Seen, Shipment, Site};
use crate::pipe::{Pipe, PipeError};
use crate::target::SubmitError;

/// Setup lines may load environments from slow disks.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the queue there says about a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Standing {
    pub finding: Finding,
    /// In plain words, while it waits.
    pub waits: Option<String>,
    /// Its secrets have to be sent again.
    pub wants_secrets: bool,
}

/// What a run waits for after the yardmaster of the machine, which keeps secrets in memory only, was started anew.
pub(crate) const WANTS_SECRETS: &str = "waits for its secrets, which the yard that sent it brings again";

/// How the machine's yardmaster knows a secret that came with a parcel: no two parcels share one, and no variable of a
/// shell has such a name.
pub fn secret_key(parcel: &str, name: &str) -> String {
    format!("{parcel}/{name}")
}

pub(crate) fn is_secret_key(name: &str) -> bool {
    name.contains('/')
}

#[derive(Debug)]
pub struct Machine {
    pipe: Pipe,
}

impl Machine {
    pub fn new(pipe: Pipe) -> Self {
        Self { pipe }
    }

    /// A task of the yard at the site, JSON in, JSON out.
    fn ask<T: DeserializeOwned>(&mut self, task: &[&str], input: &impl Serialize) -> Result<T, PipeError> {
        let home = format!("{}/host", self.pipe.depot());
        let env = BTreeMap::from([("YARD_HOME".to_owned(), home)]);
        self.pipe.call(task, input, &env, PATIENCE)
    }
}

impl Site for Machine {
    fn submit(&mut self, shipment: &Shipment) -> Result<String, SubmitError> {
        let failed = |error: PipeError| match error {
            PipeError::Refused(why) => SubmitError::Refused(why),
            other => SubmitError::Unsure(std::io::Error::other(super::chain(&other))),
        };
        let parcel = &shipment.parcel;
        let text = serde_json::to_vec(parcel).map_err(|error| SubmitError::Refused(error.to_string()))?;
        let path = format!("{}/parcels/{}/parcel.json", self.pipe.depot(), parcel.id);
        self.pipe.write(&[(path, text)]).map_err(failed)?;
        let () = self.ask(&["queue", "add", "--parcel", &parcel.id], &shipment.secrets).map_err(failed)?;
        Ok(format!("parcel {}", parcel.id))
    }

    fn observe(&mut self, asked: &[Asked]) -> Result<Vec<Seen>, PipeError> {
        let questions: Vec<Question> = asked.iter().map(|it| Question { run: it.run, known: it.known }).collect();
        let told: Vec<Standing> = self.ask(&["queue", "report"], &questions)?;
        let told: HashMap<RunId, Standing> = told.into_iter().map(|it| (it.finding.run, it)).collect();
        Ok(asked.iter().map(|it| seen(it.run, told.get(&it.run).cloned())).collect())
    }

    fn cancel(&mut self, asked: &[Asked], _insist: bool) -> Result<(), PipeError> {
        let runs: Vec<RunId> = asked.iter().map(|it| it.run).collect();
        self.ask(&["queue", "cancel"], &runs)
    }

    fn settle(&mut self, asked: &Asked, attempt: u32, job: &JobSpec) -> Result<Fate, PipeError> {
        let (run, attempt) = (asked.run.to_string(), attempt.to_string());
        self.ask(&["agent", "settle", "--run", &run, "--attempt", &attempt], job)
    }

    fn forget(&mut self, runs: &[RunId]) -> Result<(), PipeError> {
        self.ask(&["queue", "forget"], &runs)
    }
}

fn seen(run: RunId, told: Option<Standing>) -> Seen {
    let Some(Standing { finding, waits, wants_secrets }) = told else {
        return Seen { run, queue: InQueue::Absent, finding: None };
    };
    let state = finding.state.as_ref().map(|state| &state.run.state);
    let queue = match state {
        Some(State::Queued { .. }) if wants_secrets => InQueue::WantsSecrets,
        Some(State::Queued { .. }) => InQueue::Waiting { why: waits },
        // How, the finding says.
        Some(state) if state.has_ended() => InQueue::Over(Over::Ended),
        _ => InQueue::Running,
    };
    let begun = !matches!(state, Some(State::Queued { .. })) || !finding.results.is_empty();
    let finding: Option<Finding> = begun.then_some(finding);
    Seen { run, queue, finding }
}
