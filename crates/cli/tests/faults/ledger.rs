//! The ledger: locked by others, unreadable, or of a newer yard.

use std::path::PathBuf;
use std::sync::Barrier;

use rusqlite::Connection;
use trainyard_engine::ledger::Ledger;
use trainyard_testkit::{Yard, eventually};

use crate::{begin, of_run, open_gate, yard};

const JOBS: &str = r#"
[targets.local]
kind = "local"
cpus = 8
[jobs.short]
command = ["true"]
[jobs.gated]
command = ["sh", "-c", "echo begun; while [ ! -e GATE ]; do sleep 0.02; done; sleep 2; exit 3"]
"#;

fn path(yard: &Yard) -> PathBuf {
    yard.home().join("ledger.db")
}

#[test]
fn a_locked_ledger_is_waited_for() {
    let yard = yard(JOBS);
    let id = begin(&yard, &["gated"]).remove(0);
    let ledger = Connection::open(path(&yard)).unwrap();
    ledger.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let submission = std::thread::scope(|scope| {
        let submission = scope.spawn(|| yard.run(&["run", "short"]));
        open_gate(&yard);
        eventually("a run to end meanwhile", || of_run(&id).is_empty().then_some(()));
        assert!(!submission.is_finished(), "nothing can be submitted now");
        ledger.execute_batch("ROLLBACK").unwrap();
        submission.join().unwrap()
    });
    assert_eq!(submission.exit, 0, "{submission:?}");
    assert_eq!(yard.wait_for("gated", "failed")["exit_code"], 3);
}

/// The yardmaster that could not read it does not wait for another visitor before it tries again.
#[test]
fn a_ledger_that_can_be_read_again_is_read() {
    let yard = yard(JOBS);
    begin(&yard, &["gated"]);
    crate::kill_yardmaster(&yard);
    let ledger = Connection::open(path(&yard)).unwrap();
    assert_eq!(ledger.execute("UPDATE batches SET job = '{' || job", []), Ok(1));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| yard.run(&["wait", "gated", "--timeout", "20s"]));
        let log = yard.home().join("yardmaster.log");
        eventually("a complaint", || std::fs::read_to_string(&log).ok().filter(|text| text.contains("unreadable")));
        assert_eq!(ledger.execute("UPDATE batches SET job = substr(job, 2)", []), Ok(1));
        open_gate(&yard);
        let waited = waiting.join().unwrap();
        assert_eq!(waited.exit, 1, "{waited:?}");
    });
    assert_eq!(yard.show("gated")["exit_code"], 3);
}

/// As when a script starts ten `yard run &` on a new machine.
#[test]
fn a_ledger_can_be_made_by_many_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let barrier = Barrier::new(8);
    for round in 0..60 {
        let path = folder.path().join(format!("ledger-{round}.db"));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    barrier.wait();
                    Ledger::open(&path).map(drop).unwrap();
                });
            }
        });
    }
}

#[test]
fn a_home_can_be_made_by_many_at_once() {
    let yard = yard(JOBS);
    let submit = |number: usize| yard.run(&["run", "short", "--detach", "--name", &format!("n{number}")]);
    let submit = &submit;
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..12).map(|number| scope.spawn(move || submit(number))).collect();
        for thread in started {
            let output = thread.join().unwrap();
            assert_eq!(output.exit, 0, "{output:?}");
        }
    });
    assert_eq!(yard.run(&["wait", "--timeout", "30s"]).exit, 0);
    assert_eq!(yard.runs().len(), 12);
    assert_eq!(yard.yardmasters().len(), 1);
}

/// Every command refuses with one message that names the file, and leaves it as it is.
fn is_refused_and_left_alone(yard: &Yard, says: &str) {
    let before = std::fs::read(path(yard)).unwrap();
    for command in [&["run", "short"][..], &["ps"], &["wait"], &["cancel", "--all"], &["clean", "--yes"]] {
        let output = yard.run(command);
        assert_eq!((output.exit, output.stdout.as_str()), (3, ""), "{command:?}: {output:?}");
        assert_eq!(output.stderr.matches("error:").count(), 1, "{command:?}: {output:?}");
        assert!(output.stderr.contains(&*path(yard).to_string_lossy()), "{command:?}: {output:?}");
        assert!(output.stderr.contains(says), "{command:?}: {output:?}");
    }
    let doctor = yard.run(&["doctor"]);
    assert!(doctor.exit == 3 && doctor.stdout.contains("ledger"), "{doctor:?}");
    assert_eq!(yard.yardmasters(), Vec::<i32>::new());
    assert!(std::fs::read(path(yard)).unwrap() == before, "the file was changed");
}

#[test]
fn garbage_is_not_taken_for_a_ledger() {
    let yard = yard(JOBS);
    std::fs::create_dir(yard.home()).unwrap();
    std::fs::write(path(&yard), "this is not a database, it is a shopping list\n".repeat(400)).unwrap();
    is_refused_and_left_alone(&yard, "not a database");
}

#[test]
fn a_torn_ledger_is_not_started_anew() {
    let yard = yard(JOBS);
    assert_eq!(yard.run(&["run", "short", "--seeds", "1-40"]).exit, 0);
    crate::kill_yardmaster(&yard);
    // Into one file, so that tearing it tears everything.
    Connection::open(path(&yard)).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let whole = std::fs::read(path(&yard)).unwrap();
    std::fs::write(path(&yard), &whole[..whole.len() / 3]).unwrap();
    is_refused_and_left_alone(&yard, "malformed");
}

#[test]
fn a_ledger_of_a_newer_yard_is_left_to_it() {
    let yard = yard(JOBS);
    std::fs::create_dir(yard.home()).unwrap();
    let ledger = Connection::open(path(&yard)).unwrap();
    ledger.execute_batch("CREATE TABLE wonders (id INTEGER); PRAGMA user_version = 999").unwrap();
    drop(ledger);
    is_refused_and_left_alone(&yard, "newer yard (format 999");
}
