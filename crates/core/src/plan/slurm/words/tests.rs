use proptest::prelude::*;

use super::*;
use crate::plan::slurm::parse_queue;

fn said(reasons: &[&str]) -> String {
    let line = |reason: &&str| match explain(reason) {
        Some(Explained { words, is_stuck: true }) => format!("{reason}: {words} (!)"),
        Some(Explained { words, .. }) => format!("{reason}: {words}"),
        None => format!("{reason}?"),
    };
    reasons.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn limits_in_words() {
    let reasons = [
        "QOSMaxGRESPerUser",
        "QOSMaxJobsPerUserLimit",
        "QOSMaxSubmitJobPerUserLimit",
        "QOSGrpGRES",
        "QOSGrpCPURunMinutesLimit",
        "QOSMinCpuNotSatisfied",
        "QOSMaxWallDurationPerJobLimit",
        "QOSMaxGRESMinutesPerJob",
        "AssocGrpGRES",
        "AssocMaxJobsLimit",
        "AssocMaxCpuPerJobLimit",
        "AssocGrpMemLimit",
        "MaxGRESPerAccount",
        "MaxSubmitJobsPerAccount",
    ];
    insta::assert_snapshot!(said(&reasons), @"
    QOSMaxGRESPerUser: you already use as many GPUs as the QOS allows
    QOSMaxJobsPerUserLimit: you already have as many running jobs as the QOS allows
    QOSMaxSubmitJobPerUserLimit: you already have as many submitted jobs as the QOS allows
    QOSGrpGRES: all users of the QOS together use as many GPUs as it allows
    QOSGrpCPURunMinutesLimit: all users of the QOS together use as much computing time as it allows
    QOSMinCpuNotSatisfied: the QOS is for jobs that ask for more processor cores (!)
    QOSMaxWallDurationPerJobLimit: it asks for more time than the QOS allows one job (!)
    QOSMaxGRESMinutesPerJob: it asks for more computing time than the QOS allows one job (!)
    AssocGrpGRES: all users of your account together use as many GPUs as it allows
    AssocMaxJobsLimit: you already have as many running jobs as your account allows
    AssocMaxCpuPerJobLimit: it asks for more processor cores than your account allows one job (!)
    AssocGrpMemLimit: all users of your account together use as much memory as it allows
    MaxGRESPerAccount: your account already uses as many GPUs as the QOS allows
    MaxSubmitJobsPerAccount: your account already has as many submitted jobs as the QOS allows
    ");
}

#[test]
fn details_and_spellings() {
    let reasons = [
        "Priority",
        "(Resources)",
        "ReqNodeNotAvail, UnavailableNodes:n[1-2]",
        "ReqNodeNotAvail(Unavailable:n3)",
        "launch failed requeued held",
        "launch_failed_requeued_held",
        "PartitionTimeLimit",
        "the admin says no",
        "",
    ];
    insta::assert_snapshot!(said(&reasons), @"
    Priority: other jobs come first
    (Resources): it is next, and the nodes it needs are in use
    ReqNodeNotAvail, UnavailableNodes:n[1-2]: nodes it needs are down, reserved or in maintenance (n[1-2])
    ReqNodeNotAvail(Unavailable:n3): nodes it needs are down, reserved or in maintenance
    launch failed requeued held: SLURM could not start it on its node and put it on hold (!)
    launch_failed_requeued_held: SLURM could not start it on its node and put it on hold (!)
    PartitionTimeLimit: its time limit is above that of the partition (!)
    the admin says no?
    ?
    ");
}

/// All that 22.05 knows, out of its library.
#[test]
fn every_limit_of_slurm_has_words() {
    let mut unknown = Vec::new();
    for whose in ["Assoc", "QOS"] {
        for what in ["BB", "Billing", "CPU", "Cpu", "Energy", "GRES", "License", "Mem", "Memory", "Node", "Unknown"] {
            for form in [
                format!("{whose}Grp{what}"),
                format!("{whose}Grp{what}Limit"),
                format!("{whose}Grp{what}Minutes"),
                format!("{whose}Grp{what}RunMinutesLimit"),
                format!("{whose}Max{what}PerJob"),
                format!("{whose}Max{what}PerNode"),
                format!("{whose}Max{what}PerUserLimit"),
                format!("{whose}Max{what}MinutesPerJobLimit"),
                format!("{whose}Min{what}"),
                format!("Max{what}PerAccount"),
            ] {
                unknown.extend(explain(&form).is_none().then_some(form));
            }
        }
    }
    assert_eq!(unknown, [""; 0]);
}

#[test]
fn of_a_row() {
    let queue = parse_queue("5|N/A|5|PENDING|Priority|1794797190|1794800000|N/A||x\n6|N/A|6|RUNNING|None|1|1|1|n1|x");
    let first = waiting(&queue.rows[0]).unwrap();
    assert_eq!(first.words.as_deref(), Some("other jobs come first"));
    assert_eq!(first.expected, Some(Instant(1_794_800_000_000)));
    assert_eq!(waiting(&queue.rows[1]), None);
}

proptest! {
    #[test]
    fn never_panics(text in ".*", near in "(QOS|Assoc)?(Max|Min|Grp)?(Limit|PerUser|Minutes|GRES){0,3}") {
        _ = (explain(&text), explain(&near));
    }
}
