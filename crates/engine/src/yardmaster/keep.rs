//! What the yardmaster has in hand: open runs, what they wait for, and what is not yet in the ledger.

mod hearing;
mod ties;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::rc::Rc;

use trainyard_agent::disk::now;
use trainyard_agent::order::{Metrics, Point};
use trainyard_core::id::{RunId, Token};
use trainyard_core::plan::slots::{Slot, Slots};
use trainyard_core::run::{Effect, Event, State, decide};
use trainyard_core::spec::{SecretRef, Setting};
use trainyard_core::time::Instant;

use super::mirror::Missing;
use super::sweeps::EndedRun;
use crate::ledger::{Batch, Change, Ledger, LedgerError, OpenRun, Request};
use crate::site::{Place, WANTS_SECRETS, is_secret_key};
use crate::target::Handle;

/// What goes to a site as one: a group that is kept there, or a batch.
type Together = (Option<String>, i64);

/// An open run and its batch.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) open: OpenRun,
    pub(super) batch: Rc<Batch>,
    pub(super) slot: Option<Slot>,
    /// At a site: where, since when, what of it is known here.
    pub(super) place: Option<Place>,
    pub(super) sent: Instant,
    pub(super) known: u32,
    pub(super) note: Option<String>,
    pub(super) missing: Option<Missing>,
    metrics: Metrics,
    pub(super) course: Vec<Point>,
}

impl Active {
    pub(super) fn handle(&self, attempt: u32) -> Handle {
        let (depot, run) = (self.batch.depot.clone(), self.open.id);
        Handle { depot, run, attempt, token: Token::new(run, attempt) }
    }
}

pub(super) struct Keep {
    pub(super) runs: HashMap<RunId, Active>,
    pub(super) slots: Slots,
    /// Not yet in the ledger.
    pub(super) changes: Vec<Change>,
    /// To be carried out once the changes are in the ledger.
    pub(super) effects: Vec<(RunId, Effect)>,
    /// Attempts whose fate is to be found out.
    pub(super) doubts: BTreeSet<Token>,
    /// Parcels to be sent once the changes are in the ledger, and on the disk.
    pub(super) parcels: BTreeSet<String>,
    /// Names of secrets that came with parcels.
    supplied: BTreeSet<String>,
    /// Runs whose secrets are still to come.
    wanting: Vec<RunId>,
    /// Runs that are to go to sites.
    outgoing: Vec<RunId>,
    batches: HashMap<i64, Rc<Batch>>,
    delayed: BTreeMap<(Instant, i64), RunId>,
    ties: ties::Ties,
    last_seq: i64,
    /// Runs that have ended, or reported, since sweeps were last told.
    pub(super) ended: Vec<EndedRun>,
    pub(super) reported: BTreeSet<RunId>,
}

impl Keep {
    pub(super) fn new(slots: Slots) -> Self {
        Self {
            runs: HashMap::new(),
            slots,
            changes: Vec::new(),
            effects: Vec::new(),
            doubts: BTreeSet::new(),
            parcels: BTreeSet::new(),
            supplied: BTreeSet::new(),
            wanting: Vec::new(),
            outgoing: Vec::new(),
            batches: HashMap::new(),
            delayed: BTreeMap::new(),
            ties: ties::Ties::default(),
            last_seq: 0,
            ended: Vec::new(),
            reported: BTreeSet::new(),
        }
    }

    /// Runs that commands have put into the ledger since the last look.
    pub(super) fn fetch(&mut self, ledger: &Ledger) -> Result<Vec<Active>, LedgerError> {
        let mut found = Vec::new();
        for open in ledger.open_after(self.last_seq)? {
            let batch = self.batch(ledger, open.batch)?;
            if let Some(tie) = &batch.tie {
                self.ties.meet(tie, ledger)?;
            }
            let attempts = if open.run.last_attempt > 0 { ledger.attempts(open.seq)? } else { Vec::new() };
            let known = attempts.iter().filter(|attempt| attempt.result.is_some()).map(|attempt| attempt.number).max();
            let last = attempts.into_iter().next_back();
            let sent = last.as_ref().map_or_else(now, |attempt| attempt.created);
            let (slot, place) = last.map(|attempt| (attempt.slot, attempt.place)).unzip();
            found.push(Active {
                open,
                batch,
                slot,
                place: place.flatten(),
                sent,
                known: known.unwrap_or(0),
                note: None,
                missing: None,
                metrics: Metrics::new(),
                course: Vec::new(),
            });
        }
        Ok(found)
    }

    pub(super) fn take_up(&mut self, found: Vec<Active>, now: Instant) {
        for active in found {
            self.last_seq = self.last_seq.max(active.open.seq);
            self.enter(active, now);
        }
    }

