//! What everything that runs things must do, whatever system it speaks to. The test of a target calls [`all`] against the
//! real system.

use std::time::Duration;

use trainyard_core::id::RunId;
use trainyard_core::run::Outcome;
use trainyard_engine::site::{self, InQueue};

use crate::processes;
use crate::waiting::{eventually, within};

/// A target, or a site, and how to make it run something: each run has one attempt.
pub trait Subject {
    /// Sends a run with this command.
    fn start(&mut self, command: &[&str]) -> RunId;
    /// Sends it once more, as after an answer that was lost. Whether it is refused or taken for the first does not matter.
    fn send_again(&mut self, run: RunId);
    /// One question for all; the answers are in the order of the runs.
    fn look(&mut self, runs: &[RunId]) -> Vec<Seen>;
    /// A part of its log, and where to go on.
    fn log(&mut self, run: RunId, from: u64) -> (Vec<u8>, u64);
    /// # Panics
    /// When it is an error.
    fn stop(&mut self, run: RunId);
    /// Takes away what a run that has ended left there.
    ///
    /// # Panics
    /// When it is an error.
    fn remove(&mut self, run: RunId);
    /// Whether anything of a run lies there.
    fn holds(&mut self, run: RunId) -> bool;
    /// Makes the system unreachable, or reachable again. False when it is this machine, which always is.
    fn be_away(&mut self, away: bool) -> bool;
}

/// A name that no run has.
pub fn new_run() -> RunId {
    RunId(uuid::Uuid::now_v7())
}

/// What is known of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Waiting,
    Running,
    Ended(Outcome),
    /// It never was there.
    Unknown,
    /// Could not be found out now.
    Doubt,
}

impl Seen {
    /// What a site says. A program runs from its first heartbeat on.
    ///
    /// # Panics
    /// When a run has ended without a result.
    pub fn at_site(seen: site::Seen) -> Self {
        let begun = seen.finding.filter(|finding| finding.state.is_some());
        match (begun, seen.queue) {
            (Some(finding), _) if finding.state.iter().all(|state| state.run.state.has_ended()) => {
                Self::Ended(finding.results.last().expect("an end has a result").outcome.clone())
            }
            (Some(finding), InQueue::Running) if finding.status.is_some() => Self::Running,
            (None, InQueue::Absent) => Self::Unknown,
            _ => Self::Waiting,
        }
    }
}

/// # Panics
/// At the first thing that is not done.
pub fn all(subject: &mut dyn Subject) {
    exit_status_arrives(subject);
    hostile_arguments_arrive(subject);
    one_question_for_all(subject);
    a_second_submission_executes_nothing(subject);
    stopping_twice_is_no_error(subject);
    everything_dies_with_the_run(subject);
    an_unknown_run_never_ran(subject);
    a_log_is_read_on_from_where_it_was_left(subject);
    unreachable_is_not_ended(subject);
    what_is_removed_is_gone(subject);
}

impl dyn Subject + '_ {
    fn look_at(&mut self, run: RunId) -> Seen {
        self.look(&[run]).pop().expect("one answer for one run")
    }

    fn outcome(&mut self, run: RunId) -> Outcome {
        within(Duration::from_secs(120), "the end of a run", || match self.look_at(run) {
            Seen::Ended(outcome) => Some(outcome),
            _ => None,
        })
    }

    fn wait_for(&mut self, run: RunId, seen: &Seen) {
        eventually(&format!("a run to be {seen:?}"), || (self.look_at(run) == *seen).then_some(()));
    }

    /// Waits until the log holds this.
    fn log_with(&mut self, run: RunId, text: &str) -> String {
        eventually(&format!("{text} in the log"), || {
            let log = String::from_utf8_lossy(&self.log(run, 0).0).into_owned();
            log.contains(text).then_some(log)
        })
    }
}

fn exit_status_arrives(subject: &mut dyn Subject) {
    let runs = [0, 3, 255].map(|code| (code, subject.start(&["sh", "-c", &format!("exit {code}")])));
    let killed = subject.start(&["sh", "-c", "kill -9 $$"]);
    for (code, run) in runs {
        assert_eq!(subject.outcome(run), Outcome::Exited { code });
    }
    assert_eq!(subject.outcome(killed), Outcome::Killed { signal: 9 });
}

