//! What lies in the folders of runs at a site, for whoever sent them.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use trainyard_core::id::{RunId, Token};
use trainyard_core::run::Ending;
use trainyard_core::spec::JobSpec;

use crate::claim::{self, Holder};
use crate::depot::Depot;
use crate::disk::read_json;
use crate::order::{AttemptResult, Status};
use crate::site::{self, SiteState};
use crate::view::View;

/// What somebody wants to know about a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Question {
    pub run: RunId,
    /// Results of later attempts are wanted; those up to here are known.
    pub known: u32,
}

/// What lies there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub run: RunId,
    pub state: Option<SiteState>,
    /// The heartbeat of the attempt under way.
    pub status: Option<Status>,
    pub results: Vec<AttemptResult>,
}

/// Attempts beyond the newest one that the state names are looked for too: an agent that was killed may not have written
/// the state that follows from its last result.
pub fn look(depot: &Depot, question: &Question) -> Finding {
    let folder = depot.run(question.run);
    let state = read_json::<SiteState>(&folder.state());
    let newest = state.as_ref().map_or(0, |state| state.run.last_attempt);
    let current = state.as_ref().and_then(|state| state.run.state.attempt());
    let results =
        (question.known + 1..=newest).filter_map(|number| read_json(&folder.attempt(number).result())).collect();
    let status = current.and_then(|number| read_json(&folder.attempt(number).status()));
    Finding { run: question.run, state, status, results }
}

/// What is to be made of an attempt that no scheduler knows any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// Nothing of it was executed, and now nothing will be.
    NeverStarted,
    Ended(Box<AttemptResult>),
    /// It left no result.
    Lost(Ending),
}

/// Makes sure that the attempt is not begun any more, or finds out how it ended.
pub fn settle(depot: &Depot, run: RunId, attempt: u32, job: &JobSpec) -> io::Result<Fate> {
    let folder = depot.run(run).attempt(attempt);
    let token = Token::new(run, attempt);
    look_anew(folder.path())?;
    if let Some(result) = read_json::<AttemptResult>(&folder.result()).filter(|result| result.token == token) {
        return Ok(Fate::Ended(Box::new(result)));
    }
    match claim::holder(&folder) {
        Holder::Void => return Ok(Fate::NeverStarted),
        Holder::Nobody => match claim::make_void(&folder, &token) {
            Ok(()) => return Ok(Fate::NeverStarted),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        },
        Holder::Alive(_) | Holder::Gone => {}
    }
    let why = "the node went down, or the job was killed".to_owned();
    Ok(Fate::Lost(site::lost(&folder, job, View::of(depot, run), why)))
}

/// A network file system may remember for a minute that a file was not there. Whoever changes a folder sees it as it is.
fn look_anew(folder: &Path) -> io::Result<()> {
    fs_err::create_dir_all(folder)?;
    let touch = folder.join(format!(".look.{}", std::process::id()));
    fs_err::write(&touch, "")?;
    fs_err::remove_file(touch)
}
