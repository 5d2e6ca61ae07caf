//! The ledger: what goes in comes out, old ones open, damaged ones are left alone.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use trainyard_agent::depot::Depot;
use trainyard_agent::order::Source;
use trainyard_core::id::RunId;
use trainyard_core::run::{Event, Policy, Run, decide};
use trainyard_core::spec::{Layer, load};
use trainyard_core::time::Instant;
use trainyard_engine::ledger::{Batch, Change, Commit, Filter, Ledger, LedgerError, NewRun, Request};
use trainyard_engine::provenance::Provenance;
use trainyard_engine::sweep::Overview;
use trainyard_engine::target::Declared;

fn batch() -> Batch {
    let text = "[jobs.train]\ncommand = [\"true\"]\ngpus = 0.25\n".to_owned();
    let config = load(&[Layer { name: "trainyard.toml".to_owned(), text }], &[], "any").unwrap().config;
    Batch {
        project: "/project".into(),
        target: "local".to_owned(),
        declared: Declared::default(),
        depot: Depot::new("/depot"),
        job: config.jobs["train"].clone(),
        source: Source::InPlace("/project".into()),
        env: [("PATH".to_owned(), "/bin".to_owned())].into(),
        extra: vec!["it's".to_owned(), String::new()],
        site: None,
        tie: None,
        provenance: Some(Provenance { commit: Some("ab".repeat(20)), dirty: Some(true), ..Provenance::default() }),
    }
}

fn run(id: &str, name: &str, seed: Option<u64>) -> NewRun {
    let policy = Policy { attempts: 1, on: Vec::new() };
    NewRun {
        id: id.parse().unwrap(),
        name: name.to_owned(),
        seed,
        params: [("lr".to_owned(), trainyard_core::value::Value::Float(0.5))].into(),
        from: None,
        run: Run::new(policy, Instant(5)),
        place: None,
        retry_of: None,
    }
}

const FIRST: &str = "019a0000-0000-7000-8000-00000000000a";
const SECOND: &str = "019a0000-0000-7000-8000-0000000000f0";

fn filled(path: &Path) -> Ledger {
    let mut ledger = Ledger::open(path).unwrap();
    let runs = [run(FIRST, "train-s1", Some(1)), run(SECOND, "train-s2", Some(u64::MAX))];
    ledger.submit(&batch(), &runs, Instant(5)).unwrap();
    ledger
}

#[test]
fn what_goes_in_comes_out() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = filled(&folder.path().join("ledger.db"));
    let open = ledger.open_after(0).unwrap();
    assert_eq!(open.iter().map(|run| run.name.as_str()).collect::<Vec<_>>(), ["train-s1", "train-s2"]);
    assert_eq!(open[1].seed, Some(u64::MAX), "seeds keep all their bits");
    let there = ledger.batch(open[0].batch).unwrap();
    let put = batch();
    assert_eq!((there.job, there.source, there.env, there.extra), (put.job, put.source, put.env, put.extra));
    assert_eq!(there.provenance, put.provenance);
    assert_eq!(ledger.open_after(open[0].seq).unwrap().len(), 1);
}

#[test]
fn a_submission_that_fails_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = filled(&folder.path().join("ledger.db"));
    let again = [run("019a0000-0000-7000-8000-000000000bbb", "new", None), run(FIRST, "twice", None)];
    assert!(ledger.submit(&batch(), &again, Instant(6)).is_err(), "an id is given once");
    assert_eq!(ledger.runs(&Filter::default()).unwrap().len(), 2, "all of a submission or none");
}

#[test]
fn ids_are_shown_as_short_as_they_can_be_and_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = filled(&folder.path().join("ledger.db"));
    let first: RunId = FIRST.parse().unwrap();
    let digits = ledger.unique_digits(first).unwrap();
    assert_eq!(digits, 31, "they differ in the last but one digit");
    let shown: String = first.0.simple().to_string().chars().take(digits).collect();
    assert_eq!(ledger.find(&shown).unwrap().unwrap().id, first);
    assert!(matches!(ledger.find("019a"), Err(LedgerError::Ambiguous(_))));
    assert_eq!(ledger.find("ffff").unwrap().map(|row| row.id), None);
    assert_eq!(ledger.find("x'; DROP TABLE runs; --").unwrap().map(|row| row.id), None);
}

#[test]
fn requests_wait_until_they_are_taken_up() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = filled(&folder.path().join("ledger.db"));
    ledger.request(&[FIRST.parse().unwrap()], Request::Cancel, Instant(7)).unwrap();
    let (last, waiting) = ledger.requests().unwrap();
    assert_eq!(waiting.len(), 1);
    ledger.apply(Commit::Quick, &[Change::RequestsUpTo { id: last }]).unwrap();
    assert!(ledger.requests().unwrap().1.is_empty());
}

#[test]
fn ended_runs_can_be_forgotten_and_open_ones_cannot() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = filled(&folder.path().join("ledger.db"));
    let open = ledger.open_after(0).unwrap();
    let cancelled = decide(&open[0].run, &Event::CancelAsked, Instant(9)).next;
    let change = Change::State { seq: open[0].seq, run: cancelled, at: Instant(9), what: "cancelled".to_owned() };
    ledger.apply(Commit::Durable, &[change]).unwrap();
    ledger.forget(&[FIRST.parse().unwrap(), SECOND.parse().unwrap()]).unwrap();
    let left: Vec<String> = ledger.runs(&Filter::default()).unwrap().into_iter().map(|row| row.name).collect();
    assert_eq!(left, ["train-s2"]);
}

const OLD: &[&str] = &["ledger-1.db", "ledger-2.db", "ledger-3.db"];

/// Ledgers as earlier formats left them; each must open and show its runs. A new format adds a file here.
#[test]
fn old_ledgers_open() {
    let folder = tempfile::tempdir().unwrap();
    for old in OLD {
        let copy = folder.path().join(old);
        std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old").join(old), &copy).unwrap();
        let ledger = Ledger::open(&copy).unwrap();
        let names: Vec<String> = ledger.runs(&Filter::default()).unwrap().into_iter().map(|row| row.name).collect();
        assert_eq!(names[..3], ["train-s1", "train-s2", "bad"], "{old}");
        let row = ledger.find("train-s1").unwrap().unwrap();
        assert_eq!((row.state.as_str(), row.exit_code), ("succeeded", Some(0)), "{old}");
        let attempts = ledger.attempts(row.seq).unwrap();
        assert!(attempts[0].result.is_some(), "{old}");
        assert_eq!(ledger.check().unwrap(), "ok", "{old}");
        let sweeps = ledger.sweeps().unwrap();
        assert_eq!(sweeps.len(), usize::from(*old == "ledger-3.db"), "{old}");
        for row in sweeps {
            let overview = Overview::of(&ledger, row).unwrap();
            assert_eq!((overview.tally().done, overview.progress()), (2, (6, Some(6))), "{old}");
        }
    }
}

#[test]
fn a_ledger_of_a_newer_yard_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    drop(filled(&path));
    let db = rusqlite::Connection::open(&path).unwrap();
    db.pragma_update(None, "user_version", 999).unwrap();
    drop(db);
    assert!(matches!(Ledger::open(&path), Err(LedgerError::Newer { found: 999, .. })));
}

#[test]
fn garbage_is_not_started_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let garbage =
        b"this is no database, and it is longer than a header of one hundred bytes, so that nobody takes it for empty"
            .repeat(9);
    std::fs::write(&path, &garbage).unwrap();
    assert!(matches!(Ledger::open(&path), Err(LedgerError::Open { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), garbage, "untouched");
}
