//! What every target must do, whatever system it speaks to. A target's own test calls [`all`] against the real thing.

use std::time::Duration;

use trainyard_agent::depot::Depot;
use trainyard_agent::order::{AttemptResult, Order, Secrets, Source};
use trainyard_core::id::{RunId, Token};
use trainyard_core::run::Outcome;
use trainyard_core::spec::JobSpec;
use trainyard_engine::target::{Handle, Observation, Stop, Target};

use crate::processes;

/// A target under test, and how to make orders for it.
pub struct Subject<'a> {
    pub target: &'a dyn Target,
    pub depot: Depot,
    /// A snapshot that is in the depot.
    pub source: Source,
    /// A job whose command does not matter: it is replaced.
    pub job: JobSpec,
}

const PATIENCE: Duration = Duration::from_secs(60);

/// # Panics
/// At the first thing the target does not do.
pub async fn all(subject: &Subject<'_>) {
    exit_status_arrives(subject).await;
    hostile_arguments_arrive(subject).await;
    one_question_for_all(subject).await;
    a_second_submission_finds_the_first(subject).await;
    stopping_twice_is_no_error(subject).await;
    everything_dies_with_the_run(subject).await;
    an_unknown_attempt_never_ran(subject).await;
    a_log_is_read_on_from_where_it_was_left(subject).await;
    what_is_removed_is_gone(subject).await;
}

impl Subject<'_> {
    fn order(&self, command: &[&str]) -> Order {
        let run = RunId(uuid::Uuid::now_v7());
        let mut job = self.job.clone();
        job.command = trainyard_core::spec::Command::Argv(command.iter().map(|part| (*part).to_owned()).collect());
        Order {
            depot: self.depot.clone(),
            run,
            name: "conformance".to_owned(),
            attempt: 1,
            token: Token::new(run, 1),
            job,
            seed: None,
            params: Default::default(),
            extra: Vec::new(),
            source: self.source.clone(),
            env: [("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())].into(),
            devices: Vec::new(),
            lease: None,
        }
    }

    async fn submit(&self, order: Order) -> Handle {
        self.target.submit(order, Secrets::default()).await.expect("the target takes it")
    }

    async fn start(&self, command: &[&str]) -> Handle {
        self.submit(self.order(command)).await
    }

    async fn look(&self, handle: &Handle) -> Observation {
        let mut seen = self.target.observe(std::slice::from_ref(handle)).await.expect("the target answers");
        seen.pop().expect("one answer for one handle")
    }

    async fn result(&self, handle: &Handle) -> AttemptResult {
        let ended = async {
            loop {
                if let Observation::Ended { result } = self.look(handle).await {
                    return *result;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.expect("the attempt ends")
    }

    /// Waits until the log holds this.
    async fn log_with(&self, handle: &Handle, text: &str) -> String {
        let found = async {
            loop {
                let chunk = self.target.logs(handle, 0).await.expect("the target has a log");
                let log = String::from_utf8_lossy(&chunk.bytes).into_owned();
                if log.contains(text) {
                    return log;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("no {text} in the log of {handle:?}"))
    }
}

async fn exit_status_arrives(subject: &Subject<'_>) {
    for code in [0, 3, 255] {
        let handle = subject.start(&["sh", "-c", &format!("exit {code}")]).await;
        assert_eq!(subject.result(&handle).await.outcome, Outcome::Exited { code });
    }
    let handle = subject.start(&["sh", "-c", "kill -9 $$"]).await;
    assert_eq!(subject.result(&handle).await.outcome, Outcome::Killed { signal: 9 });
}

async fn hostile_arguments_arrive(subject: &Subject<'_>) {
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
    let handle = subject.start(&command).await;
    let expected: String = hostile.iter().map(|part| part.replace("{{", "{").replace("}}", "}") + "|").collect();
    assert_eq!(subject.log_with(&handle, "end").await, format!("{expected}end\n"));
    subject.result(&handle).await;
}

async fn one_question_for_all(subject: &Subject<'_>) {
    let running = subject.start(&["sleep", "971"]).await;
    let ended = subject.start(&["true"]).await;
    subject.result(&ended).await;
    let seen = subject.target.observe(&[ended.clone(), running.clone(), ended]).await.expect("the target answers");
    assert!(
        matches!(seen[..], [Observation::Ended { .. }, Observation::Running { .. }, Observation::Ended { .. }]),
        "{seen:?}"
    );
    subject.target.stop(&running, Stop::Now).await.expect("it can be stopped");
    subject.result(&running).await;
}

async fn a_second_submission_finds_the_first(subject: &Subject<'_>) {
    let order = subject.order(&["sh", "-c", "echo once; sleep 0.2"]);
    let first = subject.submit(order.clone()).await;
    subject.log_with(&first, "once").await;
    let found = subject.target.find(&order.token).await.expect("the target answers");
    assert_eq!(found.as_ref().map(|handle| &handle.token), Some(&first.token));
    // Whether it is refused or taken for the first does not matter; it must not execute again.
    drop(subject.target.submit(order, Secrets::default()).await);
    subject.result(&first).await;
    assert_eq!(subject.log_with(&first, "once").await, "once\n");
}

async fn stopping_twice_is_no_error(subject: &Subject<'_>) {
    let handle = subject.start(&["sleep", "972"]).await;
    for _ in 0..2 {
        subject.target.stop(&handle, Stop::Gently).await.expect("stopping is no error");
    }
    assert_eq!(subject.result(&handle).await.outcome, Outcome::Stopped);
    subject.target.stop(&handle, Stop::Gently).await.expect("nor is stopping what has ended");
}

async fn everything_dies_with_the_run(subject: &Subject<'_>) {
    let handle = subject.start(&["sh", "-c", "setsid sh -c 'sleep 973 & sleep 974' & echo up; sleep 975"]).await;
    subject.log_with(&handle, "up").await;
    subject.target.stop(&handle, Stop::Now).await.expect("it can be stopped");
    subject.result(&handle).await;
    assert_eq!(processes::with_environment(&format!("YARD_RUN={}", handle.run)), Vec::<i32>::new());
}

async fn an_unknown_attempt_never_ran(subject: &Subject<'_>) {
    let order = subject.order(&["true"]);
    assert_eq!(subject.target.find(&order.token).await.expect("the target answers"), None);
    let handle = Handle { depot: subject.depot.clone(), run: order.run, attempt: 1, token: order.token };
    let seen = subject.look(&handle).await;
    assert!(matches!(seen, Observation::NeverStarted | Observation::Gone), "{seen:?}");
    subject.target.stop(&handle, Stop::Gently).await.expect("stopping what was never there is no error");
}

async fn a_log_is_read_on_from_where_it_was_left(subject: &Subject<'_>) {
    let handle = subject.start(&["sh", "-c", "echo one; echo two"]).await;
    subject.log_with(&handle, "two").await;
    let chunk = subject.target.logs(&handle, 4).await.expect("the target has a log");
    assert_eq!((chunk.bytes.as_slice(), chunk.next), (&b"two\n"[..], 8));
    let rest = subject.target.logs(&handle, 8).await.expect("the target has a log");
    assert_eq!((rest.bytes.len(), rest.next), (0, 8));
    subject.result(&handle).await;
}

async fn what_is_removed_is_gone(subject: &Subject<'_>) {
    let handle = subject.start(&["true"]).await;
    subject.result(&handle).await;
    for _ in 0..2 {
        subject.target.remove(&handle).await.expect("it can be removed, also twice");
    }
    assert_eq!(subject.target.find(&handle.token).await.expect("the target answers"), None);
}
