//! Sweeps with real programs: searched, confirmed, stopped early, paused and promoted, copied, killed at any moment.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
use trainyard_agent::disk::now;
use trainyard_core::spec::More;
use trainyard_engine::ledger::{Ledger, SweepRequest};
use trainyard_testkit::{Yard, eventually, processes};

const PROGRAM: &str = env!("CARGO_BIN_EXE_yard");

/// A training whose reward grows towards something that depends on its parameters: one line and one checkpoint each step.
/// Who executes what is written down outside.
const TRAIN: &str = r#"
import os, sys, time
args = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--"))
with open(os.environ["EXECUTED"], "a") as file:
    file.write(f"{os.environ['YARD_RUN']} {os.environ['YARD_ATTEMPT']}\n")
x, seed, steps = float(args["x"]), int(args["seed"]), int(args.get("steps", 3))
pause = float(args.get("pause", 0))
step = 0
if "checkpoint" in args:
    step = int(open(args["checkpoint"]).read())
os.makedirs("logs", exist_ok=True)
while step < steps:
    step += 1
    time.sleep(pause)
    top = 1 - abs(x - 0.7) + (seed * 7919 % 101) / 10000
    print(f"step {step} reward {top * (1 - 1 / (1 + step))}", flush=True)
    with open("logs/new", "w") as file:
        file.write(str(step))
    os.rename("logs/new", f"logs/model_{step}")
"#;

const FILE: &str = r#"
[jobs.train]
command = ["python3", "train.py", "--seed={seed}", EXTRA]
env = { EXECUTED = "LOG" }
outputs = ["logs/"]
cpus = 1
[jobs.train.resume]
checkpoint = "logs/model_*"
args = ["--checkpoint={checkpoint}"]
[jobs.train.metrics]
stdout = 'step (?<step>\d+) reward (?<reward>\S+)'
[targets.here]
kind = "local"
cpus = 4
[sweeps.tune]
job = "train"
metric = "reward"
goal = "maximize"
sampler = "tpe"
SWEEP
[sweeps.tune.space]
x = { uniform = [0.0, 1.0] }
"#;

fn yard(extra: &[&str], sweep: &str) -> Yard {
    let yard = Yard::new(PROGRAM, "");
    let words: Vec<String> = extra.iter().map(|word| format!("\"{word}\"")).collect();
    let file = FILE.replace("EXTRA", &words.join(", ")).replace("SWEEP", sweep);
    let log = yard.root().join("executed");
    std::fs::write(&log, "").unwrap();
    yard.write("trainyard.toml", &file.replace("LOG", &log.to_string_lossy()));
    yard.write("train.py", TRAIN);
    yard
}

fn begin(yard: &Yard) {
    let output = yard.run(&["sweep", "tune", "--on", "here", "--detach"]);
    assert_eq!(output.exit, 0, "{output:?}");
}

fn sweep(yard: &Yard) -> Value {
    yard.json(&["sweep", "show", "tune"])
}

fn wait_for_end(yard: &Yard) -> Value {
    eventually("the sweep to end", || {
        let shown = sweep(yard);
        let over = !shown["ended"].is_null() && shown["runs"]["running"] == 0;
        Some(shown).filter(|_| over)
    })
}

/// The yardmaster and all agents, once so many runs have ended.
fn kill_all_when(yard: &Yard, ended: u64) {
    eventually("the sweep to get on", || {
        let shown = sweep(yard);
        (shown["runs"]["ended"].as_u64().unwrap() >= ended || !shown["ended"].is_null()).then_some(())
    });
    for pid in yard.yardmasters().into_iter().chain(yard.agents()) {
        processes::kill(pid);
        eventually("a killed process to be gone", || (!processes::is_alive(pid)).then_some(()));
    }
}

fn trials(shown: &Value) -> &Vec<Value> {
    shown["trials"].as_array().unwrap()
}

fn runs(shown: &Value) -> Vec<&Value> {
    trials(shown).iter().flat_map(|trial| trial["runs"].as_array().unwrap()).collect()
}

