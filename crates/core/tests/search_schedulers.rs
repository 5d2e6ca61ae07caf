//! Schedulers from outside: any trials, in any order, with any values.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use trainyard_core::search::{Outlook, Scheduler, Space, Verdict, rng, scheduler};
use trainyard_core::spec::{Dimension, Domain, SchedulerKind, StopMode, StopSpec};
use trainyard_core::value::{Params, Value};

fn space() -> Space {
    let plain = |domain| Dimension { domain, when: None };
    let text = |text: &str| Value::Text(text.to_owned());
    let dimensions = BTreeMap::from([
        ("lr".to_owned(), plain(Domain::LogUniform { low: 1e-5, high: 1e-1 })),
        ("gamma".to_owned(), plain(Domain::Uniform { low: 0.9, high: 0.999 })),
        ("shift".to_owned(), plain(Domain::Quantized { low: -1.0, high: 1.0, step: 0.25 })),
        ("layers".to_owned(), plain(Domain::Int { low: 1, high: 8 })),
        ("width".to_owned(), plain(Domain::LogInt { low: 8, high: 512 })),
        ("envs".to_owned(), plain(Domain::PowerOfTwo { low: 64, high: 1024 })),
        ("optimizer".to_owned(), plain(Domain::Choice(vec![text("adam"), text("sgd")]))),
        (
            "momentum".to_owned(),
            Dimension { domain: Domain::Uniform { low: 0.0, high: 0.9 }, when: Some("optimizer == 'sgd'".to_owned()) },
        ),
        ("size".to_owned(), plain(Domain::Ordinal(vec![text("s"), text("m"), text("l")]))),
        ("batch".to_owned(), plain(Domain::Derived("envs * layers".to_owned()))),
    ]);
    Space::new(&dimensions, &["layers * width <= 2048".to_owned()]).unwrap()
}

/// What happened to the trials of one sweep.
#[derive(Debug, Default, PartialEq)]
struct Course {
    verdicts: Vec<(u32, i64, Verdict)>,
    promoted: Vec<u32>,
    /// The step each has reached, and whether it was stopped on the way.
    steps: BTreeMap<u32, i64>,
    stopped: BTreeSet<u32>,
    paused: BTreeSet<u32>,
}

/// Losses of a trial at a step.
type Curve<'a> = &'a dyn Fn(u32, i64) -> f64;

/// Takes `trials` trials to `last` in strides, `parallel` at a time, whoever `order` points at being next.
fn drive(spec: &StopSpec, trials: u32, parallel: usize, last: i64, order: &[usize], curve: Curve<'_>) -> Course {
    let space = space();
    let mut judge = scheduler(Some(spec), &space, 7);
    let mut course = Course::default();
    let (mut going, mut begun): (Vec<u32>, u32) = (Vec::new(), 0);
    for turn in 0.. {
        while going.len() < parallel && begun < trials {
            judge.begin(begun, &space.draw(&mut rng(7, begun)));
            course.steps.insert(begun, 0);
            going.push(begun);
            begun += 1;
        }
        while going.len() < parallel {
            let outlook = if going.is_empty() { Outlook::Last } else { Outlook::More };
            let Some(trial) = judge.promote(outlook) else { break };
            assert!(course.paused.remove(&trial), "{trial} was not paused");
            course.promoted.push(trial);
            going.push(trial);
        }
        if going.is_empty() {
            return course;
        }
        assert!(turn < 1_000_000, "it does not end");
        let place = order[turn % order.len()] % going.len();
        let trial = going[place];
        let step = course.steps.get_mut(&trial).unwrap();
        *step = judge.next_step(trial).filter(|next| *next < last).unwrap_or(last);
        if *step == last {
            judge.end(trial);
            going.remove(place);
            continue;
        }
        let verdict = judge.judge(trial, *step, curve(trial, *step));
        match &verdict {
            Verdict::Continue => {}
            Verdict::Stop => drop(course.stopped.insert(trial)),
            Verdict::Pause => drop(course.paused.insert(trial)),
            Verdict::Replace { leader, params } => {
                assert_ne!(*leader, trial);
                assert!(space.contains(params), "{params:?}");
            }
        }
        if matches!(verdict, Verdict::Stop | Verdict::Pause) {
            going.remove(place);
        }
        course.verdicts.push((trial, *step, verdict));
    }
    course
}

