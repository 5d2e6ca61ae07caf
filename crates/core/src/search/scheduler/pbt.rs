//! Population based training (Jaderberg et al., 2017) for any program: from time to time the worst go on from the
//! checkpoints of the best, with parameters that differ a little.
//!
//! Nobody waits for anybody. A member is measured by what the others were worth at the same step, or, of those that
//! have not come so far, by what they were worth last.

use std::collections::BTreeMap;

use crate::search::Space;
use crate::search::rng;
use crate::spec::{Mutate, StopSpec};
use crate::value::Params;

use super::mutate::mutate;
use super::table::{Loss, Table};
use super::{Outlook, Scheduler, Verdict};

#[derive(Debug)]
pub struct Pbt {
    first: i64,
    every: i64,
    quantile: f64,
    threshold: f64,
    mutate: Mutate,
    space: Space,
    seed: u64,
    members: BTreeMap<u32, Member>,
    /// By generation, the step with this number: every member's latest value up to then.
    standings: BTreeMap<i64, Table>,
}

#[derive(Debug)]
struct Member {
    params: Params,
    /// The generation it is judged in next.
    next: i64,
    latest: Option<Loss>,
    has_ended: bool,
}

impl Pbt {
    pub fn new(spec: &StopSpec, space: Space, seed: u64) -> Self {
        let whole = |steps: u64| i64::try_from(steps.max(1)).unwrap_or(i64::MAX);
        Self {
            first: whole(spec.first),
            every: whole(spec.every),
            quantile: spec.quantile.clamp(0.0, 0.5),
            threshold: spec.threshold.max(0.0),
            mutate: spec.mutate,
            space,
            seed,
            members: BTreeMap::new(),
            standings: BTreeMap::new(),
        }
    }

    /// Writes the value into this generation's standing, and into those of later ones, where it is the latest known.
    fn record(&mut self, trial: u32, generation: i64, loss: Loss) {
        if !self.standings.contains_key(&generation) {
            let before = self.standings.range(..generation).next_back();
            let table = before.map(|(_, table)| table.clone()).unwrap_or_default();
            self.standings.insert(generation, table);
            self.forget();
        }
        let Some(member) = self.members.get_mut(&trial) else { return };
        let earlier = member.latest.replace(loss);
        for table in self.standings.range_mut(generation..).map(|(_, table)| table) {
            if let Some(earlier) = earlier {
                table.remove(earlier, trial);
            }
            table.insert(loss, trial);
        }
    }

    /// Drops what no member will be measured by any more.
    fn forget(&mut self) {
        let going = self.members.values().filter(|member| !member.has_ended);
        let Some(slowest) = going.map(|member| member.next).min() else { return };
        // The one before is what the next generation begins with.
        let Some((&kept, _)) = self.standings.range(..slowest).next_back() else { return };
        self.standings = self.standings.split_off(&kept);
    }

    /// A leader for this trial, if it is among the last and there is one that is truly better.
    fn leader(&self, trial: u32, generation: i64, loss: Loss, rng: &mut rng::Rng) -> Option<u32> {
        let standing = self.standings.get(&generation)?;
        let count = standing.len();
        // The last of a few may be in the middle of all.
        if count * 2 <= self.members.len() {
            return None;
        }
        let share = ((count as f64 * self.quantile).ceil() as usize).min(count / 2);
        if standing.rank(loss, trial) + share < count {
            return None;
        }
        let can_lead = |row: &&(Loss, u32)| self.members.get(&row.1).is_some_and(|member| !member.has_ended);
        let (before, after) = standing.rows().get(..share)?.split_at_checked(rng.below(share))?;
        let (best, leader) = after.iter().chain(before).find(can_lead)?;
        let margin = self.threshold * standing.spread();
        (loss.get() - best.get() > margin).then_some(*leader)
    }
}

impl Scheduler for Pbt {
    fn begin(&mut self, trial: u32, params: &Params) {
        self.members.insert(trial, Member { params: params.clone(), next: 0, latest: None, has_ended: false });
    }

    fn next_step(&self, trial: u32) -> Option<i64> {
        let member = self.members.get(&trial).filter(|member| !member.has_ended)?;
        self.every.checked_mul(member.next)?.checked_add(self.first)
    }

    fn judge(&mut self, trial: u32, step: i64, loss: f64) -> Verdict {
        let loss = Loss::new(loss);
        let generation = step.saturating_sub(self.first).div_euclid(self.every);
        match self.members.get_mut(&trial) {
            Some(member) if !member.has_ended && generation >= member.next => {
                member.next = generation.saturating_add(1);
            }
            _ => return Verdict::Continue,
        }
        self.record(trial, generation, loss);
        let mut rng = rng::judgement(self.seed, trial, step);
        let Some(leader) = self.leader(trial, generation, loss, &mut rng) else { return Verdict::Continue };
        let Some((params, ahead)) = self.members.get(&leader).map(|leader| (&leader.params, leader.next)) else {
            return Verdict::Continue;
        };
        let params = mutate(&self.space, params, self.mutate, &mut rng);
        if let Some(member) = self.members.get_mut(&trial) {
            member.params = params.clone();
            // It goes on where the leader is, and what it is worth shows a generation later.
            member.next = member.next.max(ahead);
        }
        Verdict::Replace { leader, params }
    }

    fn end(&mut self, trial: u32) {
        if let Some(member) = self.members.get_mut(&trial) {
            member.has_ended = true;
        }
    }

    fn promote(&mut self, _: Outlook) -> Option<u32> {
        None
    }
}
