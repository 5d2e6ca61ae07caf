//! The slot table of one machine: CPUs, memory and GPUs, shares of a GPU included, and who goes next.
//!
//! First in, first out, with backfill that cannot starve a large run. When the oldest run does not fit, what it
//! needs is reserved: certain GPUs, and an amount of CPUs and memory. Younger runs may start on what is left
//! over. So once the runs that were there before the reservation have ended, the oldest run fits, however many
//! younger ones have started meanwhile. No guess about how long anything takes is needed.

mod together;

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::id::RunId;
use crate::spec::Gpus;
use together::Gang;

/// What one run occupies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Demand {
    pub cpus: u32,
    pub memory: u64,
    pub gpus: Gpus,
}

/// What the machine has. GPUs are known by what `CUDA_VISIBLE_DEVICES` calls them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Capacity {
    pub cpus: u32,
    pub memory: u64,
    pub gpus: Vec<String>,
}

impl Capacity {
    /// Why a run could never start here, even on an idle machine.
    pub fn refuse(&self, demand: &Demand) -> Option<String> {
        let gpus = u32::try_from(self.gpus.len()).unwrap_or(u32::MAX);
        let wanted = match demand.gpus {
            Gpus::Whole(count) => count,
            Gpus::Share(_) => 1,
        };
        if wanted > gpus {
            return Some(format!("needs {} GPU, this machine has {gpus}", demand.gpus));
        }
        if demand.cpus > self.cpus {
            return Some(format!("needs {} CPUs, this machine has {}", demand.cpus, self.cpus));
        }
        if demand.memory > self.memory {
            let gigabytes = |bytes: u64| bytes / 1_000_000_000;
            let (needs, has) = (gigabytes(demand.memory), gigabytes(self.memory));
            return Some(format!("needs {needs} GB of memory, this machine has {has} GB"));
        }
        None
    }
}

/// A run's place in the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    pub demand: Demand,
    /// Names from [`Capacity::gpus`].
    pub devices: Vec<String>,
}

impl Slot {
    /// Where others choose the devices.
    pub fn of(demand: Demand) -> Self {
        Self { demand, devices: Vec::new() }
    }
}

#[derive(Debug)]
struct Held {
    slot: Slot,
    /// When it was placed, to tell the runs that came after a reservation.
    order: u64,
}

/// The oldest waiting run that does not fit, and what is kept for it.
#[derive(Debug)]
struct Reservation {
    run: RunId,
    cpus: u32,
    memory: u64,
    devices: Vec<usize>,
    since: u64,
}

/// Who occupies what, and who waits.
#[derive(Debug)]
pub struct Slots {
    capacity: Capacity,
    held: HashMap<RunId, Held>,
    used: Used,
    waiting: BTreeMap<Demand, VecDeque<(u64, RunId)>>,
    /// Where each waiting run stands; an entry of `waiting` that is not here was withdrawn.
    places: HashMap<RunId, u64>,
    /// Runs that start at once or not at all.
    gangs: Vec<Gang>,
    /// Of a gang that was placed, those that are still to be told.
    placed: VecDeque<(RunId, Slot)>,
    reservation: Option<Reservation>,
    order: u64,
}

#[derive(Debug, Clone, Default)]
struct Used {
    cpus: u32,
    memory: u64,
    /// Per device, in [`Gpus::UNITS`].
    gpus: Vec<u32>,
}

impl Slots {
    pub fn new(capacity: Capacity) -> Self {
        let used = Used { gpus: vec![0; capacity.gpus.len()], ..Used::default() };
        Self {
            capacity,
            held: HashMap::new(),
            used,
            waiting: BTreeMap::new(),
            places: HashMap::new(),
            gangs: Vec::new(),
            placed: VecDeque::new(),
            reservation: None,
            order: 0,
        }
    }

    pub fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    /// The machine is said to be another one now. What runs goes on; only what is placed from here on is affected.
    pub fn resize(&mut self, capacity: Capacity) {
        self.used = Used { gpus: vec![0; capacity.gpus.len()], ..Used::default() };
        self.capacity = capacity;
        self.reservation = None;
        let slots: Vec<Slot> = self.held.values().map(|held| held.slot.clone()).collect();
        for slot in &slots {
            self.count(slot, u32::wrapping_add, u64::wrapping_add);
        }
    }

    pub fn waiting(&self) -> usize {
        self.places.len()
    }

    pub fn running(&self) -> usize {
        self.held.len()
    }

    /// `rank` orders the queue: lower goes first. The caller has checked [`Capacity::refuse`].
    pub fn wait(&mut self, run: RunId, rank: u64, demand: Demand) {
        if self.held.contains_key(&run) || self.places.insert(run, rank).is_some() {
            return;
        }
        let queue = self.waiting.entry(demand).or_default();
        let at = queue.partition_point(|(other, _)| *other <= rank);
        queue.insert(at, (rank, run));
    }

    /// Takes a run out of the queue, or frees what it occupied; either may be the case.
    pub fn release(&mut self, run: RunId) {
        if self.places.remove(&run).is_some() {
            self.leave_gang(run);
        }
        if self.reservation.as_ref().is_some_and(|reserved| reserved.run == run) {
            self.reservation = None;
        }
        if let Some(held) = self.held.remove(&run) {
            self.count(&held.slot, u32::wrapping_sub, u64::wrapping_sub);
        }
    }

    /// Enters a run that is already going, as found after a restart. What it occupies is a fact, so this never refuses.
    pub fn adopt(&mut self, run: RunId, slot: Slot) {
        self.occupy(run, slot);
    }

