//! The yardmaster is killed, stopped or replaced while runs go on.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::slice;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use trainyard_agent::depot::Depot;
use trainyard_agent::order::{Order, Secrets, Source};
use trainyard_core::id::Token;
use trainyard_core::spec::{Layer, load};
use trainyard_engine::target::{Declared, Local, News, Observation, Target};
use trainyard_testkit::census::Process;
use trainyard_testkit::{Output, Yard, eventually, processes, within};

use crate::{PROGRAM, attempts, begin, kill_yardmaster, of_run, open_gate, yard};

const GATED: &str = r#"
[targets.local]
kind = "local"
cpus = 8
[jobs.fine]
command = ["sh", "-c", "echo before; while [ ! -e GATE ]; do sleep 0.02; done; echo after"]
[jobs.three]
command = ["sh", "-c", "echo before; while [ ! -e GATE ]; do sleep 0.02; done; echo after; exit 3"]
[jobs.polite]
command = ["sh", "-c", "trap 'echo bye; exit 0' TERM; echo before; while true; do sleep 0.02; done"]
grace = "20s"
[jobs.slow]
command = ["sh", "-c", "trap 'echo stopping; while [ ! -e GATE ]; do sleep 0.02; done; echo bye; exit 0' TERM; echo before; while true; do sleep 0.02; done"]
grace = "60s"
"#;

fn log(yard: &Yard, run: &str) -> String {
    yard.run(&["logs", run]).stdout
}

/// The process that leads a run.
fn program(id: &str) -> i32 {
    let leads = |process: &Process| process.arguments.first().is_some_and(|name| name == "sh");
    of_run(id).into_iter().find(leads).unwrap().pid
}

#[test]
fn runs_that_end_without_a_yardmaster_are_found_as_they_ended() {
    let yard = yard(GATED);
    let ids = begin(&yard, &["fine", "three"]);
    kill_yardmaster(&yard);
    open_gate(&yard);
    eventually("the programs to end", || ids.iter().all(|id| of_run(id).is_empty()).then_some(()));
    eventually("the agents to leave", || yard.agents().is_empty().then_some(()));
    assert!(yard.yardmasters().is_empty(), "nobody was there to help");

    for (run, state, code) in [("fine", "succeeded", 0), ("three", "failed", 3)] {
        let shown = yard.show(run);
        assert_eq!((&shown["state"], &shown["exit_code"]), (&state.into(), &code.into()), "{shown}");
        assert_eq!(attempts(&shown).len(), 1, "{shown}");
        assert_eq!(attempts(&shown)[0]["exit_code"], code, "{shown}");
        assert_eq!(log(&yard, run), "before\nafter\n");
    }
}

#[test]
fn a_run_that_goes_on_is_adopted_as_it_is() {
    let yard = yard(GATED);
    let ids = begin(&yard, &["fine", "three"]);
    let before: Vec<i32> = ids.iter().map(|id| program(id)).collect();
    kill_yardmaster(&yard);

    for id in &ids {
        let shown = yard.show(id);
        assert_eq!((&shown["state"], &shown["attempt"]), (&"running".into(), &1.into()), "{shown}");
    }
    assert_eq!(yard.yardmasters().len(), 1, "looking started the next one");
    assert_eq!(ids.iter().map(|id| program(id)).collect::<Vec<_>>(), before, "the same programs");

    open_gate(&yard);
    assert_eq!(yard.run(&["wait", "fine", "--timeout", "30s"]).exit, 0);
    assert_eq!(yard.run(&["wait", "three", "--timeout", "30s"]).exit, 1);
    assert_eq!(yard.show("three")["exit_code"], 3);
    for run in ["fine", "three"] {
        assert_eq!(log(&yard, run), "before\nafter\n");
        assert_eq!(attempts(&yard.show(run)).len(), 1);
    }
}

#[test]
fn an_adopted_run_is_cancelled_with_its_grace() {
    let yard = yard(GATED);
    let ids = begin(&yard, &["polite"]);
    kill_yardmaster(&yard);
    assert_eq!(yard.run(&["cancel", "polite"]).exit, 0);
    yard.wait_for("polite", "cancelled");
    assert!(log(&yard, "polite").ends_with("bye\n"));
    assert!(of_run(&ids[0]).is_empty());
}

/// The state says so, but the yardmaster was killed before it could act on it.
#[test]
fn a_cancel_that_was_only_written_down_is_carried_out() {
    let yard = yard(GATED);
    let ids = begin(&yard, &["polite"]);
    kill_yardmaster(&yard);
    let ledger = rusqlite::Connection::open(yard.home().join("ledger.db")).unwrap();
    let changed = ledger.execute(
        "UPDATE runs SET state = 'cancelling', body = json_set(body, '$.state.is', 'cancelling') WHERE name = 'polite'",
        [],
    );
    assert_eq!(changed, Ok(1));
    yard.wait_for("polite", "cancelled");
    assert!(log(&yard, "polite").ends_with("bye\n"));
    assert!(of_run(&ids[0]).is_empty());
}

