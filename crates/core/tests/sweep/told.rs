//! Sweeps that are told one thing after another.

use trainyard_core::search::{Deed, End, Fate, Leg, Outcome, Phase, Report, Role, Spent, Sweep};
use trainyard_core::spec::More;
use trainyard_core::time::Span;
use trainyard_core::value::Value;

use crate::world::{Books, spec};

#[test]
fn a_lost_run_is_made_again_and_a_failed_one_is_not() {
    let spec = spec("trials = 10\nparallel = 1\nrepeats = 1");
    let mut sweep = Sweep::new(spec).unwrap();
    sweep.fill(Spent::default(), 1);
    let lost = sweep.open().next().unwrap();
    let (first, params) = (sweep.leg(lost).unwrap().clone(), sweep.params_of(0));
    sweep.ended(lost, Outcome::Lost, &[]);
    sweep.fill(Spent::default(), 1);
    let again = sweep.leg(sweep.open().next().unwrap()).unwrap().clone();
    assert_eq!((again.trial, again.seed, again.from), (0, first.seed, Some(lost)));
    assert_eq!(sweep.params_of(0), params);
    let second = sweep.open().next().unwrap();
    sweep.ended(second, Outcome::Failed, &[]);
    sweep.fill(Spent::default(), 1);
    assert_eq!(sweep.leg(sweep.open().next().unwrap()).unwrap().trial, 1);
    assert_eq!(sweep.trials()[0].fate, Fate::Failed);
}

#[test]
fn success_without_a_number_is_a_failure() {
    let mut sweep = Sweep::new(spec("trials = 4\nrepeats = 1")).unwrap();
    sweep.fill(Spent::default(), 1);
    sweep.ended(0, Outcome::Succeeded, &[]);
    assert_eq!(sweep.trials()[0].fate, Fate::Failed);
}

#[test]
fn time_and_gpu_hours_end_a_sweep() {
    let mut sweep = Sweep::new(spec("parallel = 2\nrepeats = 1\nbudget = { gpu-hours = 2.0, time = \"1h\" }")).unwrap();
    sweep.fill(Spent { seconds: 10.0, gpu_hours: 1.9 }, 1);
    assert_eq!(sweep.open().count(), 2);
    let late = Spent { seconds: 10.0, gpu_hours: 2.1 };
    for leg in [0, 1] {
        sweep.ended(leg, Outcome::Succeeded, &[Report { step: 1, value: 1.0 }]);
    }
    sweep.fill(late, 1);
    assert_eq!(sweep.open().count(), 0);
    assert!(matches!(sweep.phase(late), Phase::Done { gave_up: false, .. }));
}

#[test]
fn points_are_tried_first_and_exactly_as_written() {
    let mut sweep =
        Sweep::new(spec("trials = 4\nparallel = 2\nrepeats = 1\npoints = [{ x = 0.1 }, { x = 0.3, y = 7 }]")).unwrap();
    sweep.fill(Spent::default(), 1);
    assert_eq!(sweep.trials()[0].params["x"], Value::Float(0.1));
    assert_eq!(sweep.trials()[1].params, [("x".to_owned(), Value::Float(0.3)), ("y".to_owned(), Value::Int(7))].into());
}

#[test]
fn a_confirming_run_that_is_cancelled_does_not_hold_up_the_sweep() {
    let mut sweep = Sweep::new(spec("sampler = \"random\"\ntrials = 10\nparallel = 1\nretries = 0")).unwrap();
    let mut begun = 0;
    loop {
        sweep.fill(Spent::default(), 1);
        let Some(leg) = sweep.open().next() else { break };
        begun += 1;
        assert!(begun <= 10, "more runs than the budget has");
        match sweep.leg(leg).unwrap().role {
            Role::Confirm { index: 0 } => sweep.ended(leg, Outcome::Cancelled, &[]),
            Role::Confirm { .. } => sweep.ended(leg, Outcome::Lost, &[]),
            _ => sweep.ended(leg, Outcome::Succeeded, &[Report { step: 1, value: f64::from(leg) }]),
        }
    }
    assert!(matches!(sweep.phase(Spent::default()), Phase::Done { gave_up: false, .. }));
}

pub(crate) fn begun(sweep: &mut Sweep) -> Vec<u32> {
    sweep.fill(Spent::default(), 1);
    sweep.open().collect()
}

fn points(value: f64) -> [Report; 1] {
    [Report { step: 4, value }]
}