/// How often each attempt of each run was executed.
fn executions(yard: &Yard) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    for line in std::fs::read_to_string(yard.root().join("executed")).unwrap().lines() {
        *found.entry(line.to_owned()).or_default() += 1;
    }
    found
}

#[test]
fn a_sweep_finds_confirms_and_prints_the_best() {
    let yard = yard(&[], "trials = 30\nparallel = 4");
    let output = yard.run(&["sweep", "tune", "--on", "here"]);
    assert_eq!(output.exit, 0, "{output:?}");
    assert!(output.stdout.contains("fresh seeds"), "{output:?}");
    let shown = sweep(&yard);
    assert_eq!(shown["state"], "done");
    assert_eq!(runs(&shown).len(), 30);
    let seeds = |role: &str| -> BTreeSet<u64> {
        let of_it = |run: &&&Value| run["role"].to_string().contains(role);
        runs(&shown).iter().filter(of_it).map(|run| run["seed"].as_u64().unwrap()).collect()
    };
    assert!(seeds("confirm").is_disjoint(&seeds("search")) && seeds("confirm").len() >= 2);
    let best = yard.json(&["sweep", "best", "tune"]);
    assert_eq!(best["score"]["is"], "confirmed");
    assert!((best["params"]["x"].as_f64().unwrap() - 0.7).abs() < 0.1, "{best}");
    let line = yard.run(&["sweep", "best", "tune", "--args"]).stdout;
    let words = shlex::split(&line).unwrap();
    assert_eq!(words, [format!("--x={}", best["params"]["x"])]);
    let again = yard.run(&["run", "train", "--on", "here", "--seeds", "5", "--", &words[0]]);
    assert_eq!(again.exit, 0, "{again:?}");
    let not_a_run = yard.run(&["plot", "tune"]);
    assert!(not_a_run.exit == 2 && not_a_run.stderr.contains("`tune` is a sweep"), "{not_a_run:?}");
    let list = yard.run(&["sweep", "ls"]).stdout;
    assert!(list.contains("tune") && list.contains("30/30"), "{list}");
}

/// The yardmaster and all agents are killed again and again. With one run at a time the order in which runs end is
/// the same, so everything else must be, too.
#[test]
fn killed_twenty_times_it_ends_as_if_nothing_had_happened() {
    let settings = "trials = 40\nparallel = 1\nretries = 50";
    let calm = yard(&[], settings);
    begin(&calm);
    let rough = yard(&[], settings);
    begin(&rough);
    for round in 1..=20 {
        kill_all_when(&rough, (round * 2).min(39));
    }
    let (calm_end, rough_end) = (wait_for_end(&calm), wait_for_end(&rough));
    let params = |shown: &Value| -> Vec<Value> { trials(shown).iter().map(|trial| trial["params"].clone()).collect() };
    assert_eq!(params(&calm_end), params(&rough_end), "the same suggestions");
    let fates = |shown: &Value| -> Vec<Value> { trials(shown).iter().map(|trial| trial["fate"].clone()).collect() };
    assert_eq!(fates(&calm_end), fates(&rough_end), "the same results");
    assert_eq!(calm_end["best"]["score"], rough_end["best"]["score"]);
    let counted = runs(&rough_end).iter().filter(|run| run["end"]["is"] == "done").count();
    assert_eq!(counted, 40, "each run of the budget ended once");
    let twice: Vec<_> = executions(&rough).into_iter().filter(|(_, times)| *times > 1).collect();
    assert!(twice.is_empty(), "executed twice: {twice:?}");
}