/// The next yardmaster cannot know whether the one before asked the program to stop, so it asks again.
#[test]
fn a_program_that_is_stopping_keeps_its_grace() {
    let yard = yard(GATED);
    begin(&yard, &["slow"]);
    yard.run(&["cancel", "slow"]);
    eventually("the program to hear of it", || log(&yard, "slow").contains("stopping").then_some(()));
    kill_yardmaster(&yard);
    assert_eq!(yard.show("slow")["state"], "cancelling");
    open_gate(&yard);
    yard.wait_for("slow", "cancelled");
    assert!(log(&yard, "slow").ends_with("bye\n"), "{}", log(&yard, "slow"));
}

const RESUMED: &str = r#"
[jobs.first]
command = ["sh", "-c", "mkdir -p ckpt; echo x > ckpt/$YARD_ATTEMPT; echo begun; [ $YARD_ATTEMPT -ge 4 ] || sleep 600"]
outputs = ["ckpt/"]
[jobs.first.resume]
attempts = 9
on = ["node-failure"]
checkpoint = "ckpt/*"
args = ["{checkpoint}"]
"#;

/// An attempt got somewhere if it left a checkpoint, however soon after its start: it is no crash loop.
#[test]
fn a_checkpoint_of_the_first_moment_counts() {
    let yard = yard(RESUMED);
    begin(&yard, &["first"]);
    for attempt in 1..=3 {
        let number = attempt.to_string();
        let begun = || yard.run(&["logs", "first", "--attempt", &number]).stdout == "begun\n";
        eventually("the attempt to leave its checkpoint", || begun().then_some(()));
        eventually("its state to be known", || (yard.show("first")["state"] == "running").then_some(()));
        yard.agents().into_iter().for_each(crate::kill);
    }
    let shown = yard.wait_for("first", "succeeded");
    assert_eq!(attempts(&shown).len(), 4, "{shown}");
}

/// Agents that begin to read only when the gate is open.
fn slow_agent(yard: &Yard) -> PathBuf {
    let path = yard.root().join("slow-agent");
    let gate = yard.root().join("gate");
    let script =
        format!("#!/bin/sh\nwhile [ ! -e '{}' ]; do sleep 0.02; done\nexec '{PROGRAM}' \"$@\"\n", gate.display());
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn order(yard: &Yard, depot: &Depot) -> Order {
    let text = "[jobs.once]\ncommand = [\"sh\", \"-c\", \"echo executed\"]\n".to_owned();
    let config = load(&[Layer { name: "trainyard.toml".to_owned(), text }], &[], "any").unwrap().config;
    let run = "019a0000-0000-7000-8000-000000000000".parse().unwrap();
    Order {
        depot: depot.clone(),
        run,
        name: "once".to_owned(),
        attempt: 1,
        token: Token::new(run, 1),
        job: config.jobs["once"].clone(),
        seed: None,
        from: None,
        params: Default::default(),
        extra: Vec::new(),
        source: Source::InPlace(yard.project()),
        env: Default::default(),
        devices: Vec::new(),
        lease: None,
    }
}

/// It lay unread in the pipe of an agent when its yardmaster was killed, and the next one has given up on it.
#[test]
fn an_order_that_was_given_up_is_never_executed() {
    let yard = yard("");
    let depot = Depot::new(yard.home().join("depot"));
    let (order, slow) = (order(&yard, &depot), slow_agent(&yard));
    let folder = depot.run(order.run).attempt(1);
    let local = |program: &Path| {
        let (sender, news) = tokio::sync::mpsc::unbounded_channel();
        (Local::new(depot.clone(), Declared::default(), program.to_owned(), sender), news)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let (first, mut news) = local(&slow);
        let handle = first.submit(order, Secrets::default()).await.unwrap();
        let (second, _) = local(Path::new(PROGRAM));
        assert_eq!(second.observe(slice::from_ref(&handle)).await.unwrap(), [Observation::NeverStarted]);
        open_gate(&yard);
        let told = tokio::time::timeout(Duration::from_secs(20), news.recv()).await.unwrap();
        assert!(matches!(told, Some(News::Changed { .. })), "{told:?}");
        // Whoever gave up may have been killed before it could write that down.
        let (third, _) = local(Path::new(PROGRAM));
        assert_eq!(third.observe(&[handle]).await.unwrap(), [Observation::NeverStarted]);
    });
    assert!(!folder.log().exists(), "it was executed");
}

