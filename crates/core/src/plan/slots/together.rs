//! Runs that start at once or not at all. While one does not fit it holds nothing, so two of them never wait for each
//! other; what it needs is reserved as for any other run, so younger ones do not starve it.

use std::collections::BTreeSet;

use super::{Capacity, Demand, Slot, Slots, devices};
use crate::id::RunId;
use crate::spec::Gpus;

#[derive(Debug)]
pub(super) struct Gang {
    rank: u64,
    /// Never empty. The greediest first: so they find room where any order does.
    members: Vec<(RunId, Demand)>,
}

impl Gang {
    fn sum(&self) -> (u32, u64) {
        let add = |(cpus, memory): (u32, u64), (_, demand): &(RunId, Demand)| {
            (cpus.saturating_add(demand.cpus), memory.saturating_add(demand.memory))
        };
        self.members.iter().fold((0, 0), add)
    }

    fn gpus(&self) -> impl Iterator<Item = Gpus> {
        self.members.iter().map(|(_, demand)| demand.gpus)
    }
}

impl Capacity {
    /// Why these could never run at the same time here, even on an idle machine.
    pub fn refuse_together(&self, demands: &[Demand]) -> Option<String> {
        if let Some(why) = demands.iter().find_map(|demand| self.refuse(demand)) {
            return Some(why);
        }
        let (mut gpus, cpus): (Vec<Gpus>, u32) =
            (demands.iter().map(|it| it.gpus).collect(), demands.iter().map(|it| it.cpus).fold(0, u32::saturating_add));
        gpus.sort_by_key(|gpus| std::cmp::Reverse(size(*gpus)));
        let memory = demands.iter().map(|it| it.memory).fold(0, u64::saturating_add);
        let many = demands.len();
        if spread(&vec![0; self.gpus.len()], gpus.into_iter(), &[]).is_none() {
            return Some(format!(
                "the {many} runs need more GPUs at once than the {} of this machine",
                self.gpus.len()
            ));
        }
        if cpus > self.cpus {
            return Some(format!("the {many} runs need {cpus} CPUs at once, this machine has {}", self.cpus));
        }
        let gigabytes = |bytes: u64| bytes / 1_000_000_000;
        (memory > self.memory).then(|| {
            let (needs, has) = (gigabytes(memory), gigabytes(self.memory));
            format!("the {many} runs need {needs} GB of memory at once, this machine has {has} GB")
        })
    }
}

impl Slots {
    /// As [`Slots::wait`]; the caller has checked [`Capacity::refuse_together`].
    pub fn wait_together(&mut self, rank: u64, mut members: Vec<(RunId, Demand)>) {
        members.retain(|(run, _)| !self.held.contains_key(run) && !self.places.contains_key(run));
        members.sort_by_key(|(run, demand)| (std::cmp::Reverse(size(demand.gpus)), *run));
        self.places.extend(members.iter().map(|(run, _)| (*run, rank)));
        if !members.is_empty() {
            self.gangs.push(Gang { rank, members });
        }
    }

    pub(super) fn leave_gang(&mut self, run: RunId) {
        self.gangs.iter_mut().for_each(|gang| gang.members.retain(|(member, _)| *member != run));
        self.gangs.retain(|gang| !gang.members.is_empty());
    }

    /// Each gang under the name of its first run.
    pub(super) fn gang_fronts(&self) -> Vec<(u64, RunId, Demand)> {
        let front = |gang: &Gang| gang.members.first().map(|(run, demand)| (gang.rank, *run, *demand));
        self.gangs.iter().filter_map(front).collect()
    }

    pub(super) fn is_gang(&self, run: RunId) -> bool {
        self.gang(run).is_some()
    }

    fn gang(&self, run: RunId) -> Option<usize> {
        self.gangs.iter().position(|gang| gang.members.first().is_some_and(|(first, _)| *first == run))
    }

    /// The first of its runs, once all are placed; the others follow.
    pub(super) fn start_gang(&mut self, run: RunId) -> Option<(RunId, Slot)> {
        let index = self.gang(run)?;
        let Some(places) = self.gangs.get(index).and_then(|gang| self.fit_gang(run, gang)) else {
            self.reserve_for_gang(run, index);
            return None;
        };
        let gang = self.gangs.remove(index);
        for ((run, demand), chosen) in gang.members.into_iter().zip(places) {
            let devices = chosen.into_iter().filter_map(|device| self.capacity.gpus.get(device)).cloned().collect();
            let slot = Slot { demand, devices };
            self.places.remove(&run);
            self.occupy(run, slot.clone());
            self.placed.push_back((run, slot));
        }
        self.placed.pop_front()
    }

    fn fit_gang(&self, run: RunId, gang: &Gang) -> Option<Vec<Vec<usize>>> {
        let (cpus, memory) = gang.sum();
        let kept = self.has_room(run, cpus, memory)?;
        spread(&self.used.gpus, gang.gpus(), kept)
    }

    fn reserve_for_gang(&mut self, run: RunId, index: usize) {
        let Some(gang) = self.gangs.get(index).filter(|_| self.reservation.is_none()) else { return };
        let (cpus, memory) = gang.sum();
        // As many as it would take on an idle machine.
        let idle = spread(&vec![0; self.used.gpus.len()], gang.gpus(), &[]).unwrap_or_default();
        let gpus = idle.into_iter().flatten().collect::<BTreeSet<usize>>().len();
        self.reserve_devices(run, cpus, memory, gpus);
    }
}

/// How much it takes, to tell the greediest.
fn size(gpus: Gpus) -> u64 {
    match gpus {
        Gpus::Whole(count) => u64::from(count) * u64::from(Gpus::UNITS),
        share @ Gpus::Share(_) => u64::from(share.units()),
    }
}

/// Devices for each, one after the other.
fn spread(used: &[u32], wanted: impl Iterator<Item = Gpus>, kept: &[usize]) -> Option<Vec<Vec<usize>>> {
    let mut used = used.to_vec();
    let place = |gpus: Gpus| {
        let chosen = devices(&used, gpus, kept)?;
        for device in &chosen {
            if let Some(units) = used.get_mut(*device) {
                *units += gpus.units();
            }
        }
        Some(chosen)
    };
    wanted.map(place).collect()
}