#[test]
fn pause_resume_extend_and_stop() {
    let yard = yard(&["--pause=0.1"], "trials = 8\nparallel = 2\nrepeats = 1");
    begin(&yard);
    eventually("a first result", || (sweep(&yard)["runs"]["ended"].as_u64().unwrap() >= 1).then_some(()));
    assert_eq!(yard.run(&["sweep", "pause", "tune"]).exit, 0);
    let paused = eventually("the runs to end", || {
        Some(sweep(&yard)).filter(|shown| shown["state"] == "paused" && shown["runs"]["running"] == 0)
    });
    assert!(trials(&paused).len() < 8, "{paused}");
    assert_eq!(yard.run(&["sweep", "resume", "tune"]).exit, 0);
    assert_eq!(trials(&wait_for_end(&yard)).len(), 8);
    assert_eq!(yard.run(&["sweep", "extend", "tune", "--trials", "+4"]).exit, 0);
    eventually("more trials", || (trials(&sweep(&yard)).len() > 8).then_some(()));
    assert_eq!(yard.run(&["sweep", "stop", "tune"]).exit, 0);
    let stopped = wait_for_end(&yard);
    assert_eq!(stopped["state"], "stopped");
    let going: Vec<Value> = yard.runs().into_iter().filter(|run| run["ended"].is_null()).collect();
    assert!(going.is_empty(), "{going:?}");
    let output = yard.run(&["sweep", "stop", "tune"]);
    assert!(output.exit == 0 && output.stderr.contains("has ended already"), "{output:?}");
}

/// As if `yard sweep extend` had been killed after it wrote down what it was asked for, with no yardmaster about.
#[test]
fn what_was_asked_for_is_heard_by_whoever_looks_next() {
    let yard = yard(&[], "trials = 2\nrepeats = 1");
    begin(&yard);
    let id = wait_for_end(&yard)["id"].as_i64().unwrap();
    for pid in yard.yardmasters() {
        processes::kill(pid);
        eventually("a killed process to be gone", || (!processes::is_alive(pid)).then_some(()));
    }
    let mut ledger = Ledger::open(&yard.home().join("ledger.db")).unwrap();
    let more = SweepRequest::Extend(More { trials: Some(2), ..More::default() });
    ledger.ask_of_sweep(id, &more, now()).unwrap();
    eventually("the trials that were asked for", || (trials(&sweep(&yard)).len() == 4).then_some(()));
    assert_eq!(wait_for_end(&yard)["state"], "done");
}

/// What was decided before the crash holds after it: the larger budget, and that the race is to be held anew.
#[test]
fn an_extended_sweep_survives_a_crash() {
    let settings = "trials = 10\nparallel = 1";
    let (calm, rough) = (yard(&[], settings), yard(&[], settings));
    for yard in [&calm, &rough] {
        begin(yard);
        wait_for_end(yard);
    }
    for yard in [&calm, &rough] {
        let output = yard.run(&["sweep", "extend", "tune", "--trials", "+10"]);
        assert_eq!(output.exit, 0, "{output:?}");
    }
    kill_all_when(&rough, 12);
    let (calm, rough) = (wait_for_end(&calm), wait_for_end(&rough));
    let decided = |shown: &Value| -> Vec<(Value, Value)> {
        trials(shown).iter().map(|trial| (trial["params"].clone(), trial["fate"].clone())).collect()
    };
    assert_eq!(decided(&calm), decided(&rough));
    assert_eq!(calm["best"], rough["best"]);
    let confirming = |shown: &Value| {
        let of_it = |run: &&&Value| run["role"].get("confirm").is_some() && run["end"]["is"] == "done";
        runs(shown).iter().filter(of_it).count()
    };
    assert_eq!(confirming(&calm), confirming(&rough));
    assert!(confirming(&calm) >= 6, "a race of its own: {calm}");
}

#[test]
fn a_seed_that_its_time_limit_ends_counts_with_what_it_reached() {
    let yard = yard(&["--pause=0.05", "--steps=10000"], "trials = 2\nparallel = 4\nrepeats = 2");
    let file = std::fs::read_to_string(yard.project().join("trainyard.toml")).unwrap();
    yard.write("trainyard.toml", &file.replace("cpus = 1\n", "cpus = 1\ntime = \"1s\"\n"));
    begin(&yard);
    let shown = wait_for_end(&yard);
    assert_eq!(shown["state"], "done", "{shown}");
    for trial in trials(&shown) {
        let seeds: Vec<u64> =
            trial["runs"].as_array().unwrap().iter().map(|run| run["seed"].as_u64().unwrap()).collect();
        let hopeless = trial["fate"]["is"] == "stopped" && seeds == [1];
        assert!(trial["fate"]["is"] == "done" && seeds == [1, 2] || hopeless, "{trial}");
    }
    let run = runs(&shown)[0]["run"].as_str().unwrap().to_owned();
    let reason = yard.show(&run)["reason"].as_str().unwrap_or_default().to_owned();
    assert!(reason.contains("time limit reached"), "{reason}");
}

