//! What a study of many trials costs: `cargo run --release --example sweeps -- [TRIALS] [FOLDER]`. Prints a line of
//! `name<TAB>milliseconds` for each measurement.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program to be read by programs")]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant as Clock;

use trainyard_agent::depot::Depot;
use trainyard_agent::disk::now;
use trainyard_core::id::RunId;
use trainyard_core::run::{Policy, Run};
use trainyard_core::search::{Deed, Leg, Outcome, Report, Spent, Sweep};
use trainyard_core::spec::{Layer, SweepSpec, load};
use trainyard_engine::ledger::{Batch, Change, Commit, Ledger, NewRun, SweepChange};
use trainyard_engine::sweep::Overview;

const FILE: &str = r#"
[jobs.train]
command = ["true"]
metrics = { stdout = 'reward (?<reward>\S+)' }
[sweeps.study]
job = "train"
metric = "reward"
goal = "maximize"
sampler = "SAMPLER"
trials = 1000000
repeats = 1
[sweeps.study.space]
a = { uniform = [0.0, 1.0] }
b = { uniform = [-5.0, 5.0] }
c = { log-uniform = [1e-5, 1.0] }
d = { log-uniform = [1e-3, 10.0] }
e = { int = [1, 64] }
f = { log-int = [1, 4096] }
g = { power-of-two = [2, 1024] }
h = { quantized = [0.0, 1.0, 0.05] }
i = { choice = ["adam", "sgd", "rmsprop"] }
j = { boolean = true }
"#;
const REPEATS: usize = 20;

struct Study {
    ledger: Ledger,
    sweep: Sweep,
    id: i64,
    batch: i64,
}

fn main() {
    let mut words = std::env::args().skip(1);
    let trials: u32 = words.next().map_or(10_000, |text| text.parse().unwrap());
    let folder = words.next().unwrap_or_else(|| ".".to_owned());
    let root = tempfile::tempdir_in(folder).unwrap();
    let path = root.path().join("ledger.db");

    let mut study = Study::begin(&path, "random");
    for trial in 0..trials {
        study.turn(trial, Commit::Quick);
    }
    drop(study);

    let (mut opened, mut used) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        let (began, before) = (Clock::now(), cpu());
        let ledger = Ledger::open(&path).unwrap();
        let row = ledger.find_sweep("study").unwrap().unwrap();
        let overview = Overview::of(&ledger, row).unwrap();
        opened.push(began.elapsed().as_secs_f64() * 1e3);
        used.push(cpu() - before);
        assert_eq!(overview.sweep.trials().len(), trials as usize + 1, "one goes on");
    }
    say("re-open", opened);
    say("re-open, CPU", used);

    let mut study = Study::reopen(&path, "tpe", trials);
    say("tell and ask, durable", (trials..).take(REPEATS).map(|leg| study.turn(leg, Commit::Durable)).collect());
    say("one write and fsync", (0..REPEATS).map(|_| synced(&root.path().join("probe"))).collect());
}

fn say(name: &str, mut milliseconds: Vec<f64>) {
    milliseconds.sort_by(f64::total_cmp);
    println!("{name}\t{:.3}", milliseconds[milliseconds.len() / 2]);
}

/// Milliseconds of all threads.
fn cpu() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
}

fn synced(path: &Path) -> f64 {
    let mut file = File::options().append(true).create(true).open(path).unwrap();
    let began = Clock::now();
    file.write_all(&[7; 8192]).unwrap();
    file.sync_data().unwrap();
    began.elapsed().as_secs_f64() * 1e3
}

impl Study {
    fn begin(path: &Path, sampler: &str) -> Self {
        let (spec, batch) = settings(sampler);
        let mut ledger = Ledger::open(path).unwrap();
        let id = ledger.begin_sweep(&spec, &[batch], now()).unwrap();
        let batch = ledger.sweep(id).unwrap().unwrap().batches[0];
        let mut study = Self { ledger, sweep: Sweep::new(spec).unwrap(), id, batch };
        study.sweep.fill(Spent::default(), 1);
        study.record(Commit::Quick);
        study
    }

    /// The same study, gone on with by another sampler.
    fn reopen(path: &Path, sampler: &str, trials: u32) -> Self {
        let ledger = Ledger::open(path).unwrap();
        let mut row = ledger.find_sweep("study").unwrap().unwrap();
        row.spec = settings(sampler).0;
        let (id, batch) = (row.id, row.batches[0]);
        let sweep = Sweep::restore(ledger.sweep_record(&row).unwrap().record).unwrap();
        assert_eq!(sweep.open().collect::<Vec<_>>(), [trials]);
        Self { ledger, sweep, id, batch }
    }

    /// A run ends, the next configuration is asked for, and both are in the ledger; in milliseconds.
    fn turn(&mut self, leg: u32, commit: Commit) -> f64 {
        let began = Clock::now();
        let value = f64::from(leg.wrapping_mul(2_654_435_761) % 1_000) / 1_000.0;
        self.sweep.ended(leg, Outcome::Succeeded, &[Report { step: 1, value }]);
        self.sweep.fill(Spent::default(), 1);
        self.record(commit);
        began.elapsed().as_secs_f64() * 1e3
    }

    fn record(&mut self, commit: Commit) {
        let mut changes = Vec::new();
        for deed in self.sweep.deeds() {
            let change = match deed {
                Deed::Try { trial, params } => SweepChange::Try { trial, params },
                Deed::Fate { trial, fate } => SweepChange::Fate { trial, fate },
                Deed::Await { leg, what } => SweepChange::Await { leg, what },
                Deed::Ended { leg, end } => SweepChange::Ended { leg, end },
                Deed::Begin { leg } => self.run(leg, self.sweep.leg(leg).unwrap()),
                Deed::Told { .. } | Deed::Stop { .. } | Deed::Confirm { .. } | Deed::Failures { .. } => {
                    unreachable!("no scheduler, no race, no failures")
                }
            };
            changes.push(Change::Sweep { sweep: self.id, change });
        }
        self.ledger.apply(commit, &changes).unwrap();
    }

    fn run(&self, leg: u32, what: &Leg) -> SweepChange {
        let id: RunId = format!("{leg:032x}").parse().unwrap();
        let run = NewRun {
            id,
            name: format!("study-{}", what.trial),
            seed: Some(what.seed),
            params: self.sweep.params_of(what.trial).unwrap(),
            from: None,
            run: Run::new(Policy { attempts: 1, on: Vec::new() }, now()),
            place: None,
            retry_of: None,
        };
        let (job, target) = ("train".to_owned(), "local".to_owned());
        SweepChange::Begin { leg, batch: self.batch, job, target, run: Box::new(run), at: now() }
    }
}

fn settings(sampler: &str) -> (SweepSpec, Batch) {
    let text = FILE.replace("SAMPLER", sampler);
    let config = load(&[Layer { name: "trainyard.toml".to_owned(), text }], &[], "any").unwrap().config;
    let batch = Batch {
        project: "/project".into(),
        target: "local".to_owned(),
        declared: trainyard_engine::target::Declared::default(),
        depot: Depot::new("/depot"),
        job: config.jobs["train"].clone(),
        source: trainyard_agent::order::Source::InPlace("/project".into()),
        env: [].into(),
        extra: Vec::new(),
        site: None,
        provenance: None,
        tie: None,
    };
    (config.sweeps["study"].clone(), batch)
}
