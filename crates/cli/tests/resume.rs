//! Resume as a protocol (DESIGN section 9), against real programs and a real clock.
#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use trainyard_testkit::Yard;

const PROGRAM: &str = env!("CARGO_BIN_EXE_yard");

/// Ten units of work of a quarter second each; every unit leaves a checkpoint.
const WORKER: &str = r#"#!/bin/sh
from=0
if [ -n "$1" ]; then from=$(cat "$1"); fi
echo "attempt $YARD_ATTEMPT from $from"
mkdir -p ckpt
for i in $(seq $((from + 1)) 10); do
    sleep 0.25
    echo $i > ckpt/tmp && mv ckpt/tmp ckpt/model_$i
done
echo finished
"#;

fn yard(job: &str) -> Yard {
    let yard = Yard::new(PROGRAM, job);
    yard.write("work.sh", WORKER);
    yard
}

fn attempts(shown: &Value) -> &Vec<Value> {
    shown["attempts"].as_array().unwrap()
}

const RESUMABLE: &str = r#"
[jobs.long]
command = ["sh", "work.sh"]
time = "1s"
outputs = ["ckpt/"]
[jobs.long.resume]
attempts = 10
on = ["time-limit"]
checkpoint = "ckpt/model_*"
args = ["{checkpoint}"]
"#;

#[test]
fn a_run_outlives_its_time_limit() {
    let yard = yard(RESUMABLE);
    let output = yard.run(&["run", "long"]);
    assert_eq!(output.exit, 0, "{output:?}");
    let shown = yard.show("long");
    assert_eq!(shown["state"], "succeeded", "{shown}");
    let attempts = attempts(&shown);
    assert!(attempts.len() >= 3, "{shown}");
    for pair in attempts.windows(2) {
        assert_eq!(pair[0]["outcome"], "time limit reached");
        assert_eq!(pair[1]["resumed_from"], pair[0]["checkpoint"], "resumed from the newest checkpoint");
        assert_ne!(pair[1]["resumed_from"], Value::Null);
    }
    let logs: Vec<String> =
        (1..=attempts.len()).map(|n| yard.run(&["logs", "long", "--attempt", &n.to_string()]).stdout).collect();
    for (index, log) in logs.iter().enumerate() {
        assert!(log.starts_with(&format!("attempt {} from ", index + 1)), "attempt {}: {log}", index + 1);
    }
    assert!(logs.last().unwrap().ends_with("finished\n"));
    assert_eq!(yard.run(&["logs", "long"]).stdout, logs.concat(), "all attempts, one after another");
}

#[test]
fn a_crash_at_the_start_is_not_tried_for_ever() {
    let job = RESUMABLE.replace("command = [\"sh\", \"work.sh\"]", "command = [\"sh\", \"-c\", \"exit 9\"]");
    let yard = yard(&job.replace("\"time-limit\"", "\"time-limit\", \"failed\""));
    let output = yard.run(&["run", "long"]);
    assert_eq!(output.exit, 1, "{output:?}");
    let shown = yard.show("long");
    assert_eq!(attempts(&shown).len(), 2, "{shown}");
    assert_eq!(shown["reason"], "exit code 9; 2 attempts in a row got nowhere (crash loop)");
    assert_eq!(shown["exit_code"], 9);
}

#[test]
fn a_failure_that_is_no_reason_to_resume_ends_the_run() {
    let yard = yard(&RESUMABLE.replace("command = [\"sh\", \"work.sh\"]", "command = [\"sh\", \"-c\", \"exit 9\"]"));
    yard.run(&["run", "long"]);
    let shown = yard.show("long");
    assert_eq!((attempts(&shown).len(), &shown["reason"]), (1, &Value::from("exit code 9")));
}

#[test]
fn time_spent_without_a_checkpoint_is_not_spent_for_ever() {
    let yard = yard(&RESUMABLE.replace("command = [\"sh\", \"work.sh\"]", "command = [\"sleep\", \"60\"]"));
    yard.run(&["run", "long"]);
    let shown = yard.show("long");
    assert_eq!(attempts(&shown).len(), 2, "{shown}");
    assert_eq!(shown["reason"], "time limit reached; 2 attempts in a row got nowhere (crash loop)");
}

#[test]
fn attempts_are_counted_exactly() {
    let yard = yard(&RESUMABLE.replace("attempts = 10", "attempts = 2"));
    yard.run(&["run", "long"]);
    let shown = yard.show("long");
    assert_eq!(attempts(&shown).len(), 2, "{shown}");
    assert_eq!(shown["reason"], "time limit reached; all 2 attempts used");
}

#[test]
fn the_program_is_warned_before_its_deadline_and_its_own_end_is_an_interruption() {
    let yard = yard(
        r#"
        [jobs.warned]
        command = ["sh", "-c", "trap 'echo warned > ckpt.1; exit 75' USR2; echo $YARD_DEADLINE; sleep 60 & wait; wait"]
        time = "2s"
        outputs = ["."]
        [jobs.warned.resume]
        attempts = 2
        checkpoint = "ckpt.*"
        args = ["{checkpoint}"]
        warn = { signal = "USR2", before = "1500ms" }
        "#,
    );
    yard.run(&["run", "warned"]);
    let shown = yard.show("warned");
    assert_eq!(shown["attempts"][0]["outcome"], "time limit reached", "{shown}");
    assert_eq!(shown["attempts"][0]["checkpoint"], "ckpt.1", "{shown}");
}

#[test]
fn a_checkpoint_still_being_written_is_not_chosen() {
    let yard = yard(
        r#"
        [jobs.torn]
        command = ["sh", "-c", "echo got $1; [ -n \"$1\" ] && exit 0; echo whole > m1; exec 9> m2; echo half >&9; trap '' TERM; sleep 60 & wait; sleep 60", "sh"]
        time = "1s"
        grace = "500ms"
        outputs = ["."]
        [jobs.torn.resume]
        attempts = 2
        checkpoint = "m*"
        args = ["{checkpoint}"]
        "#,
    );
    let output = yard.run(&["run", "torn"]);
    assert_eq!(output.exit, 0, "{output:?}");
    let shown = yard.show("torn");
    assert_eq!(shown["attempts"][1]["resumed_from"], "m1", "{shown}");
}
