use crate::search::{Fate, Trial};
use crate::spec::Goal;

use super::*;

#[test]
fn weights_grow_with_age_and_stay_flat_for_the_latest() {
    assert_eq!(recency_weights(3), [1.0; 4]);
    let many = recency_weights(100);
    assert!((many[0] - 0.01).abs() < 1e-12 && many[75..].iter().all(|weight| *weight == 1.0));
    assert!(many.windows(2).all(|pair| pair[0] <= pair[1]));
    assert_eq!(rank_weights(4), [1.0, 0.75, 0.5, 0.25, GOOD_PRIOR]);
}

#[test]
fn of_many_the_latest_the_pending_and_some_of_all_ages_are_kept() {
    let kept = others(0..10_000, &[9_999, 3], vec![77, 78]);
    assert!(kept.len() <= MOST_OTHERS + 2 && kept.windows(2).all(|pair| pair[0] < pair[1]));
    assert!((10_000 - MOST_RECENT as u32..9_999).all(|place| kept.contains(&place)));
    assert!(kept.contains(&77) && kept.contains(&78) && !kept.contains(&9_999));
    assert!(kept.windows(2).all(|pair| pair[1] - pair[0] < 100));
    assert_eq!(others(0..50, &[1], Vec::new()).len(), 49);
}

#[test]
fn the_good_are_the_best_and_never_failed() {
    let trial = |(number, fate)| Trial { number, params: Params::new(), fate, reports: Vec::new() };
    let value = |number: u32| f64::from(number * 37 % 101);
    let fate = |number| if value(number) < 3.0 { Fate::Failed } else { Fate::Done { value: value(number) } };
    let trials: Vec<Trial> = (0..101).map(|number| trial((number, fate(number)))).collect();
    let history = History::new(Goal::Minimize, &trials);
    let losses: Vec<f64> = trials.iter().map(|trial| history.done(trial.fate)).collect();
    let (split, faster) = (split(&history, 0..101), split(&history.with_losses(&losses), 0..101));
    assert_eq!((&split.good, &split.others, split.ended), (&faster.good, &faster.others, faster.ended));
    let good: Vec<f64> = split.good.iter().map(|place| value(*place)).collect();
    assert_eq!(good, (3..).map(f64::from).take(good.len()).collect::<Vec<_>>());
    assert_eq!((split.ended, split.good.len() + split.others.len()), (101, 101));
}