fn hostile_arguments_arrive(subject: &mut dyn Subject) {
    let hostile = [
        "k={{name:default,x:1}}",
        "[a, b]",
        "it's",
        "\"",
        "$HOME",
        "$(id)",
        "`id`",
        "*",
        "a\nb",
        "\t",
        "é🤖",
        "",
        "--",
    ];
    let mut command = vec!["sh", "-c", "for a; do printf '%s|' \"$a\"; done; echo end", "sh"];
    command.extend(hostile);
    let run = subject.start(&command);
    let expected: String = hostile.iter().map(|part| part.replace("{{", "{").replace("}}", "}") + "|").collect();
    assert_eq!(subject.log_with(run, "end"), format!("{expected}end\n"));
    subject.outcome(run);
}

fn one_question_for_all(subject: &mut dyn Subject) {
    let running = subject.start(&["sleep", "971"]);
    let ended = subject.start(&["true"]);
    subject.outcome(ended);
    subject.wait_for(running, &Seen::Running);
    let done = Seen::Ended(Outcome::Exited { code: 0 });
    assert_eq!(subject.look(&[ended, running, ended]), [done.clone(), Seen::Running, done]);
    subject.stop(running);
    subject.outcome(running);
}

fn a_second_submission_executes_nothing(subject: &mut dyn Subject) {
    let run = subject.start(&["sh", "-c", "echo once; sleep 0.2"]);
    subject.log_with(run, "once");
    subject.send_again(run);
    subject.outcome(run);
    subject.send_again(run);
    assert_eq!(subject.outcome(run), Outcome::Exited { code: 0 });
    assert_eq!(subject.log_with(run, "once"), "once\n");
}

fn stopping_twice_is_no_error(subject: &mut dyn Subject) {
    let run = subject.start(&["sleep", "972"]);
    subject.wait_for(run, &Seen::Running);
    for _ in 0..2 {
        subject.stop(run);
    }
    assert_eq!(subject.outcome(run), Outcome::Stopped);
    // Nor is stopping what has ended.
    subject.stop(run);
    assert_eq!(subject.look_at(run), Seen::Ended(Outcome::Stopped));
}

fn everything_dies_with_the_run(subject: &mut dyn Subject) {
    let run = subject.start(&["sh", "-c", "setsid sh -c 'sleep 973 & sleep 974' & echo up; sleep 975"]);
    subject.log_with(run, "up");
    let alive = || processes::with_environment(&format!("YARD_RUN={run}"));
    eventually("grandchildren", || (alive().len() >= 4).then_some(()));
    subject.stop(run);
    subject.outcome(run);
    assert_eq!(alive(), Vec::<i32>::new());
}

fn an_unknown_run_never_ran(subject: &mut dyn Subject) {
    let unknown = new_run();
    assert_eq!(subject.look_at(unknown), Seen::Unknown);
    // Stopping what was never there is no error.
    subject.stop(unknown);
    assert_eq!(subject.look_at(unknown), Seen::Unknown);
}

fn a_log_is_read_on_from_where_it_was_left(subject: &mut dyn Subject) {
    let run = subject.start(&["sh", "-c", "echo one; echo two"]);
    subject.log_with(run, "two");
    assert_eq!(subject.log(run, 4), (b"two\n".to_vec(), 8));
    assert_eq!(subject.log(run, 8), (Vec::new(), 8));
    subject.outcome(run);
}

fn unreachable_is_not_ended(subject: &mut dyn Subject) {
    let run = subject.start(&["sleep", "976"]);
    subject.wait_for(run, &Seen::Running);
    if subject.be_away(true) {
        assert_eq!(subject.look_at(run), Seen::Doubt);
        subject.be_away(false);
    }
    subject.wait_for(run, &Seen::Running);
    subject.stop(run);
    subject.outcome(run);
}

fn what_is_removed_is_gone(subject: &mut dyn Subject) {
    let run = subject.start(&["echo", "x"]);
    subject.outcome(run);
    assert!(subject.holds(run));
    for _ in 0..2 {
        subject.remove(run);
    }
    assert!(!subject.holds(run));
    assert_eq!(subject.log(run, 0).0, b"");
}