#[test]
fn a_trial_stopped_early_is_gone_from_the_machine() {
    let stop = "stop = { scheduler = \"asha\", first = 2, factor = 3 }";
    let yard = yard(&["--pause=0.1", "--steps=18"], &format!("trials = 12\nparallel = 4\nrepeats = 1\n{stop}"));
    begin(&yard);
    let shown = wait_for_end(&yard);
    let ends = |what: &str| runs(&shown).iter().filter(|run| run["end"]["is"] == what).count();
    assert!(ends("stopped") >= 4 && ends("done") >= 1, "{shown}");
    assert_eq!(ends("stopped") + ends("done"), 12);
    for run in runs(&shown).iter().filter(|run| run["end"]["is"] == "stopped") {
        let id = run["run"].as_str().unwrap();
        assert_eq!(yard.show(id)["state"], "cancelled");
        assert!(processes::with_environment(&format!("YARD_RUN={id}")).is_empty());
    }
    let best = &shown["best"];
    assert_eq!(best["score"]["is"], "seen");
}

#[test]
fn a_paused_trial_goes_on_from_its_checkpoint() {
    let stop = "stop = { scheduler = \"asha\", first = 2, factor = 2, mode = \"pause\", last = 16 }";
    let yard = yard(&["--pause=0.15", "--steps=16"], &format!("trials = 8\nparallel = 3\nrepeats = 1\n{stop}"));
    begin(&yard);
    let shown = wait_for_end(&yard);
    let paused = runs(&shown).iter().filter(|run| run["end"]["is"] == "paused").count();
    assert!(paused >= 2, "{shown}");
    let went_on = trials(&shown).iter().filter(|trial| trial["runs"].as_array().unwrap().len() > 1);
    let mut seen = 0;
    for trial in went_on {
        for run in &trial["runs"].as_array().unwrap()[1..] {
            let shown = yard.show(run["run"].as_str().unwrap());
            let from = shown["attempts"][0]["resumed_from"].as_str().unwrap_or_default().to_owned();
            assert!(from.starts_with("logs/model_"), "{shown}");
            seen += 1;
        }
    }
    assert!(seen >= 1, "{shown}");
}

#[test]
fn a_population_copies_from_its_leaders() {
    let stop = "stop = { scheduler = \"pbt\", every = 4 }";
    let yard = yard(&["--pause=0.2", "--steps=16"], &format!("trials = 4\nparallel = 4\n{stop}"));
    begin(&yard);
    let shown = wait_for_end(&yard);
    assert_eq!(trials(&shown).len(), 4);
    let replaced = runs(&shown).iter().filter(|run| run["end"]["is"] == "replaced").count();
    assert!(replaced >= 1, "{shown}");
    let copies = trials(&shown).iter().filter(|trial| trial["runs"].as_array().unwrap().len() > 1);
    for trial in copies {
        let last = trial["runs"].as_array().unwrap().last().unwrap();
        let run = yard.show(last["run"].as_str().unwrap());
        assert!(run["attempts"][0]["resumed_from"].is_string(), "{run}");
        assert_eq!(run["params"]["x"], trial["params"]["x"]);
    }
}

