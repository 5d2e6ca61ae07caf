//! A sweep in a world of numbers: runs that report, end, fail and are lost in any order, and a controller that is
//! thrown away and made again from its records at any moment.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use trainyard_core::search::{
    Deed, End, Fate, Leg, LegRecord, Outcome, Phase, Record, Report, Rng, Role, Score, Spent, Sweep, Told, rng,
};
use trainyard_core::spec::{Layer, SweepSpec, load};
use trainyard_core::value::{Params, Value};

fn spec(more: &str) -> SweepSpec {
    let text = format!(
        r#"
[jobs.train]
command = ["train"]
gpus = 1
outputs = ["logs/"]
[jobs.train.resume]
checkpoint = "logs/model_*.pt"
args = ["--checkpoint", "{{checkpoint}}"]
[jobs.train.metrics]
jsonl = "m.jsonl"
[sweeps.s]
job = "train"
metric = "reward"
goal = "maximize"
{more}
[sweeps.s.space]
x = {{ uniform = [0.0, 1.0] }}
y = {{ int = [0, 9] }}
"#
    );
    let layers = [Layer { name: "trainyard.toml".to_owned(), text }];
    load(&layers, &[], "any").unwrap().config.sweeps.remove("s").unwrap()
}

/// What a ledger would hold.
#[derive(Debug, Clone, PartialEq)]
struct Books {
    trials: Vec<(Params, Option<Fate>)>,
    legs: Vec<(Leg, bool, Option<End>)>,
    told: Vec<Told>,
    confirm: Option<u32>,
}

impl Books {
    fn new() -> Self {
        Self { trials: Vec::new(), legs: Vec::new(), told: Vec::new(), confirm: None }
    }

    fn write(&mut self, deed: Deed) {
        match deed {
            Deed::Try { trial, params } => match self.trials.get_mut(trial as usize) {
                Some(known) => known.0 = params,
                None => self.trials.push((params, None)),
            },
            Deed::Await { leg, what } => {
                assert_eq!(leg as usize, self.legs.len());
                self.legs.push((what, false, None));
            }
            Deed::Begin { leg } => {
                let known = &mut self.legs[leg as usize];
                assert!(!known.1, "begun twice: {leg}");
                known.1 = true;
            }
            Deed::Confirm { runs } => self.confirm = Some(runs),
            Deed::Stop { .. } => {}
            Deed::Ended { leg, end } => {
                assert_eq!(self.legs[leg as usize].2.replace(end), None, "ended twice: {leg}");
            }
            Deed::Fate { trial, fate } => self.trials[trial as usize].1 = Some(fate),
            Deed::Told { number, what } => {
                assert_eq!(number as usize, self.told.len());
                self.told.push(what);
            }
        }
    }

    fn restore(&self, spec: &SweepSpec) -> Sweep {
        let leg = |(leg, has_begun, end): &(Leg, bool, Option<End>)| LegRecord {
            leg: leg.clone(),
            has_begun: *has_begun,
            end: *end,
        };
        let legs = self.legs.iter().map(leg).collect();
        let (trials, told) = (self.trials.clone(), self.told.clone());
        let spec = SweepSpec { confirm: self.confirm, ..spec.clone() };
        Sweep::restore(Record { spec, trials, legs, told }).unwrap()
    }
}

/// What happens to runs.
struct World {
    rng: Rng,
    /// Steps each open leg has done.
    steps: BTreeMap<u32, i64>,
    /// The step from which a leg goes on.
    starts: BTreeMap<u32, i64>,
    stopping: Vec<u32>,
    loses: f64,
    fails: f64,
}

const LENGTH: i64 = 27;

fn number(params: &Params, name: &str) -> f64 {
    match params[name] {
        Value::Float(value) => value,
        Value::Int(value) => value as f64,
        ref other => panic!("{other:?}"),
    }
}

fn reward(leg: &Leg, step: i64) -> f64 {
    let (x, y) = (number(&leg.params, "x"), number(&leg.params, "y"));
    let noise = ((leg.seed * 7919 + 13) % 101) as f64 / 1000.0;
    let top = 1.0 - (x - 0.7).abs() - (y - 4.0).abs() / 20.0 + noise;
    top * (1.0 - 1.0 / (1.0 + step as f64))
}

fn course(leg: &Leg, from: i64, to: i64) -> Vec<Report> {
    (from + 1..=to).map(|step| Report { step, value: reward(leg, step) }).collect()
}