    /// What people want of runs that are taken up already.
    pub(super) fn hear_requests(&mut self, ledger: &Ledger, now: Instant) -> Result<(), LedgerError> {
        let (last, requests) = ledger.requests()?;
        if requests.is_empty() {
            return Ok(());
        }
        let by_seq: HashMap<i64, RunId> = self.runs.values().map(|active| (active.open.seq, active.open.id)).collect();
        for (seq, request) in requests {
            match (request, by_seq.get(&seq)) {
                (Request::Cancel, Some(run)) => self.happen(*run, &Event::CancelAsked, "cancel asked", now),
                (Request::Cancel, None) => {}
            }
        }
        self.changes.push(Change::RequestsUpTo { id: last });
        Ok(())
    }

    pub(super) fn batch(&mut self, ledger: &Ledger, id: i64) -> Result<Rc<Batch>, LedgerError> {
        if let Some(batch) = self.batches.get(&id) {
            return Ok(Rc::clone(batch));
        }
        self.batches.retain(|_, batch| Rc::strong_count(batch) > 1);
        let batch = Rc::new(ledger.batch(id)?);
        self.batches.insert(id, Rc::clone(&batch));
        Ok(batch)
    }

    /// A run that is new, or that an earlier yardmaster left.
    fn enter(&mut self, active: Active, now: Instant) {
        let id = active.open.id;
        let state = active.open.run.state.clone();
        match (&state, &active.slot) {
            (State::Queued { not_before, .. }, _) => {
                let not_before = *not_before;
                self.runs.insert(id, active);
                self.queue(id, not_before, now);
            }
            _ if active.batch.site.is_some() => {
                // Whether it arrived is not known; sending it again finds out.
                let unsure = matches!(state, State::Starting { .. });
                self.parcels.extend(active.place.iter().filter(|_| unsure).map(|place| place.parcel.clone()));
                self.runs.insert(id, active);
            }
            (_, slot) => {
                if let Some(slot) = slot {
                    self.slots.adopt(id, slot.clone());
                }
                self.doubts.extend(state.attempt().map(|attempt| Token::new(id, attempt)));
                self.runs.insert(id, active);
            }
        }
    }

    pub(super) fn queue(&mut self, id: RunId, not_before: Option<Instant>, now: Instant) {
        let Some(active) = self.runs.get(&id) else { return };
        let (seq, demand, is_here) = (active.open.seq, active.batch.demand(), active.batch.site.is_none());
        if let Some(later) = not_before.filter(|at| *at > now) {
            self.delayed.insert((later, seq), id);
        } else if let Some(why) = self.slots.capacity().refuse(&demand).filter(|_| is_here) {
            self.happen(id, &Event::Refused { why: why.clone() }, &why, now);
        } else if self.lacks_secrets(id) {
            self.note(id, Some(WANTS_SECRETS.to_owned()));
            self.wanting.push(id);
        } else if self.waits_for_others(id, now) {
        } else if !is_here {
            self.outgoing.push(id);
        } else {
            self.slots.wait(id, u64::try_from(seq).unwrap_or(0), demand);
        }
    }

    /// Of those that come with parcels; others are looked up when they are needed.
    pub(super) fn lacks_secrets(&self, id: RunId) -> bool {
        let Some(active) = self.runs.get(&id) else { return false };
        active.batch.job.env.values().any(|setting| match setting {
            Setting::Secret(SecretRef::Env(name)) => is_secret_key(name) && !self.supplied.contains(name),
            Setting::Secret(_) | Setting::Text(_) => false,
        })
    }

