//! What happens to runs, and what a ledger would hold of it.

use std::collections::BTreeMap;

use trainyard_core::search::{
    Deed, End, Fate, Leg, LegRecord, Outcome, Phase, Record, Report, Rng, Spent, Sweep, Told, rng,
};
use trainyard_core::spec::{Layer, More, SweepSpec, load};
use trainyard_core::value::{Params, Value};

pub(crate) fn spec(more: &str) -> SweepSpec {
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
pub(crate) struct Books {
    pub(crate) trials: Vec<(Params, Option<Fate>)>,
    pub(crate) legs: Vec<(Leg, bool, Option<End>)>,
    pub(crate) told: Vec<Told>,
    pub(crate) spec: SweepSpec,
    pub(crate) failures: u32,
}

impl Books {
    pub(crate) fn new(spec: &SweepSpec) -> Self {
        Self { trials: Vec::new(), legs: Vec::new(), told: Vec::new(), spec: spec.clone(), failures: 0 }
    }

    pub(crate) fn write(&mut self, deed: Deed) {
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
            Deed::Confirm { runs } => self.spec.confirm = Some(runs),
            Deed::Stop { .. } => {}
            Deed::Ended { leg, end } => {
                assert_eq!(self.legs[leg as usize].2.replace(end), None, "ended twice: {leg}");
            }
            Deed::Fate { trial, fate } => self.trials[trial as usize].1 = Some(fate),
            Deed::Told { number, what } => {
                assert_eq!(number as usize, self.told.len());
                self.told.push(what);
            }
            Deed::Failures { in_a_row } => self.failures = in_a_row,
        }
    }

    pub(crate) fn restore(&self) -> Sweep {
        let leg = |(leg, has_begun, end): &(Leg, bool, Option<End>)| LegRecord {
            leg: leg.clone(),
            has_begun: *has_begun,
            end: *end,
        };
        let legs = self.legs.iter().map(leg).collect();
        let (spec, trials, told) = (self.spec.clone(), self.trials.clone(), self.told.clone());
        Sweep::restore(Record { spec, trials, legs, told, failures: self.failures }).unwrap()
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
    luck: Luck,
}

/// How likely it is in each turn.
#[derive(Clone, Copy, Default)]
pub(crate) struct Luck {
    pub(crate) loses: f64,
    pub(crate) fails: f64,
    /// Its time limit ends it.
    pub(crate) late: f64,
    /// After its end the sweep is asked for so many trials more, once.
    pub(crate) more: Option<u32>,
}

const LENGTH: i64 = 27;

pub(crate) fn number(params: &Params, name: &str) -> f64 {
    match params[name] {
        Value::Float(value) => value,
        Value::Int(value) => value as f64,
        ref other => panic!("{other:?}"),
    }
}

fn reward(leg: &Leg, params: &Params, step: i64) -> f64 {
    let (x, y) = (number(params, "x"), number(params, "y"));
    let noise = ((leg.seed * 7919 + 13) % 101) as f64 / 1000.0;
    let top = 1.0 - (x - 0.7).abs() - (y - 4.0).abs() / 20.0 + noise;
    top * (1.0 - 1.0 / (1.0 + step as f64))
}

fn course(leg: &Leg, params: &Params, from: i64, to: i64) -> Vec<Report> {
    (from + 1..=to).map(|step| Report { step, value: reward(leg, params, step) }).collect()
}

/// Goes through a whole sweep; `crash` says after which turns the controller is made anew.
pub(crate) fn play(spec: &SweepSpec, seed: u64, mut luck: Luck, crash: impl Fn(usize) -> bool) -> (Books, Sweep) {
    let mut sweep = Sweep::new(spec.clone()).unwrap();
    let mut books = Books::new(spec);
    let mut world =
        World { rng: rng(seed, 0), steps: BTreeMap::new(), starts: BTreeMap::new(), stopping: Vec::new(), luck };
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
            sweep = books.restore();
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
            let Some(trials) = luck.more.take() else { return (books, sweep) };
            sweep.extend(sweep.spec().extended(&More { trials: Some(trials), ..More::default() }).unwrap());
            books.spec = sweep.spec().clone();
            continue;
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
        let leg_of_it = sweep.leg(leg).unwrap();
        let params = sweep.params_of(leg_of_it.trial).unwrap();
        course(leg_of_it, &params, self.starts[&leg], self.steps_of(leg))
    }

    fn turn(&mut self, sweep: &mut Sweep, leg: u32) {
        if let Some(place) = self.stopping.iter().position(|stopping| *stopping == leg) {
            self.stopping.remove(place);
            let reports = self.course(sweep, leg);
            return sweep.ended(leg, Outcome::Cancelled, &reports);
        }
        let Luck { loses, fails, late, .. } = self.luck;
        let (lost, failed, late) = (self.rng.unit() < loses, self.rng.unit() < fails, self.rng.unit() < late);
        let stride = 1 + self.rng.below(5) as i64;
        *self.steps.get_mut(&leg).unwrap() += stride;
        let steps = self.steps_of(leg).min(LENGTH);
        self.steps.insert(leg, steps);
        let reports = self.course(sweep, leg);
        if lost {
            sweep.ended(leg, Outcome::Lost, &reports);
        } else if failed {
            sweep.ended(leg, Outcome::Failed, &reports);
        } else if late {
            sweep.ended(leg, Outcome::OutOfTime, &reports);
        } else if steps >= LENGTH {
            sweep.ended(leg, Outcome::Succeeded, &reports);
        } else {
            sweep.course(leg, &reports);
        }
    }
}
