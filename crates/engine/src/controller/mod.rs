//! Sweeps that outlive the laptop: their yardmaster runs on the head of a Ray cluster, as a Ray job, with a home in the
//! depot there. Whoever can reach the cluster hands sweeps over, reads its ledger and says what is wanted of them.
//!
//! [`Desk`] is the laptop's side, [`keep`] is what runs as the job, and [`hear`] takes down what somebody wants, in a small
//! job of its own. All they share is the ledger there and a copy of it that can be read where Ray's logs are.

mod desk;
mod keep;
mod places;

use std::path::Path;

use serde::{Deserialize, Serialize};
use trainyard_agent::disk::now;
use trainyard_core::id::RunId;
use trainyard_core::spec::SweepSpec;

use crate::home::Home;
use crate::ledger::{Batch, Ledger, LedgerError, Request, SweepRequest};
use crate::yardmaster::Caller;

pub use desk::{Around, Desk, DeskError};
pub use keep::{KeepError, keep};

/// Ray's name of such a job begins so.
const JOB: &str = "yard-controller";
/// Under this name its record says which depot it is for.
const DEPOT: &str = "yard-depot";
/// The variable with the token for Ray, in the environment of what runs there.
const TOKEN: &str = "YARD_RAY_TOKEN";

/// A sweep on its way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Handover {
    /// Ours, and part of the names of its secrets.
    pub id: String,
    pub spec: SweepSpec,
    pub batch: Batch,
}

/// What somebody wants of a controller.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wish {
    /// Only that its ledger can be read.
    Look,
    Sweep {
        sweep: i64,
        what: SweepRequest,
    },
    Cancel {
        runs: Vec<RunId>,
    },
}

/// What became of a wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Heard {
    /// Nothing was ever handed over there.
    Nobody,
    /// It is in the ledger, and the yardmaster has looked at it since.
    Now,
    /// It is in the ledger, for the next yardmaster.
    Later,
}

/// Where a controller lives in a depot.
pub fn home_in(depot: &Path) -> Home {
    Home::in_folder(&depot.join(places::FOLDER))
}

/// Takes down a wish, on the machine of the controller.
pub fn hear(home: &Home, wish: &Wish) -> Result<Heard, KeepError> {
    if !home.ledger().exists() {
        return Ok(Heard::Nobody);
    }
    let mut ledger = Ledger::open(&home.ledger())?;
    match wish {
        Wish::Look => {}
        Wish::Sweep { sweep, what } => ledger.ask_of_sweep(*sweep, what, now())?,
        Wish::Cancel { runs } => ledger.request(runs, Request::Cancel, now())?,
    }
    let heard = if Caller::visit(home, &Default::default()).is_some() { Heard::Now } else { Heard::Later };
    places::publish(home, &ledger)?;
    Ok(heard)
}

/// Whether a yardmaster is needed.
fn has_work(ledger: &Ledger) -> Result<bool, LedgerError> {
    use crate::ledger::SweepState;
    let is_going = |state: SweepState| state == SweepState::Going;
    Ok(ledger.open_count()? > 0
        || ledger.open_sweeps()?.iter().any(|sweep| is_going(sweep.state))
        || !ledger.sweep_requests()?.is_empty())
}
