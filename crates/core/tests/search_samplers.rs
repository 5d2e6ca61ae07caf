//! What every sampler promises, whatever the space and the history.

use std::collections::BTreeMap;

use proptest::prelude::*;
use trainyard_core::search::{Fate, History, Rng, Space, Trial, rng, sampler};
use trainyard_core::spec::{Dimension, Domain, Goal, SamplerKind};
use trainyard_core::value::{Params, Value};

const KINDS: [SamplerKind; 7] = [
    SamplerKind::Random,
    SamplerKind::Grid,
    SamplerKind::Sobol,
    SamplerKind::Tpe,
    SamplerKind::Cmaes,
    SamplerKind::Gp,
    SamplerKind::Auto,
];

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn domain() -> impl Strategy<Value = Domain> {
    prop_oneof![
        (-10.0..10.0f64, 0.1..20.0f64).prop_map(|(low, width)| Domain::Uniform { low, high: low + width }),
        (1e-6..1.0f64, 1.5..1e4f64).prop_map(|(low, factor)| Domain::LogUniform { low, high: low * factor }),
        (-1.0..1.0f64, 1u8..9).prop_map(|(low, steps)| Domain::Quantized {
            low,
            high: low + 0.1 * f64::from(steps),
            step: 0.1
        }),
        (-20i64..20, 1i64..40).prop_map(|(low, width)| Domain::Int { low, high: low + width }),
        (1i64..20, 1i64..2_000).prop_map(|(low, width)| Domain::LogInt { low, high: low + width }),
        (0u32..5, 1u32..6).prop_map(|(low, more)| Domain::PowerOfTwo { low: 1 << low, high: 1 << (low + more) }),
        (1usize..5)
            .prop_map(|count| Domain::Choice(["a", "b", "c", "d"].iter().take(count).map(|t| text(t)).collect())),
        (1i64..5).prop_map(|count| Domain::Ordinal((0..count).map(|i| Value::Int(i * i)).collect())),
        Just(Domain::Boolean),
        Just(Domain::Fixed(Value::Int(3))),
    ]
}

/// Any dimensions, two of them conditional, and a constraint that leaves about half of the space.
fn space() -> impl Strategy<Value = Space> {
    let free = prop::collection::vec(domain(), 0..4);
    (free, domain(), domain()).prop_map(|(free, under, below)| {
        let plain = |domain| Dimension { domain, when: None };
        let mut dimensions: BTreeMap<String, Dimension> =
            free.into_iter().enumerate().map(|(index, domain)| (format!("p{index}"), plain(domain))).collect();
        let unit = Domain::Uniform { low: 0.0, high: 1.0 };
        dimensions.insert("mode".to_owned(), plain(Domain::Choice(vec![text("on"), text("off")])));
        dimensions.insert("u".to_owned(), plain(unit.clone()));
        dimensions.insert("v".to_owned(), plain(unit));
        dimensions.insert("under".to_owned(), Dimension { domain: under, when: Some("mode == 'on'".to_owned()) });
        dimensions.insert(
            "below".to_owned(),
            Dimension { domain: below, when: Some("mode == 'off' and u > 0.3".to_owned()) },
        );
        dimensions.insert("sum".to_owned(), plain(Domain::Derived("u + v".to_owned())));
        Space::new(&dimensions, &["sum < 1.1".to_owned()]).expect("a space")
    })
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        Just(Fate::Pending),
        Just(Fate::Failed),
        (-1e6..1e6f64).prop_map(|value| Fate::Done { value }),
        (-1.0..1.0f64).prop_map(|value| Fate::Done { value }),
        Just(Fate::Done { value: 0.0 }),
        (-1.0..1.0f64).prop_map(|value| Fate::Stopped { value }),
    ]
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    prop_oneof![
        4 => prop::collection::vec(fate(), 0..60),
        1 => (1usize..30).prop_map(|count| vec![Fate::Pending; count]),
        1 => (1usize..30).prop_map(|count| vec![Fate::Failed; count]),
        1 => (1usize..30).prop_map(|count| vec![Fate::Done { value: 1.0 }; count]),
    ]
}

