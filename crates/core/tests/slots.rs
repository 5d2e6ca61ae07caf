//! The slot table: never too much at once, and nobody waits for ever.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use trainyard_core::id::RunId;
use trainyard_core::plan::slots::{Capacity, Demand, Slot, Slots};
use trainyard_core::spec::Gpus;

fn id(number: u128) -> RunId {
    RunId(uuid::Uuid::from_u128(number))
}

fn machine(cpus: u32, gpus: u32) -> Capacity {
    Capacity { cpus, memory: 64, gpus: (0..gpus).map(|device| device.to_string()).collect() }
}

fn demand() -> impl Strategy<Value = Demand> {
    let gpus = prop_oneof![(0..=4_u32).prop_map(Gpus::Whole), (2..=16_u32).prop_map(Gpus::Share)];
    (1..=8_u32, 0..=64_u64, gpus).prop_map(|(cpus, memory, gpus)| Demand { cpus, memory, gpus })
}

/// What is running, checked by hand.
fn check(capacity: &Capacity, running: &BTreeMap<u128, Slot>) {
    let cpus: u32 = running.values().map(|slot| slot.demand.cpus).sum();
    let memory: u64 = running.values().map(|slot| slot.demand.memory).sum();
    assert!(cpus <= capacity.cpus && memory <= capacity.memory);
    for device in &capacity.gpus {
        let on_it: Vec<&Slot> = running.values().filter(|slot| slot.devices.contains(device)).collect();
        let units: u64 = on_it.iter().map(|slot| u64::from(slot.demand.gpus.units())).sum();
        assert!(units <= u64::from(Gpus::UNITS), "GPU {device} is overcommitted");
    }
}

proptest! {
    #[test]
    fn never_too_much_and_all_get_their_turn(demands in prop::collection::vec(demand(), 1..60), order in any::<u64>()) {
        let capacity = machine(8, 4);
        let mut slots = Slots::new(capacity.clone());
        for (number, demand) in demands.iter().enumerate() {
            prop_assert_eq!(capacity.refuse(demand), None);
            slots.wait(id(number as u128), number as u64, *demand);
        }
        let mut running = BTreeMap::new();
        let (mut done, mut steps) = (0, order);
        loop {
            while let Some((run, slot)) = slots.start_next() {
                running.insert(run.0.as_u128(), slot);
                check(&capacity, &running);
            }
            steps = steps.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let Some(ends) = running.keys().nth((steps >> 33) as usize % running.len().max(1)).copied() else { break };
            running.remove(&ends);
            slots.release(id(ends));
            done += 1;
        }
        prop_assert_eq!(done, demands.len(), "somebody never got a turn");
        prop_assert_eq!(slots.waiting(), 0);
    }

    /// A stream of small runs that never ends cannot keep a large one out: it starts once those that were running
    /// when it came have ended.
    #[test]
    fn small_runs_do_not_starve_a_large_one(small in prop::collection::vec(1..=3_u32, 1..8), gpus in 0..=1_u32) {
        let mut slots = Slots::new(machine(4, 2));
        let small_one = |cpus: u32| Demand { cpus, memory: 0, gpus: if gpus == 1 { Gpus::Share(2) } else { Gpus::Whole(0) } };
        slots.wait(id(0), 0, small_one(2));
        slots.wait(id(1), 1, small_one(2));
        let before: Vec<RunId> = std::iter::from_fn(|| slots.start_next()).map(|(run, _)| run).collect();
        let large = Demand { cpus: 4, memory: 0, gpus: Gpus::Whole(2 * gpus) };
        slots.wait(id(2), 2, large);
        for (number, cpus) in small.iter().cycle().take(200).enumerate() {
            slots.wait(id(100 + number as u128), 100 + number as u64, small_one(*cpus));
        }
        let mut started: Vec<RunId> = Vec::new();
        let mut drain = |slots: &mut Slots| started.extend(std::iter::from_fn(|| slots.start_next()).map(|(run, _)| run));
        drain(&mut slots);
        for run in before {
            slots.release(run);
            drain(&mut slots);
        }
        // Younger ones that were let in may still run, but they left room.
        prop_assert!(started.contains(&id(2)), "still waiting behind {started:?}");
    }
}

#[test]
fn younger_runs_use_what_a_waiting_large_one_does_not_need() {
    let mut slots = Slots::new(machine(8, 2));
    let wants = |cpus, gpus| Demand { cpus, memory: 0, gpus };
    slots.wait(id(1), 1, wants(1, Gpus::Whole(1)));
    slots.wait(id(2), 2, wants(1, Gpus::Whole(2)));
    slots.wait(id(3), 3, wants(1, Gpus::Whole(1)));
    slots.wait(id(4), 4, wants(7, Gpus::Whole(0)));
    let started: Vec<RunId> = std::iter::from_fn(|| slots.start_next()).map(|(run, _)| run).collect();
    assert_eq!(started, [id(1), id(4)], "2 waits for both GPUs, 3 must not take one, 4 needs none");
    slots.release(id(1));
    assert_eq!(slots.start_next().unwrap().0, id(2));
}

