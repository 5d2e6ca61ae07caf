//! A run at a site that goes through its attempts by itself: what lies in its folder, and what follows from it.
//!
//! The same `decide` that the yardmaster uses changes the run's state here; `state.json` holds it, and whoever sent the
//! run reads it there.

use std::io;

use serde::{Deserialize, Serialize};
use trainyard_core::id::Token;
use trainyard_core::run::{Effect, Ending, Event, Outcome, Run, State, decide};
use trainyard_core::spec::JobSpec;
use trainyard_core::time::{Instant, Span};

use crate::checkpoint::{Doubt, Finder};
use crate::claim::{self, Holder};
use crate::depot::{AttemptFolder, Depot, RunFolder};
use crate::disk::{Durability, now, read_json, replace_json};
use crate::order::AttemptResult;
use crate::parcel::{Member, Parcel};
use crate::view::View;

/// `state.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SiteState {
    pub run: Run,
    /// The end of the lease under which the newest attempt ran.
    pub ends: Option<Instant>,
}

/// A run in the hands of this agent.
#[derive(Debug)]
pub struct SiteRun<'a> {
    pub member: &'a Member,
    pub state: SiteState,
    depot: Depot,
    folder: RunFolder,
}

/// A lease that was over this soon after the last sign of life ended the attempt.
const ABOUT: Span = Span::seconds(120);

impl<'a> SiteRun<'a> {
    /// Takes the run up: what the site knows, or what was sent if that is newer, and what became of an attempt that
    /// left without a word.
    pub fn take_up(depot: &Depot, parcel: &Parcel, member: &'a Member) -> io::Result<Self> {
        let folder = depot.run(member.id);
        let sent = SiteState { run: member.run.clone(), ends: None };
        let known = read_json::<SiteState>(&folder.state());
        let is_newer = |known: &SiteState| known.run.last_attempt >= sent.run.last_attempt;
        let state = known.filter(is_newer).unwrap_or(sent);
        let mut this = Self { member, state, depot: depot.clone(), folder };
        if let Some(attempt) = this.state.run.state.attempt() {
            this.find_out(parcel, attempt)?;
        }
        if this.is_cancelled() {
            this.happen(&Event::CancelAsked)?;
        }
        Ok(this)
    }

    pub fn is_cancelled(&self) -> bool {
        self.folder.cancel().exists()
    }

    /// As whoever sent it would.
    pub fn ask_to_cancel(&self) -> io::Result<()> {
        fs_err::create_dir_all(self.folder.path())?;
        fs_err::write(self.folder.cancel(), "")
    }

    pub fn has_ended(&self) -> bool {
        self.state.run.state.has_ended()
    }

    /// Whether the next attempt may begin.
    pub fn is_due(&self, now: Instant) -> bool {
        matches!(self.state.run.state, State::Queued { not_before, .. } if not_before.is_none_or(|at| at <= now))
    }

    pub fn not_before(&self) -> Option<Instant> {
        match self.state.run.state {
            State::Queued { not_before, .. } => not_before,
            _ => None,
        }
    }

    /// Writes the new state down before anything follows from it.
    pub fn happen(&mut self, event: &Event) -> io::Result<Vec<Effect>> {
        let decision = decide(&self.state.run, event, now());
        if decision.changed {
            self.state.run = decision.next;
            fs_err::create_dir_all(self.folder.path())?;
            replace_json(&self.folder.state(), &self.state, Durability::Synced)?;
        }
        Ok(decision.effects)
    }

    pub fn ended(&mut self, result: &AttemptResult) -> io::Result<Vec<Effect>> {
        let attempt = result.token.parts().map_or(0, |(_, attempt)| attempt);
        self.happen(&Event::Ended { attempt, ending: result.ending() })
    }

    /// The attempt was begun by an agent that is gone, or may be.
    pub fn find_out(&mut self, parcel: &Parcel, attempt: u32) -> io::Result<()> {
        let folder = self.folder.attempt(attempt);
        let token = Token::new(self.member.id, attempt);
        let result =
            |folder: &AttemptFolder| read_json::<AttemptResult>(&folder.result()).filter(|it| it.token == token);
        if let Some(result) = result(&folder) {
            self.ended(&result)?;
            return Ok(());
        }
        let event = match claim::holder(&folder) {
            Holder::Nobody if claim::make_void(&folder, &token).is_ok() => Event::NeverStarted { attempt },
            Holder::Void => Event::NeverStarted { attempt },
            Holder::Nobody | Holder::Gone => Event::Ended { attempt, ending: self.lost(parcel, &folder) },
            Holder::Alive(_) => return Ok(()),
        };
        self.happen(&event)?;
        Ok(())
    }

    fn lost(&self, parcel: &Parcel, folder: &AttemptFolder) -> Ending {
        let why = "the agent was killed or the node went down".to_owned();
        let mut ending = lost(folder, parcel.job_of(self.member), View::of(&self.depot, self.member.id), why);
        let last = folder.last_sign().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let last = last.map(|at| Instant(i64::try_from(at.as_millis()).unwrap_or(i64::MAX)));
        if let (Some(ends), Some(last)) = (self.state.ends, last)
            && ends.since(last) < ABOUT
        {
            ending.outcome = Outcome::TimeLimit;
        }
        ending
    }
}

/// An attempt without a result: how far it got is read from what it left.
pub fn lost(folder: &AttemptFolder, job: &JobSpec, view: View, why: String) -> Ending {
    let began = folder.began().unwrap_or(std::time::UNIX_EPOCH);
    let lasted = folder.last_sign().and_then(|end| end.duration_since(began).ok()).unwrap_or_default();
    let finder = job.resume.checkpoint.as_ref().and_then(|pattern| Finder::new(view, pattern).ok());
    let is_new = |finder: Finder| finder.newest(&Doubt::default()).is_some_and(|name| finder.is_newer(&name, began));
    let lasted = Span(u64::try_from(lasted.as_millis()).unwrap_or(u64::MAX));
    Ending { outcome: Outcome::Lost { why }, lasted, new_checkpoint: finder.map(is_new) }
}
