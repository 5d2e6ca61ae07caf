//! Whole sweeps, with and without bad luck.

use proptest::prelude::*;
use trainyard_core::search::{End, Fate, Leg, Phase, Role, Score, Spent};
use trainyard_core::spec::{More, SweepSpec};

use crate::told::begun;
use crate::world::{Books, Luck, number, play, spec};

const KINDS: &[&str] = &[
    "sampler = \"tpe\"\ntrials = 30\nparallel = 4",
    "sampler = \"tpe\"\ntrials = 20\nparallel = 3\nrepeats = 3",
    "sampler = \"tpe\"\ntrials = 30\nparallel = 4\nrepeats = 1\nstop = { scheduler = \"asha\", first = 3, factor = 3 }",
    "sampler = \"tpe\"\ntrials = 30\nparallel = 4\nstop = { scheduler = \"asha\", first = 3, factor = 3, mode = \"pause\", last = 27 }",
    "sampler = \"tpe\"\ntrials = 30\nparallel = 4\nstop = { scheduler = \"hyperband\", first = 3, factor = 3, last = 27 }",
    "sampler = \"tpe\"\ntrials = 20\nparallel = 2\nstop = { scheduler = \"median\", first = 5 }",
    "sampler = \"tpe\"\ntrials = 8\nparallel = 8\nstop = { scheduler = \"pbt\", every = 5 }",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_sweep_that_is_made_again_at_any_moment_does_the_same(
        kind in 0..KINDS.len(), seed in any::<u64>(), every in 1usize..12, bad in 0..4u32, more in 0..20u32,
    ) {
        let bad = f64::from(bad) * 0.02;
        let luck = Luck { loses: bad, fails: bad, late: bad / 2.0, more: Some(more).filter(|more| *more > 0) };
        let spec = SweepSpec { give_up: 4, ..spec(KINDS[kind]) };
        let (calm, sweep) = play(&spec, seed, luck, |_| false);
        let (rough, _) = play(&spec, seed, luck, |turn| turn % every == 0);
        prop_assert!(calm == rough, "another history");
        let gave_up = matches!(sweep.phase(Spent::default()), Phase::Done { gave_up: true, .. });
        let undecided = calm.trials.iter().any(|(_, fate)| matches!(fate, None | Some(Fate::Pending)));
        prop_assert!(gave_up || !undecided, "a trial was forgotten");
    }
}

#[test]
fn the_budget_is_kept_and_the_best_is_confirmed_with_fresh_seeds() {
    let spec = spec("sampler = \"tpe\"\ntrials = 60\nparallel = 4");
    let (books, sweep) = play(&spec, 1, Luck::default(), |_| false);
    assert_eq!(books.legs.len(), 60);
    let searched: Vec<u64> = seeds(&books, |role| role == Role::Search);
    let fresh: Vec<u64> = seeds(&books, |role| matches!(role, Role::Confirm { .. }));
    assert!(!fresh.is_empty() && fresh.iter().all(|seed| !searched.contains(seed)));
    let best = &sweep.standing()[0];
    let Score::Confirmed { mean, interval: Some((low, high)), seeds } = best.score else { panic!("{best:?}") };
    assert!(seeds >= 2 && low <= mean && mean <= high);
    let params = &books.trials[best.trial as usize].0;
    assert!((number(params, "x") - 0.7).abs() < 0.15, "{params:?}");
}

fn seeds(books: &Books, of: impl Fn(Role) -> bool) -> Vec<u64> {
    books.legs.iter().filter(|(leg, ..)| of(leg.role)).map(|(leg, ..)| leg.seed).collect()
}

#[test]
fn fixed_repeats_are_seeds_of_one_configuration() {
    let spec = spec("trials = 12\nparallel = 3\nrepeats = 3\nsampler = \"random\"");
    let (books, _) = play(&spec, 1, Luck::default(), |_| false);
    assert_eq!(books.trials.len(), 12);
    for (trial, (_, fate)) in books.trials.iter().enumerate() {
        let of_it: Vec<u64> =
            books.legs.iter().filter(|(leg, ..)| leg.trial as usize == trial).map(|(leg, ..)| leg.seed).collect();
        match fate.unwrap() {
            Fate::Done { .. } => assert_eq!(of_it, [1, 2, 3]),
            Fate::Stopped { .. } => assert_eq!(of_it, [1]),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_sweep_of_nothing_but_failures_gives_up() {
    let spec = spec("sampler = \"tpe\"\ntrials = 1000\nparallel = 2\ngive-up = 5");
    let (books, sweep) = play(&spec, 1, Luck { fails: 1.0, ..Luck::default() }, |_| false);
    assert!((5..=6).contains(&books.trials.len()), "{}", books.trials.len());
    assert!(matches!(sweep.phase(Spent::default()), Phase::Done { gave_up: true, .. }));
}

#[test]
fn paused_trials_go_on_from_where_they_were() {
    let (books, _) = play(&spec(KINDS[3]), 5, Luck::default(), |_| false);
    let paused: Vec<usize> =
        (0..books.legs.len()).filter(|leg| matches!(books.legs[*leg].2, Some(End::Paused { .. }))).collect();
    assert!(!paused.is_empty());
    let promoted: Vec<&Leg> = books.legs.iter().map(|(leg, ..)| leg).filter(|leg| leg.from.is_some()).collect();
    assert!(!promoted.is_empty());
    for leg in promoted {
        let from = leg.from.unwrap() as usize;
        assert!(paused.contains(&from) && books.legs[from].0.trial == leg.trial);
    }
}

#[test]
fn trainings_without_an_end_of_their_own_are_confirmed_too() {
    let late = Luck { late: 1.0, ..Luck::default() };
    let (books, sweep) = play(&spec("sampler = \"random\"\ntrials = 20\nparallel = 2"), 3, late, |_| false);
    assert_eq!(books.legs.len(), 20);
    assert!(matches!(sweep.standing()[0].score, Score::Confirmed { .. }));
}

#[test]
fn one_that_gave_up_and_is_extended_does_not_give_up_again_after_a_crash() {
    let spec = spec("sampler = \"random\"\ntrials = 50\nparallel = 1\ngive-up = 3");
    let (mut books, mut sweep) = play(&spec, 1, Luck { fails: 1.0, ..Luck::default() }, |_| false);
    sweep.extend(sweep.spec().extended(&More { trials: Some(10), ..More::default() }).unwrap());
    sweep.deeds().into_iter().for_each(|deed| books.write(deed));
    books.spec = sweep.spec().clone();
    assert!(!begun(&mut books.restore()).is_empty());
}

#[test]
fn machines_that_keep_getting_lost_end_a_sweep_before_its_budget() {
    let spec = spec("sampler = \"random\"\ntrials = 500\nparallel = 2\nretries = 1\ngive-up = 4");
    let (books, sweep) = play(&spec, 1, Luck { loses: 1.0, ..Luck::default() }, |_| false);
    assert!(books.trials.len() <= 6, "{}", books.trials.len());
    let Phase::Done { why, gave_up: true } = sweep.phase(Spent::default()) else { panic!() };
    assert!(why.contains("4 trials in a row without a result"), "{why}");
}
