//! Importance against what Optuna says of the same trials, and how long it takes.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::time::Duration;

use trainyard_core::search::{Fate, History, Space, Trial, importance, rng};
use trainyard_core::spec::{Dimension, Domain, Goal};
use trainyard_core::value::{Params, Value};

fn space() -> Space {
    let plain = |domain| Dimension { domain, when: None };
    let text = |text: &str| Value::Text(text.to_owned());
    let when = Some("act == 'b'".to_owned());
    let dimensions = BTreeMap::from([
        ("x".to_owned(), plain(Domain::Uniform { low: -5.0, high: 5.0 })),
        ("lr".to_owned(), plain(Domain::LogUniform { low: 1e-5, high: 1e-1 })),
        ("n".to_owned(), plain(Domain::Int { low: 1, high: 8 })),
        ("act".to_owned(), plain(Domain::Choice(vec![text("a"), text("b"), text("c")]))),
        ("m".to_owned(), Dimension { domain: Domain::Uniform { low: 0.0, high: 1.0 }, when }),
    ]);
    Space::new(&dimensions, &[]).unwrap()
}

/// Optuna's `PedAnovaImportanceEvaluator` with its defaults, recorded with the trials it saw.
#[test]
fn agrees_with_optuna() {
    let recorded: serde_json::Value = serde_json::from_str(include_str!("importance.json")).unwrap();
    let trials: Vec<Trial> = recorded["trials"]
        .as_array()
        .unwrap()
        .iter()
        .zip(0..)
        .map(|(trial, number)| {
            let params: Params = serde_json::from_value(trial["params"].clone()).unwrap();
            let fate = Fate::Done { value: trial["value"].as_f64().unwrap() };
            Trial { number, params, fate, reports: Vec::new() }
        })
        .collect();
    let found = importance(&space(), &History::new(Goal::Minimize, &trials));
    for one in &found {
        let theirs = recorded["importance"][&one.parameter].as_f64().unwrap();
        assert!((one.share - theirs).abs() < 1e-4, "{found:?} and {}", recorded["importance"]);
    }
    assert_eq!(found.len(), 5);
    assert!(found.windows(2).all(|pair| pair[0].share >= pair[1].share));
}

fn trial(space: &Space, number: u32, fate: impl Fn(&[f64]) -> Fate) -> Trial {
    let params = space.draw(&mut rng(3, number));
    let fate = fate(&space.point(&params));
    Trial { number, params, fate, reports: Vec::new() }
}

#[test]
fn what_decides_between_success_and_failure_matters() {
    let space = space();
    let place = space.axes().position(|(name, _)| name == "lr").unwrap();
    let fate = |point: &[f64]| if point[place] > 0.8 { Fate::Done { value: 1.0 } } else { Fate::Failed };
    let trials: Vec<Trial> = (0..300).map(|number| trial(&space, number, fate)).collect();
    let found = importance(&space, &History::new(Goal::Maximize, &trials));
    assert!(found[0].parameter == "lr" && found[0].share > 0.8, "{found:?}");
}

#[test]
fn with_nothing_to_go_by_all_are_alike() {
    let space = space();
    for fate in [Fate::Pending, Fate::Failed] {
        for count in [0, 1, 20] {
            let trials: Vec<Trial> = (0..count).map(|number| trial(&space, number, |_| fate)).collect();
            let found = importance(&space, &History::new(Goal::Minimize, &trials));
            assert!(found.iter().all(|one| (one.share - 0.2).abs() < 1e-9), "{found:?}");
        }
    }
}

/// CPU time of this thread: what else the machine does is none of our business.
fn spent() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

/// The limit is 5 ms; a debug build gets twenty times that.
#[test]
fn a_thousand_trials_of_ten_parameters_are_quick() {
    let domain = |number: u32| match number % 3 {
        0 => Domain::Uniform { low: 0.0, high: 1.0 },
        1 => Domain::LogUniform { low: 1e-5, high: 1.0 },
        _ => Domain::Int { low: 1, high: 20 },
    };
    let dimensions = (0..10).map(|number| (format!("p{number}"), Dimension { domain: domain(number), when: None }));
    let space = Space::new(&dimensions.collect(), &[]).unwrap();
    let fate = |point: &[f64]| Fate::Done { value: point.iter().map(|at| (at - 0.3).powi(2)).sum() };
    let trials: Vec<Trial> = (0..1_000).map(|number| trial(&space, number, fate)).collect();
    let history = History::new(Goal::Minimize, &trials);
    let quickest = (0..5).map(|_| {
        let start = spent();
        assert_eq!(importance(&space, &history).len(), 10);
        spent() - start
    });
    let limit = Duration::from_millis(if cfg!(debug_assertions) { 100 } else { 5 });
    assert!(quickest.min().unwrap() < limit);
}