fn kinds() -> Vec<StopSpec> {
    let of = StopSpec::of;
    vec![
        of(SchedulerKind::None),
        StopSpec { first: 2, every: 3, ..of(SchedulerKind::Median) },
        StopSpec { last: Some(100), ..of(SchedulerKind::Asha) },
        StopSpec { last: Some(100), factor: 2, mode: StopMode::Pause, ..of(SchedulerKind::Asha) },
        StopSpec { last: Some(100), ..of(SchedulerKind::Hyperband) },
        StopSpec { last: Some(100), mode: StopMode::Pause, ..of(SchedulerKind::Hyperband) },
        StopSpec { first: 5, every: 5, ..of(SchedulerKind::Pbt) },
    ]
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![4 => -5.0..5.0f64, 2 => Just(0.0), 1 => Just(f64::NAN), 1 => Just(f64::INFINITY), 1 => Just(-0.0)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn told_the_same_it_says_the_same(
        values in prop::collection::vec(value(), 40),
        order in prop::collection::vec(0usize..64, 1..200),
        trials in 1u32..40,
        parallel in 1usize..9,
    ) {
        let curve = |trial: u32, step: i64| values[(trial as usize * 7 + step as usize) % values.len()];
        for spec in kinds() {
            let once = drive(&spec, trials, parallel, 100, &order, &curve);
            let again = drive(&spec, trials, parallel, 100, &order, &curve);
            prop_assert_eq!(&once, &again);
            // Nobody is forgotten: each has ended, was stopped, or waits.
            for (trial, step) in &once.steps {
                prop_assert!(*step == 100 || once.stopped.contains(trial) || once.paused.contains(trial));
            }
        }
    }

    #[test]
    fn the_best_goes_to_its_end(
        mut losses in prop::collection::vec(0.0..9.0f64, 1..60),
        best in any::<prop::sample::Index>(),
        order in prop::collection::vec(0usize..64, 1..200),
        parallel in 1usize..9,
    ) {
        let best = best.index(losses.len());
        losses[best] = -1.0;
        for spec in kinds() {
            let course = drive(&spec, losses.len() as u32, parallel, 100, &order, &|trial, _| losses[trial as usize]);
            prop_assert_eq!(course.steps[&(best as u32)], 100, "{:?}", spec);
        }
    }

    #[test]
    fn only_one_in_factor_is_promoted(
        losses in prop::collection::vec(value(), 1..80),
        factor in 2u32..5,
    ) {
        // All reach the first level before anybody is promoted.
        let spec = StopSpec { factor, mode: StopMode::Pause, last: Some(100), ..StopSpec::of(SchedulerKind::Asha) };
        let mut judge = scheduler(Some(&spec), &space(), 0);
        for (trial, loss) in (0u32..).zip(&losses) {
            judge.begin(trial, &Params::new());
            let goes_on = judge.judge(trial, 1, *loss) == Verdict::Continue;
            let better = losses[..trial as usize].iter().filter(|other| **other < *loss).count();
            prop_assert!(!goes_on || (loss.is_finite() && better < (trial as usize + 1) / factor as usize));
        }
        let mut promoted = Vec::new();
        while let Some(trial) = judge.promote(Outlook::More) {
            promoted.push(trial);
        }
        // Those that are promoted now are among the best of all.
        let places = losses.len() / factor as usize;
        prop_assert!(promoted.len() <= places);
        let loss = |trial: &u32| if losses[*trial as usize].is_finite() { losses[*trial as usize] } else { f64::INFINITY };
        let mut sorted: Vec<f64> = (0..losses.len() as u32).map(|trial| loss(&trial)).collect();
        sorted.sort_by(f64::total_cmp);
        prop_assert!(promoted.iter().all(|trial| loss(trial) <= sorted[places - 1]));
    }
}

fn asha(mode: StopMode) -> Box<dyn Scheduler> {
    scheduler(Some(&StopSpec { mode, last: Some(27), ..StopSpec::of(SchedulerKind::Asha) }), &space(), 0)
}

fn begin(judge: &mut dyn Scheduler, trials: std::ops::Range<u32>) {
    trials.for_each(|trial| judge.begin(trial, &Params::new()));
}

#[test]
fn levels_grow_by_the_factor_and_end_below_the_last_step() {
    let mut judge = asha(StopMode::Stop);
    begin(judge.as_mut(), 0..1);
    let mut steps = Vec::new();
    while let Some(step) = judge.next_step(0) {
        steps.push(step);
        assert_eq!(judge.judge(0, step, 1.0), Verdict::Continue);
    }
    assert_eq!(steps, [1, 3, 9]);
    assert_eq!(judge.next_step(5), None);
}

#[test]
fn a_jump_over_levels_is_judged_at_the_highest() {
    let mut judge = asha(StopMode::Stop);
    begin(judge.as_mut(), 0..3);
    assert_eq!(judge.judge(0, 11, 5.0), Verdict::Continue);
    assert_eq!(judge.next_step(0), None);
    // What it was worth at step 11 says nothing about others at step 1.
    assert_eq!(judge.judge(1, 1, 9.0), Verdict::Continue);
    assert_eq!(judge.judge(1, 9, 6.0), Verdict::Stop);
    assert_eq!(judge.next_step(1), None);
    assert_eq!(judge.judge(2, 0, 9.0), Verdict::Continue, "asked too early");
    assert_eq!(judge.next_step(2), Some(1));
}

#[test]
fn equal_values_stop_nobody_and_nan_is_the_worst() {
    let mut judge = asha(StopMode::Stop);
    begin(judge.as_mut(), 0..9);
    assert!((0..5).all(|trial| judge.judge(trial, 1, f64::NAN) == Verdict::Continue), "nothing is known yet");
    assert_eq!(judge.judge(5, 1, 2.0), Verdict::Continue);
    assert_eq!(judge.judge(6, 1, f64::NAN), Verdict::Stop);
    assert_eq!(judge.judge(7, 1, f64::NEG_INFINITY), Verdict::Stop, "no number is no success");
    assert_eq!(judge.judge(8, 1, 2.0), Verdict::Continue);
}

#[test]
fn a_paused_trial_goes_on_when_the_others_are_worse() {
    let mut judge = asha(StopMode::Pause);
    begin(judge.as_mut(), 0..6);
    assert_eq!(judge.judge(0, 1, 2.0), Verdict::Pause);
    assert_eq!(judge.judge(1, 1, 1.0), Verdict::Pause);
    assert_eq!(judge.promote(Outlook::More), None);
    assert_eq!(judge.judge(2, 1, 3.0), Verdict::Pause);
    assert_eq!(judge.promote(Outlook::More), Some(1));
    assert_eq!(judge.next_step(1), Some(3));
    assert_eq!(judge.promote(Outlook::More), None);
    assert_eq!(judge.judge(3, 1, 0.5), Verdict::Continue, "the best of four needs not wait");
    judge.end(0);
    assert_eq!((judge.judge(4, 1, 9.0), judge.judge(5, 1, 9.0)), (Verdict::Pause, Verdict::Pause));
    assert_eq!(judge.promote(Outlook::More), None, "both places of six are taken");
}

#[test]
fn with_nothing_else_to_do_the_best_that_waits_goes_on() {
    let mut judge = asha(StopMode::Pause);
    begin(judge.as_mut(), 0..2);
    assert_eq!((judge.judge(0, 1, 2.0), judge.judge(1, 1, 1.0)), (Verdict::Pause, Verdict::Pause));
    for step in [3, 9] {
        assert_eq!(judge.promote(Outlook::More), None);
        assert_eq!(judge.promote(Outlook::Last), Some(1));
        assert_eq!(judge.next_step(1), Some(step));
        assert_eq!(judge.judge(1, step, 1.0), Verdict::Pause);
    }
    assert_eq!(judge.promote(Outlook::Last), Some(1));
    assert_eq!(judge.next_step(1), None);
    assert_eq!(judge.promote(Outlook::Last), None, "the other one has had its chance");
}

#[test]
fn hyperband_begins_in_all_brackets() {
    let spec = StopSpec { last: Some(81), ..StopSpec::of(SchedulerKind::Hyperband) };
    let mut judge = scheduler(Some(&spec), &space(), 0);
    begin(judge.as_mut(), 0..143);
    let mut counts = BTreeMap::new();
    (0..143).for_each(|trial| *counts.entry(judge.next_step(trial)).or_insert(0) += 1);
    // The paper's table for 81 and 3, of which rounding up makes 143 in all.
    let expected: [(Option<i64>, i32); 5] = [(Some(1), 81), (Some(3), 34), (Some(9), 15), (Some(27), 8), (None, 5)];
    for (step, count) in expected {
        let found = counts[&step];
        assert!(i32::abs(found - count) <= 2, "{step:?}: {found} and not {count}");
    }
}

#[test]
fn below_the_median_is_out() {
    let spec = StopSpec { first: 10, every: 5, ..StopSpec::of(SchedulerKind::Median) };
    let mut judge = scheduler(Some(&spec), &space(), 0);
    begin(judge.as_mut(), 0..6);
    assert_eq!(judge.next_step(0), Some(10));
    for (trial, loss) in [(0, 1.0), (1, 2.0), (2, 9.0)] {
        assert_eq!(judge.judge(trial, 10, loss), Verdict::Continue, "too few to have a median");
    }
    assert_eq!(judge.judge(3, 10, 2.0), Verdict::Continue, "the median itself is not below it");
    assert_eq!(judge.judge(4, 10, 2.5), Verdict::Stop);
    assert_eq!(judge.next_step(0), Some(15));
    // A best value of long ago still counts.
    assert!([0, 1, 3].iter().all(|trial| judge.judge(*trial, 15, 1.5) == Verdict::Continue));
    assert_eq!(judge.judge(2, 17, 50.0), Verdict::Stop);
    assert_eq!(judge.judge(5, 10, f64::NAN), Verdict::Stop);
}

#[test]
fn the_last_follow_the_first() {
    let space = space();
    let spec = StopSpec { first: 10, every: 10, threshold: 0.0, ..StopSpec::of(SchedulerKind::Pbt) };
    let mut judge = scheduler(Some(&spec), &space, 3);
    let params: Vec<Params> = (0..8).map(|trial| space.draw(&mut rng(3, trial))).collect();
    (0..8).for_each(|trial| judge.begin(trial, &params[trial as usize]));
    for trial in 0..7 {
        assert_eq!(judge.judge(trial, 10, f64::from(10 - trial)), Verdict::Continue, "it is not among the last");
    }
    let Verdict::Replace { leader, params: copy } = judge.judge(7, 10, 11.0) else { panic!("the worst of eight") };
    assert!(leader == 5 || leader == 6);
    assert!(space.contains(&copy) && copy != params[leader as usize] && copy != params[7]);
    assert_eq!(judge.next_step(7), Some(20));
    // The leader is far ahead: the copy goes on from there, and is left alone until it has done something.
    assert_eq!(judge.judge(6, 50, -9.0), Verdict::Continue);
    judge.end(5);
    let Verdict::Replace { leader: 6, .. } = judge.judge(3, 25, 99.0) else { panic!("only one may lead") };
    assert_eq!(judge.next_step(3), Some(60));
    judge.end(6);
    assert_eq!(judge.judge(7, 20, 99.0), Verdict::Continue, "nobody goes on from what has ended");
}

#[test]
fn a_population_that_is_alike_is_left_alone() {
    let spec = StopSpec { threshold: 0.1, ..StopSpec::of(SchedulerKind::Pbt) };
    let space = space();
    let mut judge = scheduler(Some(&spec), &space, 3);
    begin(judge.as_mut(), 0..8);
    assert!((0..8).all(|trial| judge.judge(trial, 1, f64::NAN) == Verdict::Continue));
    assert!((0..8).all(|trial| judge.judge(trial, 2, 5.0) == Verdict::Continue));
    assert!(matches!(judge.judge(0, 3, f64::NAN), Verdict::Replace { .. }), "no number is the worst");
}

#[test]
fn copies_differ_a_little() {
    let space = space();
    let spec = StopSpec { threshold: 0.0, ..StopSpec::of(SchedulerKind::Pbt) };
    let (mut changes, mut factors) = (0, Vec::new());
    for seed in 0..300 {
        let mut judge = scheduler(Some(&spec), &space, seed);
        let origin = space.draw(&mut rng(seed, 0));
        judge.begin(0, &origin);
        judge.begin(1, &space.draw(&mut rng(seed, 1)));
        assert_eq!(judge.judge(0, 1, 0.0), Verdict::Continue);
        let Verdict::Replace { leader: 0, params } = judge.judge(1, 1, 1.0) else { panic!() };
        changes += origin.iter().filter(|(name, value)| params.get(*name) != Some(value)).count();
        let (Value::Float(old), Value::Float(new)) = (&origin["lr"], &params["lr"]) else { panic!() };
        factors.extend((old != new).then(|| (new / old).max(old / new)));
        let (Value::Float(old), Value::Float(new)) = (&origin["gamma"], &params["gamma"]) else { panic!() };
        assert!((old - new).abs() <= 0.2 * 0.099 + 1e-9, "a factor would leave the range");
    }
    // One always, and a quarter of the other seven or eight.
    assert!((2.0..4.0).contains(&(f64::from(changes as u32) / 300.0)), "{changes}");
    assert!(factors.len() > 50 && factors.iter().all(|factor| *factor <= 2.0 + 1e-9));
}

/// CPU time of this thread: what else the machine does is none of our business.
fn spent() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

/// The limit is 0.1 ms; a debug build gets ten times that.
#[test]
fn a_decision_among_ten_thousand_is_quick() {
    let limit = Duration::from_micros(if cfg!(debug_assertions) { 1_000 } else { 100 });
    for spec in kinds() {
        let space = space();
        let mut judge = scheduler(Some(&spec), &space, 0);
        let mut numbers = rng(1, 0);
        let params = space.draw(&mut rng(0, 0));
        (0..10_000).for_each(|trial| judge.begin(trial, &params));
        let start = spent();
        for trial in 0..10_000 {
            let step = judge.next_step(trial).unwrap_or(1);
            judge.judge(trial, step, numbers.unit());
            judge.promote(Outlook::More);
        }
        let each = (spent() - start) / 10_000;
        assert!(each < limit, "{spec:?}: {each:?}");
    }
}
