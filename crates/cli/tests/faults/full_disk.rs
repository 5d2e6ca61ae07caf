//! A disk that is full: nothing is half done, no program is stopped for it, and what happened meanwhile is recorded
//! once there is room again.

use serde_json::Value;
use trainyard_testkit::small_disk::SmallDisk;
use trainyard_testkit::{Output, Yard, eventually};

use crate::{attempts, kill_yardmaster, of_run, open_gate, yard};

const JOBS: &str = r#"
[targets.local]
kind = "local"
cpus = 1
[jobs.short]
command = ["true"]
[jobs.gated]
command = ["sh", "-c", "echo begun; while [ ! -e GATE ]; do sleep 0.02; done; seq 300000"]
"#;

/// A yard whose home is on a small disk.
struct Cramped {
    disk: SmallDisk,
    yard: Yard,
}

impl Cramped {
    fn new() -> Self {
        let yard = yard(JOBS);
        Self { disk: SmallDisk::on(&yard.home(), 4), yard }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Output::of(&mut self.disk.inside(&self.yard.command(arguments)))
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[&["--output", "json"], arguments].concat());
        serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"))
    }

    fn count(&self) -> usize {
        self.json(&["ps", "-a"])["runs"].as_array().unwrap().len()
    }

    /// Submits the gated job; its program is running when this returns.
    fn begin(&self) -> String {
        assert_eq!(self.run(&["run", "gated", "--detach"]).exit, 0);
        eventually("the program to write", || (self.run(&["logs", "gated"]).stdout == "begun\n").then_some(()));
        let shown = || Some(self.json(&["show", "gated"])).filter(|shown| shown["state"] == "running");
        eventually("it to run", shown)["id"].as_str().unwrap().to_owned()
    }

    /// The program ended well, and its log did not fit.
    fn ends_with_a_note(&self) {
        let shown = || Some(self.json(&["show", "gated"])).filter(|shown| shown["state"] != "running");
        let shown = eventually("it to be recorded", shown);
        assert_eq!((&shown["state"], &shown["exit_code"]), (&"succeeded".into(), &0.into()), "{shown}");
        let note = attempts(&shown)[0]["notes"][0].as_str().unwrap_or_default();
        assert!(note.contains(" bytes of log could not be written: ") && note.contains("No space left"), "{shown}");
        assert!(self.run(&["logs", "gated"]).stdout.starts_with("begun\n"));
    }
}

fn refused_for_want_of_space(output: &Output) {
    assert_eq!((output.exit, output.stdout.as_str()), (3, ""), "{output:?}");
    assert_eq!(output.stderr.matches("error:").count(), 1, "{output:?}");
    let says = |words: &str| output.stderr.contains(words);
    assert!(says("No space left") || says("disk is full"), "{output:?}");
}

#[test]
fn a_submission_to_a_full_disk_is_refused_as_a_whole() {
    let cramped = Cramped::new();
    assert_eq!(cramped.run(&["run", "short"]).exit, 0);
    cramped.disk.fill();
    // The code is there already: it is the ledger that has no room for so many.
    refused_for_want_of_space(&cramped.run(&["run", "short", "--detach", "--seeds", "1-3000"]));
    // New code.
    cramped.yard.write("more", "code");
    refused_for_want_of_space(&cramped.run(&["run", "short"]));
    cramped.disk.make_room();
    assert_eq!(cramped.count(), 1);
    assert_eq!(cramped.run(&["run", "short", "--seeds", "1-3"]).exit, 0);
    assert_eq!(cramped.count(), 4);
}

#[test]
fn a_home_that_cannot_even_be_made_is_named() {
    let cramped = Cramped::new();
    cramped.disk.fill();
    let output = cramped.run(&["run", "short"]);
    assert_eq!(output.exit, 3, "{output:?}");
    assert!(output.stderr.contains(&*cramped.yard.home().to_string_lossy()), "{output:?}");
    cramped.disk.make_room();
    assert_eq!(cramped.run(&["run", "short"]).exit, 0);
}

#[test]
fn a_run_goes_on_when_its_log_has_no_room() {
    let cramped = Cramped::new();
    let id = cramped.begin();
    cramped.disk.fill();
    open_gate(&cramped.yard);
    eventually("the program to end", || of_run(&id).is_empty().then_some(()));
    cramped.disk.make_room();
    cramped.ends_with_a_note();
}

#[test]
fn a_run_whose_turn_comes_on_a_full_disk_waits_for_room() {
    let cramped = Cramped::new();
    let id = cramped.begin();
    assert_eq!(cramped.run(&["run", "short", "--detach"]).exit, 0);
    cramped.disk.fill();
    open_gate(&cramped.yard);
    eventually("the program before it to end", || of_run(&id).is_empty().then_some(()));
    let shown = cramped.json(&["show", "short"]);
    assert!(["queued", "starting"].contains(&shown["state"].as_str().unwrap()), "{shown}");
    cramped.disk.make_room();
    assert_eq!(cramped.run(&["wait", "short", "--timeout", "30s"]).exit, 0);
    cramped.ends_with_a_note();
}

/// The yardmaster has heard of the end, but can neither write it down nor will it live to.
#[test]
fn a_result_that_nobody_could_write_down_is_not_forgotten() {
    let cramped = Cramped::new();
    let id = cramped.begin();
    cramped.disk.fill();
    let ledger = rusqlite::Connection::open(cramped.disk.folder().join("ledger.db")).unwrap();
    ledger.execute_batch("BEGIN EXCLUSIVE").unwrap();
    open_gate(&cramped.yard);
    eventually("the program to end", || of_run(&id).is_empty().then_some(()));
    kill_yardmaster(&cramped.yard);
    ledger.execute_batch("ROLLBACK").unwrap();
    assert_eq!(cramped.json(&["show", "gated"])["state"], "running", "nothing else is known yet");
    cramped.disk.make_room();
    cramped.ends_with_a_note();
}