/// The leader's checkpoint cannot be copied: whoever was to do so goes on from its own, and nobody has failed.
#[test]
fn a_copy_that_cannot_be_made_is_no_failure() {
    let points = "points = [{ x = 0.7 }, { x = 0.65 }, { x = 0.1 }]";
    let stop = "stop = { scheduler = \"pbt\", every = 4 }";
    let yard = yard(&["--pause=0.2", "--steps=12"], &format!("trials = 3\nparallel = 3\n{points}\n{stop}"));
    let spoilt =
        "    if x > 0.6:\n        os.mkdir(f\"logs/model_{step}_\")\n        os.mkfifo(f\"logs/model_{step}_/pipe\")\n";
    yard.write("train.py", &format!("{TRAIN}{spoilt}"));
    begin(&yard);
    let shown = wait_for_end(&yard);
    assert_eq!(shown["state"], "done", "{shown}");
    let copies = trials(&shown)[2]["runs"].as_array().unwrap().clone();
    let ends: Vec<&str> = copies.iter().map(|run| run["end"]["is"].as_str().unwrap()).collect();
    assert_eq!(ends[..2], ["replaced", "lost"], "{shown}");
    let lost = yard.show(copies[1]["run"].as_str().unwrap());
    assert!(lost["reason"].as_str().unwrap().contains("neither a file nor a folder"), "{lost}");
    let next = yard.show(copies[2]["run"].as_str().unwrap());
    assert!(next["attempts"][0]["resumed_from"].is_string(), "its own checkpoint: {next}");
    assert!(!ends.contains(&"failed"), "{ends:?}");
}

#[test]
fn a_sweep_whose_metric_nobody_reports_gives_up_and_says_why() {
    let yard = yard(&[], "trials = 50\nparallel = 2\ngive-up = 3");
    yard.write("train.py", "print('step 1 loss 3')\nimport os; os.makedirs('logs')");
    let output = yard.run(&["sweep", "tune", "--on", "here"]);
    assert_eq!(output.exit, 1, "{output:?}");
    assert!(output.stdout.contains("`reward`"), "{output:?}");
    let shown = sweep(&yard);
    assert_eq!(shown["state"], "failed");
    assert!(trials(&shown).len() <= 4, "{shown}");
}

const BY_FILE: &str = r#"
[jobs.train]
command = ["cat", "conf.yaml"]
params-style = "file"
params-file = { template = "conf.tmpl.yaml", to = "conf.yaml" }
[jobs.train.metrics]
stdout = 'lr: (?<lr>\S+)'
headline = "lr"
[sweeps.tune]
job = "train"
metric = "lr"
goal = "minimize"
trials = 3
repeats = 1
[sweeps.tune.space]
"agent.lr" = { log-uniform = [1e-5, 1e-1] }
net = { fixed = "small" }
"#;

