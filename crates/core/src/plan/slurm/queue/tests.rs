use std::time::{Duration, Instant as Clock};

use proptest::prelude::*;

use super::*;
use crate::plan::slurm::{Interruption, StateClass};

/// What 22.05 answered to [`queue`].
const ANSWER: &str = "\
29|N/A|29|FAILED|NonZeroExitCode|1794797190|1794797190|1794797190|n3|fail
22|2|22|PENDING|JobArrayTaskLimit|1794797190|N/A|N/A||train|x.y12
28|N/A|28|PENDING|Dependency|1794797190|N/A|N/A||dep
22|0|24|RUNNING|None|1794797190|1794797190|1794797490|n[1-2]|train|x.y12
31|N/A|31|RUNNING|None|1794797190|1794797191|1794797491|n4|het
32|N/A|32|CANCELLED|JobArrayTaskLimit|1794797190|1794797191|1794797191||n1
";

#[test]
fn rows_of_a_real_answer() {
    let queue = parse_queue(ANSWER);
    assert_eq!(queue.unread, [""; 0]);
    let short: Vec<_> =
        queue.rows.iter().map(|row| format!("{} {} {} {:?}", row.task, row.state, row.name, row.reason)).collect();
    insta::assert_snapshot!(short.join("\n"), @r#"
    29 FAILED fail Some("NonZeroExitCode")
    22_2 PENDING train|x.y12 Some("JobArrayTaskLimit")
    28 PENDING dep Some("Dependency")
    22_0 RUNNING train|x.y12 None
    31 RUNNING het None
    32 CANCELLED n1 Some("JobArrayTaskLimit")
    "#);
    assert_eq!(queue.rows[3].raw, 24);
    assert_eq!(queue.rows[3].nodes, "n[1-2]");
    assert_eq!(queue.rows[3].end, Some(Instant(1_794_797_490_000)));
    assert_eq!(queue.rows[1].start, None);
}

#[test]
fn folded_rows_are_unfolded() {
    let tasks = |text: &str| {
        let queue = parse_queue(&format!("7|{text}|7|PENDING|Priority|1|N/A|N/A||x"));
        if queue.unread.is_empty() { queue.rows.iter().filter_map(|row| row.task.index).collect() } else { vec![9999] }
    };
    assert_eq!(tasks("3"), [3]);
    assert_eq!(tasks("1-3%1"), [1, 2, 3]);
    assert_eq!(tasks("[1,4-6]"), [1, 4, 5, 6]);
    assert_eq!(tasks("0-6:3"), [0, 3, 6]);
    assert_eq!(tasks("1,3,5,..."), [9999]);
    assert_eq!(tasks("0-4294967295"), [9999]);
    assert_eq!(tasks("5-1"), [9999]);
}

#[test]
fn what_is_no_row_is_kept() {
    let text = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n\n5|N/A|5|RUN";
    let queue = parse_queue(text);
    assert!(queue.rows.is_empty());
    assert_eq!(queue.unread.len(), 2);
}

#[test]
fn unknown_states_stay_as_they_are() {
    let queue = parse_queue("5|N/A|5|NAPPING|None|1|N/A|N/A||x");
    assert_eq!(queue.rows[0].state, SlurmState::Other("NAPPING".to_owned()));
    assert_eq!(queue.rows[0].state.class(), StateClass::Unknown);
    assert!(!queue.rows[0].state.has_ended());
}

#[test]
fn rows_of_accounting() {
    let text = "\
15|15|REQUEUED|0:0|1794797190|1794797190|1794797190|n1|a.y1
15|15|COMPLETED|0:0|1794797190|1794797200|1794797210|n1|a.y1
2_5|2|FAILED|3:0|1794797190|1794797190|1794797190|n[1-2]|a|b
2_[1,3-4%1]|2|PENDING|0:0|1794797190|Unknown|Unknown|None assigned|a
22+1|23|CANCELLED by 1001|0:15|1794797190|None|1794797190|None assigned|het
16|16|TIMEOUT|0:0|2026-11-16T02:46:17|2026-11-16T02:46:17|2026-11-16T02:47:17|n1|a.y1
sacct: error: something
";
    let accounting = parse_accounting(text);
    assert_eq!(accounting.unread, ["sacct: error: something"]);
    let short = accounting.rows.iter().map(|row| {
        format!(
            "{} {:?} {}:{} {} {:?}",
            row.task,
            row.state.class(),
            row.exit.code,
            row.exit.signal,
            row.name,
            row.nodes
        )
    });
    insta::assert_snapshot!(short.collect::<Vec<_>>().join("\n"), @r#"
    15 Queued 0:0 a.y1 "n1"
    15 Succeeded 0:0 a.y1 "n1"
    2_5 Failed 3:0 a|b "n[1-2]"
    2_1 Queued 0:0 a ""
    2_3 Queued 0:0 a ""
    2_4 Queued 0:0 a ""
    23 Cancelled 0:15 het ""
    16 Resumable(TimeLimit) 0:0 a.y1 "n1"
    "#);
    assert_eq!(SlurmState::NodeFail.class(), StateClass::Resumable(Interruption::NodeFailure));
}

#[test]
fn answers_of_sbatch() {
    assert_eq!(parse_submitted("15\n"), Some(15));
    assert_eq!(parse_submitted("15;euler\n"), Some(15));
    let chatty = "sbatch: You asked for 1 GPU.\n*** Welcome to node 7 ***\n\n  4242\n";
    assert_eq!(parse_submitted(chatty), Some(4242));
    assert_eq!(parse_submitted("15\n15\n"), Some(15));
    for none in ["", "Submitted batch job 15", "15 16", "15\n16", "0", "99999999999", ";a", "-3"] {
        assert_eq!(parse_submitted(none), None, "{none}");
    }
}

#[test]
fn questions() {
    insta::assert_snapshot!(queue().join(" "), @"env -u SQUEUE_ACCOUNT -u SQUEUE_LICENSES -u SQUEUE_NAMES -u SQUEUE_PARTITION -u SQUEUE_QOS -u SQUEUE_SORT TZ=UTC0 SLURM_TIME_FORMAT=%s SLURM_BITSTR_LEN=0 squeue --me -h -r -t all -o %F|%K|%A|%T|%r|%V|%S|%e|%N|%j");
    let names = ["a.y1".to_owned(), "b.y2".to_owned()];
    insta::assert_snapshot!(accounting(&names, Instant(1_794_797_177_000)).join(" "), @"env -u SQUEUE_ACCOUNT -u SQUEUE_LICENSES -u SQUEUE_NAMES -u SQUEUE_PARTITION -u SQUEUE_QOS -u SQUEUE_SORT TZ=UTC0 SLURM_TIME_FORMAT=%s SLURM_BITSTR_LEN=0 sacct -D -X -P -n -o JobID,JobIDRaw,State,ExitCode,Submit,Start,End,NodeList,JobName --starttime=2026-11-16T02:46:17 --name=a.y1,b.y2");
    insta::assert_snapshot!(cancel("a.y1").join(" "), @"env -u SQUEUE_ACCOUNT -u SQUEUE_LICENSES -u SQUEUE_NAMES -u SQUEUE_PARTITION -u SQUEUE_QOS -u SQUEUE_SORT TZ=UTC0 SLURM_TIME_FORMAT=%s SLURM_BITSTR_LEN=0 scancel --name=a.y1");
    let tasks = [Task { job: 7, index: Some(3) }, Task { job: 8, index: None }];
    assert!(cancel_tasks("a.y1", &tasks).ends_with(&["sh", "a.y1", "7_3", "8_N/A"].map(str::to_owned)));
}

#[test]
fn ten_thousand_rows_take_no_time() {
    let text: String = (0..10_000)
        .map(|n| format!("22|{n}|{}|PENDING|JobArrayTaskLimit|1794797190|N/A|N/A||train.y0123456789abcdef\n", n + 30))
        .collect();
    let best = (0..5).map(|_| {
        let start = Clock::now();
        assert_eq!(parse_queue(&text).rows.len(), 10_000);
        start.elapsed()
    });
    assert!(best.min() < Some(Duration::from_millis(200)), "in a build without optimisation");
}

proptest! {
    #[test]
    fn never_panics(text in ".*", near in "([0-9]{0,3}|N/A|\\[?[0-9,%:-]{0,6}\\]?|[A-Z_]{0,9}|\\|){0,24}") {
        for text in [&text, &near] {
            let queue = parse_queue(text);
            let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
            prop_assert!(queue.rows.len() + queue.unread.len() >= lines);
            _ = parse_accounting(text);
            _ = parse_submitted(text);
        }
    }

    #[test]
    fn a_state_is_shown_as_it_was_written(word in "[A-Z_]{1,12}") {
        prop_assert_eq!(SlurmState::parse(&word).to_string(), word);
    }
}