#[test]
fn a_seed_that_its_time_limit_ends_counts_with_what_it_reached() {
    let mut sweep = Sweep::new(spec("trials = 2\nparallel = 3\nrepeats = 3")).unwrap();
    let first = begun(&mut sweep)[0];
    sweep.ended(first, Outcome::OutOfTime, &points(1.0));
    let seeds: Vec<u32> = begun(&mut sweep).into_iter().filter(|leg| sweep.leg(*leg).unwrap().trial == 0).collect();
    assert_eq!(seeds.len(), 2);
    sweep.ended(seeds[0], Outcome::Succeeded, &points(2.0));
    sweep.ended(seeds[1], Outcome::OutOfTime, &points(3.0));
    assert_eq!(sweep.trials()[0].fate, Fate::Done { value: 2.0 }, "the mean of all three");
}

#[test]
fn a_seed_that_fails_spares_the_others_and_counts_once() {
    let mut sweep = Sweep::new(spec("trials = 9\nparallel = 2\nrepeats = 4\ngive-up = 2")).unwrap();
    let first = begun(&mut sweep)[0];
    sweep.ended(first, Outcome::Succeeded, &points(1.0));
    let of_first = |sweep: &Sweep| -> Vec<u32> {
        sweep.legs_of(0).filter(|(leg, ..)| sweep.open().any(|open| open == *leg)).map(|(leg, ..)| leg).collect()
    };
    begun(&mut sweep);
    assert_eq!(of_first(&sweep).len(), 1, "the place of the first");
    let other = sweep.open().find(|leg| sweep.leg(*leg).unwrap().trial == 1).unwrap();
    sweep.ended(other, Outcome::Succeeded, &points(1.0));
    begun(&mut sweep);
    let [second, third] = of_first(&sweep)[..] else { panic!("{:?}", of_first(&sweep)) };
    sweep.deeds();
    sweep.ended(second, Outcome::Failed, &[]);
    let deeds = sweep.deeds();
    assert!(deeds.contains(&Deed::Stop { leg: third }), "{deeds:?}");
    assert!(deeds.iter().any(|deed| matches!(deed, Deed::Ended { end: End::Withdrawn, .. })), "the fourth: {deeds:?}");
    assert!(sweep.sentenced().contains(&third));
    sweep.ended(third, Outcome::Failed, &[]);
    assert_eq!(sweep.trials()[0].fate, Fate::Failed);
    assert!(!matches!(sweep.phase(Spent::default()), Phase::Done { .. }), "one configuration has failed, not two");
    assert!(begun(&mut sweep).iter().all(|leg| sweep.leg(*leg).unwrap().trial != 0));
}

#[test]
fn failures_count_in_the_order_they_come_also_after_a_crash() {
    let spec = spec("sampler = \"random\"\ntrials = 90\nparallel = 3\nrepeats = 1\ngive-up = 3");
    let (mut sweep, mut books) = (Sweep::new(spec.clone()).unwrap(), Books::new(&spec));
    let [slow, first, second] = begun(&mut sweep)[..] else { panic!() };
    sweep.ended(first, Outcome::Failed, &[]);
    sweep.ended(second, Outcome::Failed, &[]);
    // The slow one began before those and succeeds after them.
    sweep.ended(slow, Outcome::Succeeded, &points(1.0));
    for _ in 0..2 {
        let next = begun(&mut sweep)[0];
        sweep.ended(next, Outcome::Failed, &[]);
    }
    sweep.deeds().into_iter().for_each(|deed| books.write(deed));
    for sweep in [&mut sweep, &mut books.restore()] {
        assert!(!matches!(sweep.phase(Spent::default()), Phase::Done { .. }));
        let next = begun(sweep)[0];
        sweep.ended(next, Outcome::Failed, &[]);
        assert!(matches!(sweep.phase(Spent::default()), Phase::Done { gave_up: true, .. }));
    }
}

#[test]
fn a_race_fits_into_the_time_that_is_left() {
    let mut sweep =
        Sweep::new(spec("sampler = \"random\"\ntrials = 100\nparallel = 1\nbudget = { time = \"100s\" }")).unwrap();
    for second in 0..2_000 {
        sweep.fill(Spent { seconds: f64::from(second) * 10.0, gpu_hours: 0.0 }, 1);
        let Some(leg) = sweep.open().next() else { break };
        sweep.ended(leg, Outcome::Succeeded, &points(f64::from(leg)));
    }
    let (searched, confirmed) = sweep.tally();
    assert_eq!((searched, confirmed), (7, 3), "ten of ten seconds each");
}

