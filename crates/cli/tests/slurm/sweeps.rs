//! One sweep over this machine and another behind ssh.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use trainyard_testkit::{Login, Yard, processes, within};

/// A sweep of 14 trials over two machines takes a while on one that is busy.
const PATIENCE: Duration = Duration::from_secs(180);

/// Writes down that it was executed, in a book for each machine; its parameter arrives as `$0`.
const FILE: &str = r#"
[jobs.train]
command = ['sh', '-c', 'echo "$YARD_RUN $YARD_ATTEMPT" >> "$HOME/book"; sleep 0.3; echo "reward ${0#--x=}"']
cpus = 1
[jobs.train.metrics]
stdout = 'reward (?<reward>\S+)'
[sweeps.tune]
job = "train"
metric = "reward"
goal = "maximize"
trials = 14
repeats = 1
parallel = 4
[sweeps.tune.space]
x = { uniform = [0.0, 1.0] }
[targets.here]
kind = "local"
cpus = 2
[targets.box]
kind = "ssh"
host = "HOST"
depot = "DEPOT"
cpus = 2
"#;

fn laptop(login: &Login<'_>) -> Yard {
    let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), "");
    let depot = login.home().join("depot");
    yard.write("trainyard.toml", &FILE.replace("HOST", login.host()).replace("DEPOT", &depot.to_string_lossy()));
    let home = yard.root().to_string_lossy().into_owned();
    yard.set("HOME", &home);
    yard.set("YARD_SSH", &login.ssh_command());
    yard.set("YARD_PACE", "300");
    yard.hide(login.home());
    yard
}

/// Which runs were executed there, each once.
fn executed(book: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(book).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let once: BTreeSet<String> = lines.iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(once.len(), lines.len(), "a run was executed twice:\n{text}");
    once
}

fn ended(yard: &Yard) -> Value {
    within(PATIENCE, "the end of the sweep", || {
        let shown = yard.json(&["sweep", "show", "tune"]);
        Some(shown).filter(|shown| !shown["ended"].is_null())
    })
}

fn runs_by_target(yard: &Yard) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for run in yard.json(&["ps", "--all"])["runs"].as_array().unwrap() {
        assert_eq!(run["state"], "succeeded", "{run}");
        let text = |name: &str| run[name].as_str().unwrap().to_owned();
        found.entry(text("target")).or_default().insert(text("id"));
    }
    found
}

#[test]
fn two_targets_share_a_sweep_through_a_crash_and_a_cut() {
    let login = Login::start(None);
    let yard = laptop(&login);
    let begun = yard.run(&["sweep", "tune", "--on", "here", "--on", "box", "--detach"]);
    assert_eq!(begun.exit, 0, "{begun:?}");
    let books = [yard.root().join("book"), login.home().join("book")];
    within(PATIENCE, "both to take part", || books.iter().all(|book| book.exists()).then_some(()));
    yard.yardmasters().into_iter().for_each(processes::kill);
    login.cut();
    let shown = ended(&yard);
    assert_eq!((&shown["state"], &shown["runs"]["ended"]), (&"done".into(), &14.into()), "{shown}");
    let by_target = runs_by_target(&yard);
    let names: Vec<&String> = by_target.keys().collect();
    assert_eq!(names, ["box", "here"]);
    assert_eq!(by_target.values().map(BTreeSet::len).sum::<usize>(), 14);
    assert_eq!(by_target["here"], executed(&books[0]));
    assert_eq!(by_target["box"], executed(&books[1]));
    let best = yard.json(&["sweep", "best", "tune"]);
    let trials = shown["trials"].as_array().unwrap();
    let most = trials.iter().map(|trial| trial["fate"]["value"].as_f64().unwrap()).fold(0.0, f64::max);
    assert_eq!(best["score"]["value"].as_f64(), Some(most), "{best}");
    assert_eq!(best["params"]["x"].as_f64(), Some(most), "what it reported is what it was given");
}