fn trials(space: &Space, fates: &[Fate], seed: u64) -> Vec<Trial> {
    let trial = |(number, fate): (u32, &Fate)| Trial {
        number,
        params: space.draw(&mut rng(seed, number)),
        fate: *fate,
        reports: Vec::new(),
    };
    (0..).zip(fates).map(trial).collect()
}

fn ask(kind: SamplerKind, space: &Space, trials: &[Trial], seed: u64) -> Params {
    let history = History::new(Goal::Maximize, trials);
    sampler(kind, space, Some(60)).ask(space, &history, &mut rng(seed, trials.len() as u32))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn suggestions_lie_in_the_space_and_repeat_with_the_seed(space in space(), fates in fates(), seed in any::<u64>()) {
        let trials = trials(&space, &fates, seed);
        for kind in KINDS {
            let params = ask(kind, &space, &trials, seed);
            prop_assert_eq!(space.check(&params), Ok(()), "{:?} {:?}", kind, params);
            prop_assert_eq!(&params, &ask(kind, &space, &trials, seed), "{:?}", kind);
        }
    }

    #[test]
    fn a_grid_is_complete_and_without_repeats(free in prop::collection::vec(domain(), 1..4)) {
        let dimensions: BTreeMap<String, Dimension> = free
            .into_iter()
            .filter(|domain| domain.is_finite() && !matches!(domain, Domain::LogInt { .. }))
            .enumerate()
            .map(|(index, domain)| (format!("p{index}"), Dimension { domain, when: None }))
            .collect();
        let space = Space::new(&dimensions, &[]).expect("a space");
        let size: u64 = space.axes().map(|(_, axis)| axis.count().expect("finite")).product();
        prop_assume!(size <= 200);
        let mut seen: Vec<Trial> = Vec::new();
        for number in 0..size as u32 {
            let params = ask(SamplerKind::Grid, &space, &seen, 1);
            prop_assert!(space.contains(&params));
            prop_assert!(seen.iter().all(|trial| trial.params != params));
            seen.push(Trial { number, params, fate: Fate::Pending, reports: Vec::new() });
        }
    }
}

fn square() -> Space {
    let unit = Dimension { domain: Domain::Uniform { low: 0.0, high: 1.0 }, when: None };
    Space::new(&BTreeMap::from([("x".to_owned(), unit.clone()), ("y".to_owned(), unit)]), &[]).expect("a space")
}