    /// The next run that may start now, with its place.
    pub fn start_next(&mut self) -> Option<(RunId, Slot)> {
        if let Some(placed) = self.placed.pop_front() {
            return Some(placed);
        }
        let mut candidates = self.fronts();
        candidates.extend(self.gang_fronts());
        candidates.sort_unstable_by_key(|(rank, _, _)| *rank);
        for (_, run, demand) in candidates {
            if self.is_gang(run) {
                match self.start_gang(run) {
                    Some(first) => return Some(first),
                    None => continue,
                }
            }
            if let Some(devices) = self.fit(run, &demand) {
                self.pop(&demand);
                let devices =
                    devices.into_iter().filter_map(|device| self.capacity.gpus.get(device)).cloned().collect();
                let slot = Slot { demand, devices };
                self.occupy(run, slot.clone());
                return Some((run, slot));
            }
            if self.reservation.is_none() {
                self.reserve(run, &demand);
            }
        }
        None
    }

    /// The first waiting run of each demand: if it does not fit, none behind it does.
    fn fronts(&mut self) -> Vec<(u64, RunId, Demand)> {
        let places = &self.places;
        self.waiting.retain(|_, queue| {
            while queue.front().is_some_and(|(rank, run)| places.get(run) != Some(rank)) {
                queue.pop_front();
            }
            !queue.is_empty()
        });
        self.waiting
            .iter()
            .filter_map(|(demand, queue)| queue.front().map(|(rank, run)| (*rank, *run, *demand)))
            .collect()
    }

    fn pop(&mut self, demand: &Demand) {
        if let Some((_, run)) = self.waiting.get_mut(demand).and_then(VecDeque::pop_front) {
            self.places.remove(&run);
        }
    }

    fn occupy(&mut self, run: RunId, slot: Slot) {
        self.order += 1;
        self.count(&slot, u32::wrapping_add, u64::wrapping_add);
        if self.reservation.as_ref().is_some_and(|reserved| reserved.run == run) {
            self.reservation = None;
        }
        self.held.insert(run, Held { slot, order: self.order });
    }

    fn count(&mut self, slot: &Slot, small: fn(u32, u32) -> u32, large: fn(u64, u64) -> u64) {
        self.used.cpus = small(self.used.cpus, slot.demand.cpus);
        self.used.memory = large(self.used.memory, slot.demand.memory);
        for device in &slot.devices {
            let index = self.capacity.gpus.iter().position(|name| name == device);
            if let Some(units) = index.and_then(|index| self.used.gpus.get_mut(index)) {
                *units = small(*units, slot.demand.gpus.units());
            }
        }
    }

    /// The devices for this run, if it may start now.
    fn fit(&self, run: RunId, demand: &Demand) -> Option<Vec<usize>> {
        let kept = self.has_room(run, demand.cpus, demand.memory)?;
        devices(&self.used.gpus, demand.gpus, kept)
    }

    /// Whether there are so many CPUs and so much memory for it; then, which GPUs are kept for another.
    fn has_room(&self, run: RunId, cpus: u32, memory: u64) -> Option<&[usize]> {
        let free = self.used.cpus + cpus <= self.capacity.cpus && self.used.memory + memory <= self.capacity.memory;
        let reservation = self.reservation.as_ref().filter(|reserved| reserved.run != run);
        if !free || !reservation.is_none_or(|reserved| self.leaves_room(reserved, cpus, memory)) {
            return None;
        }
        Some(reservation.map_or(&[][..], |reserved| &reserved.devices))
    }

    /// Whether the reserved run still fits beside this and all others that came after the reservation.
    fn leaves_room(&self, reserved: &Reservation, cpus: u32, memory: u64) -> bool {
        let later = self.held.values().filter(|held| held.order > reserved.since).map(|held| held.slot.demand);
        let (cpus, memory) =
            later.fold((cpus, memory), |(cpus, memory), other| (cpus + other.cpus, memory + other.memory));
        cpus + reserved.cpus <= self.capacity.cpus && memory + reserved.memory <= self.capacity.memory
    }

    /// Keeps the least occupied GPUs for the run: they will be free first.
    fn reserve(&mut self, run: RunId, demand: &Demand) {
        let wanted = match demand.gpus {
            Gpus::Whole(count) => count as usize,
            Gpus::Share(_) => 1,
        };
        self.reserve_devices(run, demand.cpus, demand.memory, wanted);
    }

    fn reserve_devices(&mut self, run: RunId, cpus: u32, memory: u64, gpus: usize) {
        let mut devices: Vec<usize> = (0..self.used.gpus.len()).collect();
        devices.sort_by_key(|device| self.used.gpus.get(*device).copied().unwrap_or(0));
        devices.truncate(gpus);
        self.reservation = Some(Reservation { run, cpus, memory, devices, since: self.order });
    }
}

/// Whole GPUs must be empty; a share goes to the fullest GPU that still has room, so that empty ones stay empty. `used` is
/// what is taken of each, `kept` those that are none of ours.
fn devices(used: &[u32], gpus: Gpus, kept: &[usize]) -> Option<Vec<usize>> {
    let open = |device: &usize| !kept.contains(device);
    match gpus {
        Gpus::Whole(count) => {
            let empty = used.iter().enumerate().filter(|(_, used)| **used == 0).map(|(device, _)| device).filter(open);
            let chosen: Vec<usize> = empty.take(count as usize).collect();
            (chosen.len() == count as usize).then_some(chosen)
        }
        Gpus::Share(_) => {
            let fits = |used: u32| used + gpus.units() <= Gpus::UNITS;
            let candidates = used.iter().enumerate().filter(|(device, used)| open(device) && fits(**used));
            candidates.max_by_key(|(device, used)| (**used, std::cmp::Reverse(*device))).map(|(device, _)| vec![device])
        }
    }
}
