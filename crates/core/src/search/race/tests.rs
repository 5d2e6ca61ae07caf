use proptest::prelude::*;

use super::*;

/// Runs the race to its end; what each run gives is up to `loss`.
fn run(race: &Race, loss: impl Fn(u32, u32) -> f64) -> Results {
    let mut results = Results::new();
    loop {
        let due = race.next(&results);
        if due.is_empty() {
            return results;
        }
        results.extend(due.into_iter().map(|(trial, repeat)| ((trial, repeat), loss(trial, repeat))));
    }
}

fn candidates(count: u32) -> Vec<(u32, f64)> {
    (0..count).map(|trial| (trial, f64::from(trial))).collect()
}

#[test]
fn few_runs_are_split_with_sense() {
    let found: Vec<(u32, u32)> = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 20, 60, 100, 200].map(split).to_vec();
    let expected = [
        (0, 0),
        (1, 0),
        (2, 0),
        (2, 1),
        (2, 2),
        (3, 2),
        (2, 4),
        (3, 4),
        (4, 4),
        (6, 4),
        (14, 6),
        (42, 18),
        (70, 30),
        (140, 60),
    ];
    assert_eq!(found, expected);
    assert_eq!(split(u32::MAX).0.checked_add(split(u32::MAX).1), Some(u32::MAX));
}

#[test]
fn the_truly_best_wins_though_it_looked_worst() {
    let race = Race::new(60, &candidates(100));
    let results = run(&race, |trial, repeat| -f64::from(trial) + f64::from(repeat % 2));
    assert_eq!(results.len(), 60);
    let standing = race.standing(&results);
    assert_eq!((standing[0].trial, race.winner(&results)), (19, Some(19)));
    assert_eq!(standing.len(), 20);
    // What the winner is worth comes from the runs that it made alone.
    let alone = (0..).take_while(|repeat| results.contains_key(&(19, *repeat))).count() as u32;
    let raced = (0..).take_while(|repeat| results.contains_key(&(18, *repeat))).count() as u32;
    assert_eq!(standing[0].seeds, alone - raced);
    assert!(standing[0].seeds >= 15 && standing[0].interval.is_some());
    assert!(standing.windows(2).all(|pair| pair[0].rounds >= pair[1].rounds));
}

#[test]
fn all_that_race_have_the_same_seeds() {
    let race = Race::new(30, &candidates(40));
    let results = run(&race, |trial, _| f64::from(trial));
    let seeds = |trial| results.keys().filter(|run| run.0 == trial).map(|run| run.1).collect::<Vec<_>>();
    for trial in 0..10 {
        assert_eq!(seeds(trial), (0..seeds(trial).len() as u32).collect::<Vec<_>>());
    }
    assert_eq!(race.next(&Results::new()), (0..10).map(|trial| (trial, 0)).collect::<Vec<_>>());
}

#[test]
fn small_races() {
    let plan = |runs, trials| {
        let race = Race::new(runs, &candidates(trials));
        (
            race.candidates.len(),
            race.rounds.iter().map(|round| (round.size, round.seeds)).collect::<Vec<_>>(),
            race.exam,
        )
    };
    assert_eq!(plan(0, 5), (0, vec![], 0));
    assert_eq!(plan(3, 5), (1, vec![], 3));
    assert_eq!(plan(4, 5), (2, vec![(2, 2)], 0));
    assert_eq!(plan(6, 5), (2, vec![(2, 2)], 2));
    assert_eq!(plan(9, 1), (1, vec![], 9));
    assert_eq!(plan(9, 0), (0, vec![], 0));
    let race = Race::new(3, &candidates(5));
    assert_eq!(race.next(&Results::new()), [(0, 0), (0, 1), (0, 2)]);
    assert!(Race::new(9, &[(0, f64::NAN)]).next(&Results::new()).is_empty());
}

#[test]
fn a_run_that_fails_counts_as_the_worst() {
    let race = Race::new(4, &[(0, 1.0), (1, 2.0)]);
    let results = run(&race, |trial, repeat| if (trial, repeat) == (0, 1) { f64::NAN } else { 1.0 });
    assert_eq!(race.winner(&results), Some(1));
    let standing = race.standing(&results);
    assert_eq!((standing[1].trial, standing[1].mean), (0, 1.5));
    let all_fail = run(&race, |_, _| f64::INFINITY);
    assert_eq!((race.winner(&all_fail), race.standing(&all_fail)[0].mean), (Some(0), 2.0));
}

#[test]
fn before_its_end_it_says_what_is_known() {
    let race = Race::new(12, &candidates(9));
    assert!(race.standing(&Results::new()).is_empty());
    let some = Results::from([((1, 0), 0.5), ((0, 0), 0.7)]);
    let standing = race.standing(&some);
    assert_eq!(standing.iter().map(|one| one.trial).collect::<Vec<_>>(), [1, 0]);
    assert_eq!((standing[0].interval, race.winner(&some)), (None, None));
    let turned = standing[0].clone().by_goal(Goal::Maximize);
    assert_eq!(turned.mean, -0.5);
    let wide = Confirmed { interval: Some((1.0, 3.0)), ..turned };
    assert_eq!(wide.by_goal(Goal::Maximize).interval, Some((-3.0, -1.0)));
}

proptest! {
    #[test]
    fn a_race_ends_within_its_runs_in_any_order(
        runs in 0u32..200,
        losses in prop::collection::vec(prop_oneof![9 => -1.0..1.0f64, 1 => Just(f64::NAN)], 0..80),
        order in prop::collection::vec(0usize..50, 1..40),
        values in prop::collection::vec(prop_oneof![9 => -1.0..1.0f64, 1 => Just(f64::INFINITY)], 1..50),
    ) {
        let trials: Vec<(u32, f64)> = (0..).zip(losses).collect();
        let race = Race::new(runs, &trials);
        let loss = |(trial, repeat): (u32, u32)| values[(trial * 31 + repeat * 7) as usize % values.len()];
        let at_once = run(&race, |trial, repeat| loss((trial, repeat)));
        let mut one_by_one = Results::new();
        for turn in 0.. {
            let due = race.next(&one_by_one);
            if due.is_empty() {
                break;
            }
            let run = due[order[turn % order.len()] % due.len()];
            one_by_one.insert(run, loss(run));
        }
        prop_assert_eq!(&at_once, &one_by_one);
        let can_run = trials.iter().any(|trial| trial.1.is_finite());
        prop_assert_eq!(at_once.len() as u32, if can_run { runs } else { 0 });
        prop_assert_eq!(race.runs(), at_once.len() as u32);
        prop_assert_eq!(race.winner(&at_once).is_some(), can_run && runs > 0);
    }
}