#[test]
fn parameters_in_a_file_are_checked_before_and_given_again_after() {
    let yard = Yard::new(PROGRAM, BY_FILE);
    let missing = yard.run(&["sweep", "tune", "--dry-run"]);
    assert_eq!(missing.exit, 3, "{missing:?}");
    assert!(missing.stderr.contains("there is no file `conf.tmpl.yaml`"), "{missing:?}");
    yard.write("conf.tmpl.yaml", "lr: {param.agent.lr}\n");
    let lost = yard.run(&["sweep", "tune"]);
    assert_eq!(lost.exit, 3, "{lost:?}");
    assert!(lost.stderr.contains("`net` is nowhere in `conf.tmpl.yaml`"), "{lost:?}");
    assert_eq!(yard.runs().len(), 0);
    yard.write("conf.tmpl.yaml", "lr: {param.agent.lr}\nnet: {param.net}\n");
    let ran = yard.run(&["sweep", "tune"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    let best = yard.json(&["sweep", "best", "tune"]);
    let lr = best["params"]["agent.lr"].as_f64().unwrap();
    let words = shlex::split(&yard.run(&["sweep", "best", "tune", "--args"]).stdout).unwrap();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let again = yard.run(&[&["run", "train"], &words[..]].concat());
    assert_eq!(again.exit, 0, "{again:?}");
    assert_eq!(yard.run(&["logs", "train"]).stdout, format!("lr: {lr:?}\nnet: small\n"));
    let listed = yard.run(&["ps"]).stdout;
    assert!(listed.contains("METRIC") && listed.contains("lr 0"), "the job's headline: {listed}");
}

#[test]
fn a_dry_run_begins_nothing() {
    let yard = yard(&[], "trials = 5\nparallel = 2");
    let output = yard.run(&["sweep", "tune", "--on", "here", "--dry-run"]);
    assert_eq!(output.exit, 0, "{output:?}");
    assert!(output.stdout.contains("--x=") && output.stdout.contains("nothing was sent"), "{output:?}");
    // What it shows is what begins: the same configurations with the same seeds.
    let shown = yard.json(&["sweep", "tune", "--on", "here", "--dry-run"]);
    let first: Vec<Value> = shown["first"].as_array().unwrap().clone();
    let seeds: Vec<u64> = first.iter().map(|run| run["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds, [1, 2]);
    for run in &first {
        let argv = run["argv"].to_string();
        assert!(argv.contains(&format!("--seed={}\"", run["seed"])), "{run}");
        assert!(argv.contains(&format!("--x={}\"", run["params"]["x"])), "{run}");
    }
    assert_eq!(yard.json(&["sweep", "ls"])["sweeps"].as_array().unwrap().len(), 0);
    begin(&yard);
    let begun = wait_for_end(&yard);
    for (trial, foreseen) in trials(&begun).iter().zip(&first) {
        assert_eq!(trial["params"], foreseen["params"]);
        assert_eq!(trial["runs"][0]["seed"], foreseen["seed"]);
    }
}

#[test]
fn names_that_do_not_exist_are_told() {
    let yard = yard(&[], "trials = 5");
    let output = yard.run(&["sweep", "tine"]);
    assert!(output.exit == 3 && output.stderr.contains("sweeps: tune"), "{output:?}");
    let output = yard.run(&["sweep", "show", "tune"]);
    assert!(output.exit == 2 && output.stderr.contains("yard sweep ls"), "{output:?}");
}

/// A real training, of whose space more than half does not learn, while the yardmaster and all agents are killed again
/// and again.
#[test]
fn the_cartpole_example_is_solved_in_spite_of_twenty_kills() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cartpole");
    let yard = Yard::new(PROGRAM, "");
    for file in ["trainyard.toml", "train.py"] {
        let text = std::fs::read_to_string(example.join(file)).unwrap();
        yard.write(file, &text.replace("[sweeps.tune]\n", "[sweeps.tune]\nretries = 50\n"));
    }
    let output = yard.run(&["sweep", "tune", "--trials", "60", "--parallel", "2", "--detach"]);
    assert_eq!(output.exit, 0, "{output:?}");
    for round in 1..=20 {
        kill_all_when(&yard, round * 2);
    }
    let shown = wait_for_end(&yard);
    assert_eq!(shown["state"], "done", "{shown}");
    let best = yard.json(&["sweep", "best", "tune"]);
    let score = &best["score"];
    assert_eq!(score["is"], "confirmed", "{best}");
    assert!(score["mean"].as_f64().unwrap() >= 475.0 && score["seeds"].as_u64().unwrap() >= 4, "{best}");
    let said = yard.run(&["sweep", "best", "tune"]).stdout;
    for name in ["lr", "noise", "population"] {
        assert!(said.contains(&format!("--{name}={}", best["params"][name])), "{said}");
    }
    assert!(trials(&shown).iter().any(|trial| trial["fate"]["value"].as_f64().is_some_and(|value| value < 100.0)));
    let done = runs(&shown).into_iter().filter(|run| run["end"]["is"] == "done");
    assert_eq!(done.count(), 60, "each run of the budget ended once");
    for trial in trials(&shown) {
        let done = trial["runs"].as_array().unwrap().iter().filter(|run| run["end"]["is"] == "done");
        let seeds: Vec<u64> = done.map(|run| run["seed"].as_u64().unwrap()).collect();
        let distinct: BTreeSet<u64> = seeds.iter().copied().collect();
        assert_eq!(seeds.len(), distinct.len(), "none twice: {trial}");
    }
}