#[test]
fn a_thousand_waiting_runs_of_one_kind_are_looked_at_once() {
    let mut slots = Slots::new(machine(1, 0));
    let one = Demand { cpus: 1, memory: 0, gpus: Gpus::Whole(0) };
    for number in 0..1000_u64 {
        slots.wait(id(u128::from(number)), number, one);
    }
    for number in 0..1000_u128 {
        assert_eq!(slots.start_next().unwrap().0, id(number), "first in, first out");
        assert_eq!(slots.start_next(), None);
        slots.release(id(number));
    }
}

#[test]
fn what_was_found_running_counts_even_where_it_does_not_fit() {
    let mut slots = Slots::new(machine(2, 1));
    let demand = Demand { cpus: 3, memory: 0, gpus: Gpus::Whole(1) };
    slots.adopt(id(1), Slot { demand, devices: vec!["0".to_owned()] });
    slots.wait(id(2), 2, Demand { cpus: 1, memory: 0, gpus: Gpus::Share(2) });
    assert_eq!(slots.start_next(), None);
    slots.release(id(1));
    assert_eq!(slots.start_next().unwrap().0, id(2));
}

#[test]
fn a_machine_that_turns_out_larger_is_used_at_once() {
    let mut slots = Slots::new(machine(1, 0));
    let one = Demand { cpus: 1, memory: 0, gpus: Gpus::Whole(0) };
    slots.wait(id(1), 1, one);
    slots.wait(id(2), 2, one);
    assert!(slots.start_next().is_some() && slots.start_next().is_none());
    slots.resize(machine(2, 0));
    assert_eq!(slots.start_next().unwrap().0, id(2));
    assert_eq!(slots.start_next(), None);
}

proptest! {
    /// Gangs start whole, never too much at once, and all get their turn beside single runs.
    #[test]
    fn gangs_start_whole_and_never_block_each_other(
        gangs in prop::collection::vec(prop::collection::vec(demand(), 1..4), 1..20),
        order in any::<u64>(),
    ) {
        let capacity = machine(8, 4);
        let mut slots = Slots::new(capacity.clone());
        let (mut of, mut wanted, mut number) = (BTreeMap::new(), 0, 0_u128);
        for (rank, gang) in gangs.iter().enumerate() {
            let members: Vec<(RunId, Demand)> = gang.iter().map(|demand| { number += 1; (id(number), *demand) }).collect();
            if let [(run, demand)] = members[..] {
                slots.wait(run, rank as u64, demand);
            } else if capacity.refuse_together(gang).is_none() {
                of.extend(members.iter().map(|(run, _)| (run.0.as_u128(), (rank, members.len()))));
                slots.wait_together(rank as u64, members.clone());
            } else {
                continue;
            }
            wanted += members.len();
        }
        let (mut running, mut begun) = (BTreeMap::new(), BTreeMap::<usize, usize>::new());
        let (mut done, mut steps) = (0, order);
        loop {
            while let Some((run, slot)) = slots.start_next() {
                running.insert(run.0.as_u128(), slot);
                check(&capacity, &running);
                if let Some((gang, _)) = of.get(&run.0.as_u128()) {
                    *begun.entry(*gang).or_default() += 1;
                }
            }
            for (gang, size) in of.values() {
                prop_assert!(begun.get(gang).is_none_or(|count| count == size), "a part of a gang was started");
            }
            steps = steps.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let Some(ends) = running.keys().nth((steps >> 33) as usize % running.len().max(1)).copied() else { break };
            running.remove(&ends);
            slots.release(id(ends));
            done += 1;
        }
        prop_assert_eq!(done, wanted, "somebody never got a turn");
    }
}

#[test]
fn what_never_fits_at_once_is_said() {
    let one = Demand { cpus: 2, memory: 0, gpus: Gpus::Whole(1) };
    let capacity = machine(4, 2);
    assert_eq!(capacity.refuse_together(&[one, one]), None);
    let why = capacity.refuse_together(&[one, one, one]).unwrap();
    assert_eq!(why, "the 3 runs need more GPUs at once than the 2 of this machine");
    let two = Demand { gpus: Gpus::Share(2), ..one };
    assert_eq!(
        capacity.refuse_together(&[two, two, two]).unwrap(),
        "the 3 runs need 6 CPUs at once, this machine has 4"
    );
}

#[test]
fn a_member_that_leaves_does_not_keep_the_others() {
    let one = Demand { cpus: 2, memory: 0, gpus: Gpus::Whole(0) };
    let mut slots = Slots::new(machine(2, 0));
    slots.wait_together(0, vec![(id(1), one), (id(2), one)]);
    assert_eq!(slots.start_next(), None);
    slots.release(id(1));
    assert_eq!(slots.start_next().unwrap().0, id(2));
}
