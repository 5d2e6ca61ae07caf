//! Everything that can be killed is killed, everything that can be torn is torn, and the disk fills up: no run is
//! lost, none is executed twice, and what is not known is not guessed.
#![expect(clippy::unwrap_used, reason = "tests")]

mod adoption;
mod damage;
mod full_disk;
mod killing;
mod ledger;
mod permission;

use serde_json::Value;
use trainyard_testkit::census::{self, Process};
use trainyard_testkit::{Yard, eventually, processes};

const PROGRAM: &str = env!("CARGO_BIN_EXE_yard");

/// What is said of an attempt whose agent is gone and left no result.
const LOST: &str = "the agent was killed or the machine went down";

/// `GATE` in the file becomes the path of a file outside the project that is not there until [`open_gate`].
fn yard(file: &str) -> Yard {
    let yard = Yard::new(PROGRAM, "");
    yard.write("trainyard.toml", &file.replace("GATE", &yard.root().join("gate").to_string_lossy()));
    yard
}

/// Programs that wait for the gate go on.
fn open_gate(yard: &Yard) {
    std::fs::write(yard.root().join("gate"), "").unwrap();
}

/// Submits, and returns the ids once all programs have begun to write.
fn begin(yard: &Yard, jobs: &[&str]) -> Vec<String> {
    for job in jobs {
        let output = yard.run(&["run", job, "--detach"]);
        assert_eq!(output.exit, 0, "{output:?}");
    }
    let begun = |job: &&str| {
        eventually("the program to write", || (!yard.run(&["logs", job]).stdout.is_empty()).then_some(()));
        yard.wait_for(job, "running")["id"].as_str().unwrap().to_owned()
    };
    jobs.iter().map(begun).collect()
}

fn kill_yardmaster(yard: &Yard) {
    let found = yard.yardmasters();
    assert_eq!(found.len(), 1, "one yardmaster is at work");
    for pid in found {
        kill(pid);
    }
}

/// Returns when it is gone.
fn kill(pid: i32) {
    processes::kill(pid);
    eventually("a killed process to be gone", || (!processes::is_alive(pid)).then_some(()));
}

/// Living processes of a run, wherever they have got to.
fn of_run(id: &str) -> Vec<Process> {
    census::take().into_iter().filter(|process| process.variable("YARD_RUN") == Some(id)).collect()
}

fn attempts(shown: &Value) -> &[Value] {
    shown["attempts"].as_array().unwrap()
}