/// A population of three of which the last copies from the first.
fn copying() -> (Sweep, Leg) {
    let kind = "trials = 3\nparallel = 3\nsampler = \"random\"\nstop = { scheduler = \"pbt\", every = 4 }";
    let mut sweep = Sweep::new(spec(kind)).unwrap();
    let [best, middle, worst] = begun(&mut sweep)[..] else { panic!() };
    for (leg, value) in [(middle, 2.0), (best, 3.0), (worst, 1.0)] {
        sweep.course(leg, &points(value));
    }
    assert_eq!(sweep.sentenced(), [worst]);
    sweep.ended(worst, Outcome::Cancelled, &points(1.0));
    let copy = *begun(&mut sweep).last().unwrap();
    let leg = sweep.leg(copy).unwrap().clone();
    assert_eq!((leg.trial, leg.from), (2, Some(best)));
    (sweep, leg)
}

#[test]
fn a_copy_that_cannot_be_made_goes_on_by_itself() {
    let (mut sweep, copy) = copying();
    let params = sweep.params_of(copy.trial);
    sweep.ended(3, Outcome::Lost, &[]);
    let begun = *begun(&mut sweep).last().unwrap();
    let again = sweep.leg(begun).unwrap().clone();
    assert_eq!((again.trial, again.from), (2, Some(2)), "from its own checkpoint");
    assert_eq!(sweep.params_of(2), params);
}

#[test]
fn a_leader_that_is_being_begun_again_is_copied_from_where_it_was() {
    let kind = "trials = 3\nparallel = 3\nsampler = \"random\"\nstop = { scheduler = \"pbt\", every = 4 }";
    let mut sweep = Sweep::new(spec(kind)).unwrap();
    let [best, middle, worst] = begun(&mut sweep)[..] else { panic!() };
    for (leg, value) in [(middle, 2.0), (best, 3.0), (worst, 1.0)] {
        sweep.course(leg, &points(value));
    }
    sweep.ended(best, Outcome::Lost, &points(3.0));
    sweep.ended(worst, Outcome::Cancelled, &points(1.0));
    let copy = sweep.legs_of(2).last().unwrap().1.clone();
    assert_eq!(copy.from, Some(best), "not the leg that waits, which has no checkpoint yet");
}

#[test]
fn only_what_a_budget_is_counted_in_can_be_extended() {
    let more = More { trials: Some(5), ..More::default() };
    assert_eq!(spec("trials = 10").extended(&more).unwrap().trials, Some(15));
    let timed = spec("budget = { time = \"1h\" }");
    let said = timed.extended(&more).unwrap_err().to_string();
    assert!(said.contains("time"), "{said}");
    let longer = timed.extended(&More { time: Some(Span::seconds(1800)), ..More::default() }).unwrap();
    assert_eq!(longer.budget.time, Some(Span::seconds(5400)));
}

#[test]
fn a_trial_promoted_before_its_run_has_ended_waits_for_that() {
    let stop = "stop = { scheduler = \"asha\", first = 4, factor = 2, mode = \"pause\", last = 16 }";
    let mut sweep =
        Sweep::new(spec(&format!("trials = 9\nparallel = 2\nrepeats = 1\nsampler = \"random\"\n{stop}"))).unwrap();
    let [good, bad] = begun(&mut sweep)[..] else { panic!() };
    sweep.course(good, &points(2.0));
    sweep.course(bad, &points(1.0));
    assert_eq!(sweep.sentenced(), [good, bad]);
    sweep.ended(bad, Outcome::Cancelled, &points(1.0));
    // The better one is promoted, but its run has not ended.
    let again = begun(&mut sweep);
    assert!(again.iter().all(|leg| *leg == good || sweep.leg(*leg).unwrap().trial != 0), "{again:?}");
    sweep.ended(good, Outcome::Cancelled, &points(2.0));
    assert_eq!(sweep.trials()[0].fate, Fate::Pending, "it goes on");
    begun(&mut sweep);
    let leg = sweep.legs_of(0).last().unwrap();
    assert!(leg.1.from == Some(good) && leg.2.is_none() && sweep.open().any(|open| open == leg.0), "{leg:?}");
}
