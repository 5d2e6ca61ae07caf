//! Files as a power cut leaves them: empty, torn, full of zeros or of something else.

use std::path::Path;

use serde_json::{Value, json};
use trainyard_agent::claim::Claim;
use trainyard_agent::depot::{AttemptFolder, Depot};
use trainyard_agent::disk::read_json;
use trainyard_agent::process::Identity;
use trainyard_testkit::{Yard, eventually};

use crate::{LOST, attempts, kill, kill_yardmaster, of_run, open_gate, yard};

const GATED: &str = r#"
[targets.local]
kind = "local"
cpus = 16
[jobs.gated]
command = ["sh", "-c", "echo begun; while [ ! -e GATE ]; do sleep 0.02; done; echo over"]
[jobs.again]
command = ["sh", "-c", "mkdir -p ckpt; echo x > ckpt/$YARD_ATTEMPT; echo begun; while [ ! -e GATE ]; do sleep 0.02; done"]
outputs = ["ckpt/"]
[jobs.again.resume]
attempts = 3
on = ["node-failure"]
checkpoint = "ckpt/*"
args = ["{checkpoint}"]
"#;

type Damage = fn(&[u8]) -> Vec<u8>;

const DAMAGES: [Damage; 4] = [
    |_| Vec::new(),
    |whole| whole[..whole.len() / 2].to_vec(),
    |whole| vec![0; whole.len()],
    |whole| (0..whole.len() as u64 + 7).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect(),
];

fn tear(path: &Path, damage: Damage) {
    // A file that a short run does not leave may be there all the same.
    let whole = std::fs::read(path).unwrap_or_else(|_| b"{\"at\":1}".to_vec());
    std::fs::write(path, damage(&whole)).unwrap();
}

fn tear_all(folder: &AttemptFolder, damage: Damage) {
    for path in [folder.claim(), folder.log(), folder.log_index(), folder.status(), folder.result()] {
        tear(&path, damage);
    }
}

fn folder(yard: &Yard, id: &str, attempt: u32) -> AttemptFolder {
    Depot::new(yard.home().join("depot")).run(id.parse().unwrap()).attempt(attempt)
}

/// Submits this many runs of a job, and returns their ids once all programs have begun to write.
fn begin(yard: &Yard, job: &str, count: usize) -> Vec<String> {
    let submitted = yard.json(&["run", job, "--detach", "--seeds", &format!("1-{count}")]);
    let runs = submitted["runs"].as_array().unwrap();
    let ids: Vec<String> = runs.iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect();
    let begun = |id: &String| std::fs::read(folder(yard, id, 1).log()).is_ok_and(|log| !log.is_empty());
    eventually("all programs to write", || ids.iter().all(begun).then_some(()));
    ids
}

/// As after a power cut, but for the boot id: nobody is left.
fn kill_everybody(yard: &Yard, ids: &[String]) {
    kill_yardmaster(yard);
    yard.agents().into_iter().for_each(kill);
    eventually("the programs to die with their agents", || ids.iter().all(|id| of_run(id).is_empty()).then_some(()));
}

fn settled(yard: &Yard, id: &str) -> Value {
    let waited = yard.run(&["wait", id, "--timeout", "30s"]);
    assert!(waited.exit <= 1, "{waited:?}");
    yard.show(id)
}

/// Whatever state its files are in, a run that has ended can be looked at, repeated and removed.
fn can_be_handled(yard: &Yard, id: &str) {
    for arguments in
        [vec!["logs", id], vec!["logs", "--since", "1h", id], vec!["logs", "-n", "1", id], vec!["show", id]]
    {
        let output = yard.run(&arguments);
        assert_eq!(output.exit, 0, "{arguments:?}: {output:?}");
    }
    let again = yard.run(&["retry", id]);
    assert_eq!((again.exit, again.stdout.contains("succeeded")), (0, true), "{again:?}");
    let cleaned = yard.run(&["clean", id, "--yes"]);
    assert_eq!(cleaned.exit, 0, "{cleaned:?}");
    assert_eq!(yard.run(&["show", id]).exit, 2, "it is gone");
}

fn yardmaster_had_no_complaints(yard: &Yard) {
    let log = std::fs::read_to_string(yard.home().join("yardmaster.log")).unwrap_or_default();
    assert_eq!(log, "");
}

#[test]
fn ended_runs_survive_any_damage_to_their_files() {
    let yard = yard(GATED);
    open_gate(&yard);
    let ids = begin(&yard, "gated", DAMAGES.len());
    assert_eq!(yard.run(&["wait", "gated", "--timeout", "30s"]).exit, 0);
    kill_yardmaster(&yard);
    for (id, damage) in ids.iter().zip(DAMAGES) {
        tear_all(&folder(&yard, id, 1), damage);
        assert_eq!(yard.show(id)["state"], "succeeded");
        can_be_handled(&yard, id);
    }
    yardmaster_had_no_complaints(&yard);
}