/// It has nothing to write its result to, and nobody to tell.
#[test]
fn an_agent_whose_depot_is_gone_leaves() {
    let yard = yard(GATED);
    begin(&yard, &["fine"]);
    kill_yardmaster(&yard);
    std::fs::remove_dir_all(yard.home()).unwrap();
    open_gate(&yard);
    within(Duration::from_secs(10), "the agent to leave", || yard.agents().is_empty().then_some(()));
}

/// The program is replaced by a newer one: the yardmaster gives way, what it runs does not.
#[test]
fn a_yardmaster_of_another_build_is_replaced_and_its_runs_survive() {
    let yard = yard(GATED);
    let ids = begin(&yard, &["fine", "three"]);
    let before: Vec<i32> = ids.iter().map(|id| program(id)).collect();
    let old = yard.yardmasters();

    let newer = yard.root().join("newer-yard");
    std::fs::copy(PROGRAM, &newer).unwrap();
    let with_newer = |arguments: &[&str]| {
        let mut command = std::process::Command::new(&newer);
        command.args(arguments).current_dir(yard.project()).env("YARD_HOME", yard.home());
        Output::of(&mut command)
    };
    let listed = with_newer(&["ps", "-l"]);
    assert_eq!((listed.exit, listed.stdout.matches("running").count()), (0, 2), "{listed:?}");
    eventually("the old yardmaster to be gone", || old.iter().all(|pid| !processes::is_alive(*pid)).then_some(()));
    assert_eq!(ids.iter().map(|id| program(id)).collect::<Vec<_>>(), before, "the same programs");

    open_gate(&yard);
    assert_eq!(with_newer(&["wait", "fine", "three", "--timeout", "30s"]).exit, 1);
    for (run, state, code) in [("fine", "succeeded", 0), ("three", "failed", 3)] {
        let shown = yard.show(run);
        assert_eq!((&shown["state"], &shown["exit_code"]), (&state.into(), &code.into()), "{shown}");
        assert_eq!(attempts(&shown).len(), 1, "{shown}");
        assert_eq!(log(&yard, run), "before\nafter\n");
    }
}

const METRICS: &str = r#"
[targets.local]
kind = "local"
cpus = 8
[jobs.quiet]
command = ["sh", "-c", "echo begun; echo '{\"reward\": 1}' >> m.jsonl; while [ ! -e GATE ]; do sleep 0.02; done; echo '{\"reward\": 2}' >> m.jsonl; sleep 600"]
metrics = { jsonl = "m.jsonl" }
[jobs.chatty]
command = ["sh", "-c", "i=0; while true; do i=$((i + 1)); echo loss: $i; sleep 0.1; done"]
metrics = { stdout = 'loss: (?<loss>\S+)' }
"#;

/// Also when others have so much to say that the yardmaster never has a quiet moment.
#[test]
fn metrics_of_an_adopted_run_are_still_shown() {
    let yard = yard(METRICS);
    begin(&yard, &["quiet"]);
    let reward = || yard.show("quiet")["metrics"]["reward"]["value"].as_f64();
    eventually("the first value", || (reward() == Some(1.0)).then_some(()));
    kill_yardmaster(&yard);
    begin(&yard, &["chatty"]);
    open_gate(&yard);
    within(Duration::from_secs(20), "the second value", || (reward() == Some(2.0)).then_some(()));
}

/// More metrics, and then more output, than a pipe holds.
const TALKATIVE: &str = r#"
[jobs.talkative]
command = ["sh", "-c", "echo begun; line=$(seq 2000 | sed 's/.*/\"metric_&\": 1/' | paste -sd,); for i in $(seq 12); do echo \"{\\\"step\\\": $i, $line}\" >> m.jsonl; sleep 0.3; done; seq 30000"]
metrics = { jsonl = "m.jsonl" }
"#;

#[test]
fn a_yardmaster_that_hangs_does_not_hold_up_a_program() {
    let yard = yard(TALKATIVE);
    let ids = begin(&yard, &["talkative"]);
    let yardmaster = Pid::from_raw(yard.yardmasters()[0]).unwrap();
    kill_process(yardmaster, Signal::STOP).unwrap();
    within(Duration::from_secs(20), "the program to end", || of_run(&ids[0]).is_empty().then_some(()));
    kill_process(yardmaster, Signal::CONT).unwrap();
    let shown: Value = yard.wait_for("talkative", "succeeded");
    assert_eq!(shown["metrics"]["metric_7"]["step"], 12);
    assert!(log(&yard, "talkative").ends_with("\n29999\n30000\n"));
}