    /// Secrets came in: who waited for them joins the queue.
    pub(super) fn supply<'a>(&mut self, names: impl Iterator<Item = &'a String>, now: Instant) {
        self.supplied.extend(names.cloned());
        for id in std::mem::take(&mut self.wanting) {
            self.note(id, None);
            self.queue(id, None, now);
        }
    }

    /// Runs whose back-off is over join the queue; runs for which there is room are placed.
    pub(super) fn place(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry().filter(|entry| entry.key().0 <= now) {
            let id = entry.remove();
            self.queue(id, None, now);
        }
        self.heed_ties(now);
        self.pack(now);
        while let Some((id, slot)) = self.slots.start_next() {
            let Some(active) = self.runs.get_mut(&id) else { continue };
            active.slot = Some(slot.clone());
            let (seq, number) = (active.open.seq, active.open.run.last_attempt + 1);
            let token = Token::new(id, number);
            self.note(id, None);
            self.happen(id, &Event::Placed, "", now);
            self.changes.push(Change::Attempt { seq, number, token, slot, place: None, at: now });
        }
    }

    /// Runs for sites go out in parcels of one submission each.
    fn pack(&mut self, now: Instant) {
        let mut by_batch: BTreeMap<Together, Vec<(i64, RunId)>> = BTreeMap::new();
        for id in std::mem::take(&mut self.outgoing) {
            // It may have been cancelled since.
            if let Some(active) = self.runs.get(&id).filter(|active| active.open.run.state.attempt().is_none()) {
                // A group that its target keeps in order goes there as one.
                let group = active.batch.tie.as_ref().filter(|tie| tie.at_target).map(|tie| tie.id.clone());
                let batch = if group.is_some() { 0 } else { active.open.batch };
                by_batch.entry((group, batch)).or_default().push((active.open.seq, id));
            }
        }
        for mut runs in by_batch.into_values() {
            runs.sort_unstable();
            runs.dedup();
            let first = runs.first().and_then(|(_, id)| self.runs.get(id));
            let Some(plan) = first.and_then(|active| active.batch.site.clone()) else { continue };
            for ((_, id), place) in runs.iter().zip(plan.places(runs.len())) {
                self.parcels.insert(place.parcel.clone());
                self.send(*id, place, now);
            }
        }
    }

    pub(super) fn runs_of(&self, parcel: &str) -> Vec<RunId> {
        let of_it = |active: &&Active| active.place.as_ref().is_some_and(|place| place.parcel == parcel);
        self.runs.values().filter(of_it).map(|active| active.open.id).collect()
    }

    pub(super) fn project_of(&self, parcel: &str) -> PathBuf {
        let first = self.runs_of(parcel).first().and_then(|run| self.runs.get(run));
        first.map(|active| active.batch.project.clone()).unwrap_or_default()
    }

    fn send(&mut self, id: RunId, place: Place, now: Instant) {
        let Some(active) = self.runs.get_mut(&id) else { return };
        (active.place, active.sent, active.missing) = (Some(place.clone()), now, None);
        let (seq, number) = (active.open.seq, active.open.run.last_attempt + 1);
        let slot = Slot::of(active.batch.demand());
        self.happen(id, &Event::Placed, "", now);
        let token = Token::new(id, number);
        self.changes.push(Change::Attempt { seq, number, token, slot, place: Some(place), at: now });
    }

    /// Attempts in doubt that are still somebody's.
    pub(super) fn doubtful(&mut self) -> Vec<Handle> {
        self.doubts.retain(|token| token.parts().is_some_and(|(run, _)| self.runs.contains_key(&run)));
        let handle = |token: &Token| {
            let (run, attempt) = token.parts()?;
            Some(self.runs.get(&run)?.handle(attempt))
        };
        self.doubts.iter().filter_map(handle).collect()
    }

    /// Whether sweeps know all that has happened.
    pub(super) fn is_told(&self) -> bool {
        self.ended.is_empty() && self.reported.is_empty()
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.delayed.keys().next().map(|(at, _)| *at)
    }

    /// The one way a run changes here.
    pub(super) fn happen(&mut self, id: RunId, event: &Event, what: &str, now: Instant) {
        let Some(active) = self.runs.get_mut(&id) else { return };
        let decision = decide(&active.open.run, event, now);
        if !decision.changed {
            return;
        }
        active.open.run = decision.next.clone();
        if let Some(tie) = &active.batch.tie {
            self.ties.note(tie, id, &decision.next);
        }
        let occupies = decision.next.state.attempt().is_some();
        let has_ended = decision.next.state.has_ended();
        let at_site = active.batch.site.is_some();
        let change = Change::State { seq: active.open.seq, run: decision.next, at: now, what: what.to_owned() };
        self.changes.push(change);
        if !occupies {
            self.slots.release(id);
        }
        for effect in decision.effects {
            match effect {
                Effect::Queue { not_before } => self.queue(id, not_before, now),
                // Its parcel goes by itself.
                Effect::Submit { .. } if at_site => {}
                Effect::Submit { .. } | Effect::Stop { .. } => self.effects.push((id, effect)),
            }
        }
        if has_ended && let Some(active) = self.runs.remove(&id) {
            self.ended.push(EndedRun { id, run: active.open.run, course: active.course });
        }
    }

    /// A cancel that came while the attempt was on its way found nothing to stop.
    pub(super) fn stop_if_cancelled(&mut self, id: RunId, attempt: u32) {
        let state = self.runs.get(&id).map(|active| &active.open.run.state);
        if matches!(state, Some(State::Cancelling { .. })) {
            self.effects.push((id, Effect::Stop { attempt }));
        }
    }
}