#[test]
fn interrupted_runs_are_lost_whatever_is_left_of_their_files() {
    let yard = yard(GATED);
    let ids = begin(&yard, "gated", DAMAGES.len());
    kill_everybody(&yard, &ids);
    open_gate(&yard);
    for (id, damage) in ids.iter().zip(DAMAGES) {
        tear_all(&folder(&yard, id, 1), damage);
    }
    for id in &ids {
        let shown = settled(&yard, id);
        assert_eq!((&shown["state"], &shown["reason"]), (&"failed".into(), &LOST.into()), "{shown}");
        assert_eq!((&shown["exit_code"], attempts(&shown).len()), (&Value::Null, 1), "{shown}");
        can_be_handled(&yard, id);
    }
    yardmaster_had_no_complaints(&yard);
}

/// The program ended and the agent wrote the result, but nobody had read it yet.
#[test]
fn a_result_that_cannot_be_read_is_no_result() {
    let yard = yard(GATED);
    let ids = begin(&yard, "gated", DAMAGES.len() + 2);
    kill_yardmaster(&yard);
    open_gate(&yard);
    eventually("the agents to leave", || yard.agents().is_empty().then_some(()));
    for (id, damage) in ids.iter().zip(DAMAGES) {
        tear(&folder(&yard, id, 1).result(), damage);
    }
    let [.., foreign, whole] = &ids[..] else { panic!("{ids:?}") };
    std::fs::copy(folder(&yard, whole, 1).result(), folder(&yard, foreign, 1).result()).unwrap();

    for id in ids.iter().filter(|id| *id != whole) {
        let shown = settled(&yard, id);
        assert_eq!((&shown["state"], &shown["reason"]), (&"failed".into(), &LOST.into()), "{shown}");
        assert_eq!(yard.run(&["logs", id]).stdout, "begun\nover\n");
    }
    assert_eq!(settled(&yard, whole)["state"], "succeeded");
    yardmaster_had_no_complaints(&yard);
}

#[test]
fn a_resumable_run_goes_on_after_any_damage() {
    let yard = yard(GATED);
    let ids = begin(&yard, "again", DAMAGES.len());
    kill_everybody(&yard, &ids);
    open_gate(&yard);
    for (id, damage) in ids.iter().zip(DAMAGES) {
        tear_all(&folder(&yard, id, 1), damage);
    }
    for id in &ids {
        let shown = settled(&yard, id);
        assert_eq!((&shown["state"], attempts(&shown).len()), (&"succeeded".into(), 2), "{shown}");
    }
    yardmaster_had_no_complaints(&yard);
}

/// Logs grow large, and people remove them.
#[test]
fn a_log_that_was_removed_does_not_cost_the_checkpoints() {
    let yard = yard(GATED);
    let ids = begin(&yard, "again", 1);
    let attempt = folder(&yard, &ids[0], 1);
    eventually("the first heartbeat", || attempt.status().exists().then_some(()));
    std::fs::remove_file(attempt.log()).unwrap();
    std::fs::remove_file(attempt.log_index()).unwrap();
    kill_everybody(&yard, &ids);
    open_gate(&yard);
    let shown = settled(&yard, &ids[0]);
    assert_eq!((&shown["state"], attempts(&shown).len()), (&"succeeded".into(), 2), "{shown}");
    assert!(Path::new(shown["folder"].as_str().unwrap()).join("ckpt/1").exists(), "the work of attempt 1 is gone");
}

/// The pid of the agent belongs to somebody else now: after a boot, or because pids are given out again.
#[test]
fn a_claim_of_a_process_that_is_no_more_is_nobodys() {
    let yard = yard(GATED);
    let ids = begin(&yard, "gated", 2);
    kill_everybody(&yard, &ids);
    let living = Identity::mine().unwrap();
    let strangers = [
        Identity { boot: "0a1b2c3d-0000-4000-8000-000000000000".to_owned(), ..living.clone() },
        Identity { started: living.started.wrapping_sub(1), ..living },
    ];
    for (id, agent) in ids.iter().zip(strangers) {
        let path = folder(&yard, id, 1).claim();
        let claim = Claim { agent: Some(agent), ..read_json(&path).unwrap() };
        std::fs::write(path, json!(claim).to_string()).unwrap();
    }
    for id in &ids {
        let shown = settled(&yard, id);
        assert_eq!((&shown["state"], &shown["reason"]), (&"failed".into(), &LOST.into()), "{shown}");
    }
}

fn tear_everything_below(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            tear_everything_below(&entry.path());
        } else {
            tear(&entry.path(), DAMAGES[1]);
        }
    }
}

#[test]
fn torn_code_is_not_executed_and_the_next_submission_mends_it() {
    let yard = yard("[jobs.code]\ncommand = [\"sh\", \"code.sh\"]\n");
    yard.write("code.sh", "echo whole\necho code\n");
    assert_eq!(yard.run(&["run", "code"]).exit, 0);
    for torn in ["depot/blobs", "depot/snapshots"] {
        tear_everything_below(&yard.home().join(torn));
        let again = yard.run(&["retry", "code"]);
        assert_eq!(again.exit, 1, "{again:?}");
        let shown = yard.show("code");
        assert!(shown["reason"].as_str().unwrap().contains("damaged"), "{shown}");
        assert_eq!(shown["exit_code"], 125, "{shown}");
        let mended = yard.run(&["run", "code"]);
        assert_eq!((mended.exit, mended.stdout.contains("whole\ncode\n")), (0, true), "{mended:?}");
    }
}