fn distance(space: &Space, a: &Params, b: &Params) -> f64 {
    let (a, b) = (space.point(a), space.point(b));
    a.iter().zip(&b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

fn bowl(space: &Space, params: &Params) -> f64 {
    -space.point(params).iter().map(|at| (at - 0.6).powi(2)).sum::<f64>()
}

/// A sweep that waits for every result.
fn sequence(kind: SamplerKind, space: &Space, count: u32, seed: u64) -> Vec<Trial> {
    let mut trials = Vec::new();
    for number in 0..count {
        let params = ask(kind, space, &trials, seed);
        let value = bowl(space, &params);
        trials.push(Trial { number, params, fate: Fate::Done { value }, reports: Vec::new() });
    }
    trials
}

#[test]
fn samplers_that_learn_find_the_bottom_of_a_bowl() {
    let space = square();
    for kind in [SamplerKind::Tpe, SamplerKind::Cmaes, SamplerKind::Gp, SamplerKind::Auto] {
        let trials = sequence(kind, &space, 45, 3);
        let best = trials.iter().map(|trial| bowl(&space, &trial.params)).fold(f64::MIN, f64::max);
        assert!(best > -2e-3, "{kind:?}: {best}");
    }
}

/// Distances from each trial to the nearest other one, sorted.
fn gaps(space: &Space, trials: &[Trial]) -> Vec<f64> {
    let nearest = |(index, a): (usize, &Trial)| {
        let others = trials.iter().enumerate().filter(|(other, _)| *other != index);
        others.map(|(_, b)| distance(space, &a.params, &b.params)).fold(f64::MAX, f64::min)
    };
    let mut gaps: Vec<f64> = trials.iter().enumerate().map(nearest).collect();
    gaps.sort_by(f64::total_cmp);
    gaps
}

#[test]
fn a_batch_does_not_pile_up() {
    let space = square();
    for kind in KINDS {
        for size in [8, 64] {
            let mut trials = sequence(kind, &space, 20, 5);
            let asked = trials.len();
            for number in 20..20 + size {
                let params = ask(kind, &space, &trials, 5);
                trials.push(Trial { number, params, fate: Fate::Pending, reports: Vec::new() });
            }
            let gaps = gaps(&space, &trials[asked..]);
            assert!(gaps[0] > 1e-4, "{kind:?}: two of {size} are the same point: {gaps:?}");
            assert!(gaps[gaps.len() / 2] > 0.01, "{kind:?}: {size} lie on one point: {gaps:?}");
        }
    }
}

/// The best value after `count` trials of which `parallel` are always under way, results coming in by turns from
/// the oldest and the newest.
fn best_of(kind: SamplerKind, space: &Space, count: u32, parallel: usize, seed: u64) -> f64 {
    let mut trials: Vec<Trial> = Vec::new();
    let mut running = Vec::new();
    for number in 0..count {
        let params = ask(kind, space, &trials, seed);
        trials.push(Trial { number, params, fate: Fate::Pending, reports: Vec::new() });
        running.push(trials.len() - 1);
        if running.len() >= parallel {
            let ended = running.remove(if number % 2 == 0 { 0 } else { running.len() - 1 });
            trials[ended].fate = Fate::Done { value: bowl(space, &trials[ended].params) };
        }
    }
    trials.iter().map(|trial| bowl(space, &trial.params)).fold(f64::MIN, f64::max)
}

#[test]
fn eight_at_a_time_find_almost_what_one_after_the_other_find() {
    let unit = Dimension { domain: Domain::Uniform { low: 0.0, high: 1.0 }, when: None };
    let space = Space::new(&["a", "b", "c", "d"].map(|name| (name.to_owned(), unit.clone())).into(), &[]);
    let space = space.expect("a space");
    let median = |kind, parallel| {
        let mut all: Vec<f64> = (0..3).map(|seed| -best_of(kind, &space, 48, parallel, seed)).collect();
        all.sort_by(f64::total_cmp);
        all[1]
    };
    let random = median(SamplerKind::Random, 1);
    for kind in [SamplerKind::Tpe, SamplerKind::Cmaes, SamplerKind::Gp] {
        let (one, eight) = (median(kind, 1), median(kind, 8));
        assert!(eight < 0.5 * random, "{kind:?}: {eight} with eight at a time, {random} by chance");
        // Squares of distances: 2.5 times as far off.
        assert!(eight < 6.25 * one || eight < 0.05 * random, "{kind:?}: {eight} with eight at a time, {one} with one");
    }
}

#[test]
fn failures_keep_samplers_away() {
    let space = square();
    for kind in [SamplerKind::Tpe, SamplerKind::Gp] {
        let mut trials = Vec::new();
        for number in 0..60 {
            let params = ask(kind, &space, &trials, 11);
            let point = space.point(&params);
            // The left half fails; without failures its results would be the better ones.
            let fate = if point[0] < 0.5 { Fate::Failed } else { Fate::Done { value: 1.0 - point[0] } };
            trials.push(Trial { number, params, fate, reports: Vec::new() });
        }
        let failed = trials[30..].iter().filter(|trial| trial.fate == Fate::Failed).count();
        assert!(failed <= 18, "{kind:?}: {failed} of the last 30 failed");
    }
}

#[test]
fn a_long_history_is_no_trouble() {
    let space = square();
    let mut generator: Rng = rng(1, 0);
    let trials: Vec<Trial> = (0..3_000)
        .map(|number| {
            let params = space.draw(&mut generator);
            let value = bowl(&space, &params);
            Trial { number, params, fate: Fate::Done { value }, reports: Vec::new() }
        })
        .collect();
    for kind in [SamplerKind::Tpe, SamplerKind::Cmaes, SamplerKind::Gp, SamplerKind::Auto] {
        assert!(space.contains(&ask(kind, &space, &trials, 1)), "{kind:?}");
    }
}