/// Goes through a whole sweep; `crash` says after which turns the controller is made anew.
fn play(spec: &SweepSpec, seed: u64, loses: f64, fails: f64, crash: impl Fn(usize) -> bool) -> (Books, Sweep) {
    let mut sweep = Sweep::new(spec.clone()).unwrap();
    let mut books = Books::new();
    let mut world = World {
        rng: rng(seed, 0),
        steps: BTreeMap::new(),
        starts: BTreeMap::new(),
        stopping: Vec::new(),
        loses,
        fails,
    };
    for turn in 0..100_000 {
        sweep.fill(Spent::default(), 1);
        for deed in sweep.deeds() {
            match &deed {
                Deed::Begin { leg } => {
                    let from = sweep.leg(*leg).unwrap().from;
                    let start = from.map_or(0, |from| world.steps_of(from));
                    world.starts.insert(*leg, start);
                    world.steps.insert(*leg, start);
                }
                Deed::Stop { leg } => world.stopping.push(*leg),
                _ => {}
            }
            books.write(deed);
        }
        assert!(sweep.open().count() <= spec.parallel as usize, "too many at once");
        if crash(turn) {
            sweep = books.restore(spec);
            let again = sweep.sentenced();
            world.stopping.iter().for_each(|leg| assert!(again.contains(leg), "a sentence was forgotten"));
            for leg in sweep.open().collect::<Vec<_>>() {
                let reports = world.course(&sweep, leg);
                sweep.course(leg, &reports);
            }
        }
        let open: Vec<u32> = sweep.open().collect();
        if open.is_empty() {
            assert!(matches!(sweep.phase(Spent::default()), Phase::Done { .. }));
            return (books, sweep);
        }
        let leg = open[world.rng.below(open.len())];
        world.turn(&mut sweep, leg);
    }
    panic!("it does not end");
}

impl World {
    fn steps_of(&self, leg: u32) -> i64 {
        self.steps.get(&leg).copied().unwrap_or(0)
    }

    fn course(&self, sweep: &Sweep, leg: u32) -> Vec<Report> {
        course(sweep.leg(leg).unwrap(), self.starts[&leg], self.steps_of(leg))
    }

    fn turn(&mut self, sweep: &mut Sweep, leg: u32) {
        if let Some(place) = self.stopping.iter().position(|stopping| *stopping == leg) {
            self.stopping.remove(place);
            let reports = self.course(sweep, leg);
            return sweep.ended(leg, Outcome::Cancelled, &reports);
        }
        let (lost, failed) = (self.rng.unit() < self.loses, self.rng.unit() < self.fails);
        let stride = 1 + self.rng.below(5) as i64;
        *self.steps.get_mut(&leg).unwrap() += stride;
        let steps = self.steps_of(leg).min(LENGTH);
        self.steps.insert(leg, steps);
        let reports = self.course(sweep, leg);
        if lost {
            sweep.ended(leg, Outcome::Lost, &reports);
        } else if failed {
            sweep.ended(leg, Outcome::Failed, &reports);
        } else if steps >= LENGTH {
            sweep.ended(leg, Outcome::Succeeded, &reports);
        } else {
            sweep.course(leg, &reports);
        }
    }
}

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
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn a_sweep_that_is_made_again_at_any_moment_does_the_same(
        kind in 0..KINDS.len(), seed in any::<u64>(), every in 1usize..12,
    ) {
        let spec = spec(KINDS[kind]);
        let (calm, _) = play(&spec, seed, 0.02, 0.02, |_| false);
        let (rough, _) = play(&spec, seed, 0.02, 0.02, |turn| turn % every == 0);
        prop_assert!(calm == rough, "another history");
    }
}

#[test]
fn the_budget_is_kept_and_the_best_is_confirmed_with_fresh_seeds() {
    let spec = spec("sampler = \"tpe\"\ntrials = 60\nparallel = 4");
    let (books, sweep) = play(&spec, 1, 0.0, 0.0, |_| false);
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
    let (books, _) = play(&spec, 1, 0.0, 0.0, |_| false);
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
fn a_lost_run_is_made_again_and_a_failed_one_is_not() {
    let spec = spec("trials = 10\nparallel = 1\nrepeats = 1");
    let mut sweep = Sweep::new(spec).unwrap();
    sweep.fill(Spent::default(), 1);
    let lost = sweep.open().next().unwrap();
    let first = sweep.leg(lost).unwrap().clone();
    sweep.ended(lost, Outcome::Lost, &[]);
    sweep.fill(Spent::default(), 1);
    let again = sweep.leg(sweep.open().next().unwrap()).unwrap().clone();
    assert_eq!((again.trial, again.seed, &again.params, again.from), (0, first.seed, &first.params, Some(lost)));
    let second = sweep.open().next().unwrap();
    sweep.ended(second, Outcome::Failed, &[]);
    sweep.fill(Spent::default(), 1);
    assert_eq!(sweep.leg(sweep.open().next().unwrap()).unwrap().trial, 1);
    assert_eq!(sweep.trials()[0].fate, Fate::Failed);
}

#[test]
fn a_sweep_of_nothing_but_failures_gives_up() {
    let spec = spec("sampler = \"tpe\"\ntrials = 1000\nparallel = 2\ngive-up = 5");
    let (books, sweep) = play(&spec, 1, 0.0, 1.0, |_| false);
    assert!((5..=6).contains(&books.trials.len()), "{}", books.trials.len());
    assert!(matches!(sweep.phase(Spent::default()), Phase::Done { gave_up: true, .. }));
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
fn paused_trials_go_on_from_where_they_were() {
    let (books, _) = play(&spec(KINDS[3]), 5, 0.0, 0.0, |_| false);
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
