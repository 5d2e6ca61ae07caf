//! Runs of groups that wait for each other. Whose turn it is, `core::run::Tie` says; this knows who they are.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use trainyard_core::id::RunId;
use trainyard_core::plan::slots::Demand;
use trainyard_core::run::{Event, Peer, Run, Tie, Turn};
use trainyard_core::spec::Start;
use trainyard_core::time::Instant;

use super::Keep;
use crate::ledger::{Ledger, LedgerError};

#[derive(Debug, Default)]
pub(super) struct Ties {
    /// All runs of each group that has open ones.
    groups: HashMap<String, BTreeMap<RunId, Peer>>,
    /// Runs that wait for others of their group.
    held: BTreeSet<RunId>,
    /// Groups in which something has happened.
    stirred: BTreeSet<String>,
}

impl Ties {
    /// A group is in the ledger as a whole, or not at all.
    pub(super) fn meet(&mut self, tie: &Tie, ledger: &Ledger) -> Result<(), LedgerError> {
        if is_kept_here(tie) && !self.groups.contains_key(&tie.id) {
            self.groups.insert(tie.id.clone(), ledger.peers(&tie.id)?.into_iter().collect());
        }
        Ok(())
    }

    pub(super) fn note(&mut self, tie: &Tie, id: RunId, run: &Run) {
        let Some(group) = self.groups.get_mut(&tie.id) else { return };
        if let Some(peer) = group.get_mut(&id) {
            peer.run = run.clone();
        }
        if group.values().all(|peer| peer.run.state.has_ended()) {
            self.groups.remove(&tie.id);
        } else {
            self.stirred.insert(tie.id.clone());
        }
    }

    fn turn(&self, tie: &Tie, run: &Run) -> Turn {
        let peers: Vec<Peer> =
            self.groups.get(&tie.id).map(|group| group.values().cloned().collect()).unwrap_or_default();
        tie.turn(run, &peers)
    }

    fn unbegun(&self, group: &str) -> Vec<RunId> {
        let peers = self.groups.get(group).into_iter().flatten();
        peers.filter(|(_, peer)| peer.is_unbegun()).map(|(id, _)| *id).collect()
    }
}

/// A target that gets the whole group keeps its order; that all of it is there at once is seen to here.
fn is_kept_here(tie: &Tie) -> bool {
    match tie.start {
        Start::WhenFree => false,
        Start::InOrder => !tie.at_target,
        Start::Together => true,
    }
}

impl Keep {
    /// Whether a run that is queued has to wait for others of its group. What becomes of it then is seen to here.
    pub(super) fn waits_for_others(&mut self, id: RunId, now: Instant) -> bool {
        let Some(active) = self.runs.get(&id) else { return false };
        let Some(tie) = active.batch.tie.clone().filter(is_kept_here) else { return false };
        match self.ties.turn(&tie, &active.open.run) {
            Turn::Now => {
                self.note(id, None);
                return false;
            }
            Turn::Wait { why } => {
                self.note(id, Some(why));
                self.ties.held.insert(id);
            }
            Turn::Together => {
                self.ties.held.insert(id);
                self.ties.stirred.insert(tie.id);
            }
            Turn::Never { why } => self.happen(id, &Event::Dropped { why: why.clone() }, &why, now),
        }
        true
    }

    /// Where something has happened, those who wait for it may go on.
    pub(super) fn heed_ties(&mut self, now: Instant) {
        while let Some(group) = self.ties.stirred.pop_first() {
            self.ties.held.retain(|id| self.runs.get(id).is_some_and(|it| it.open.run.state.attempt().is_none()));
            let tie_of = |id: &RunId| self.runs.get(id).and_then(|active| active.batch.tie.clone());
            let held: Vec<RunId> =
                self.ties.held.iter().filter(|id| tie_of(id).is_some_and(|tie| tie.id == group)).copied().collect();
            let is_gang = held.first().and_then(tie_of).is_some_and(|tie| tie.start == Start::Together);
            if is_gang {
                self.form(&group, &held, now);
            } else {
                for id in held {
                    self.ties.held.remove(&id);
                    self.queue(id, None, now);
                }
            }
        }
    }

    /// Once all of a group are here that have not begun, they stand in the queue as one.
    fn form(&mut self, group: &str, held: &[RunId], now: Instant) {
        let unbegun = self.ties.unbegun(group);
        let Some(first) = held.first().and_then(|id| self.runs.get(id)) else { return };
        let Some(tie) = first.batch.tie.clone() else { return };
        let is_ready = matches!(self.ties.turn(&tie, &first.open.run), Turn::Together);
        if !is_ready || !unbegun.iter().all(|id| held.contains(id)) {
            return;
        }
        self.ties.held.retain(|id| !held.contains(id));
        if first.batch.site.is_some() {
            self.outgoing.extend(held);
            return;
        }
        let rank = u64::try_from(first.open.seq).unwrap_or(0);
        let members: Vec<(RunId, Demand)> =
            held.iter().filter_map(|id| Some((*id, self.runs.get(id)?.batch.demand()))).collect();
        let demands: Vec<Demand> = members.iter().map(|(_, demand)| *demand).collect();
        match self.slots.capacity().refuse_together(&demands) {
            Some(why) => {
                for (id, _) in members {
                    self.happen(id, &Event::Refused { why: why.clone() }, &why, now);
                }
            }
            None => {
                for (id, _) in &members {
                    self.note(*id, Some(format!("starts together with the others of `{}`", tie.group)));
                }
                self.slots.wait_together(rank, members);
            }
        }
    }
}
