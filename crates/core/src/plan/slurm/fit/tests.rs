use super::*;
use crate::plan::slurm::{Answer, Settings};
use crate::spec::{Layer, TargetKind, load};

const PROBE: &str = "\
@yard-probe version
slurm 24.11.3
@yard-answer version 0
@yard-probe partitions
gpu*|up|1-00:00:00|1:00:00|8|idle|64|256000|gpu:rtx_3090:8|ib
gpu*|up|1-00:00:00|1:00:00|2|mix|128|512000|gpu:a100:4|ib,big
short|up|1:00|1:00|4|idle|8|16000|(null)|(null)
long|up|infinite|n/a|2|idle|64|256000|gpu:a100:4|ib
dead|down|infinite|n/a|2|idle|64|256000|gpu:a100:4|ib
@yard-answer partitions 0
@yard-probe settings
AccountingStorageEnforce = associations,limits
MaxArraySize = 1001
JobRequeue = 1
@yard-answer settings 0
@yard-probe associations
ls_robotics|||normal|
student|||normal|
@yard-answer associations 0
@yard-end
";

fn facts() -> Facts {
    Facts::parse(PROBE).unwrap()
}

fn specs(job: &str, target: &str) -> (JobSpec, SlurmSpec) {
    let text = format!("[jobs.train]\ncommand = ['a']\n{job}\n[targets.t]\nkind = 'slurm'\ndepot = '/d'\n{target}");
    let config = load(&[Layer { name: "trainyard.toml".to_owned(), text }], &[], "p").unwrap().config;
    let TargetKind::Slurm(target) = config.targets["t"].kind.clone() else { panic!("kind") };
    (config.jobs["train"].clone(), *target)
}

fn refused(job: &str, target: &str) -> String {
    let (job, target) = specs(job, target);
    refuse(&job, &target, &facts()).unwrap_or_default()
}

#[test]
fn what_can_never_run_is_said() {
    let cases = [
        ("", "partition = 'gpus'"),
        ("", "partition = 'gpu,nope'"),
        ("", "partition = 'dead'"),
        ("", "account = 'robotics'"),
        ("time = '48h'", ""),
        ("time = '90s'", "partition = 'short'"),
        ("time = '3h'", "max-time = '2h'"),
        ("gpus = 9", ""),
        ("gpus = 1", "partition = 'short'"),
        ("gpus = 1", "gpu-request = '--gpus=h100:{gpus}'"),
        ("gpus = 1", "gpu-request = '--gres=gpu:v100:{gpus},lscratch:10'"),
        ("gpus = 4\nnodes = 2", "gpu-request = '--gpus=a100:{gpus}'"),
        ("gpus = 4\ntasks = 'per-gpu'", "gpu-request = '--gpus-per-task={gpus}'"),
        ("memory = '1GB'", "directives = ['--mem-per-gpu=20G']"),
        ("cpus = 200", ""),
        ("cpus = 40\ngpus = 0.25", ""),
        ("memory = '1TB'", ""),
        ("nodes = 11", ""),
        ("", "constraint = 'infiniband'"),
    ];
    let said: Vec<String> = cases.iter().map(|(job, target)| refused(job, target)).collect();
    insta::assert_snapshot!(said.join("\n"), @"
    there is no partition `gpus`; did you mean `gpu`? there are `gpu`, `short`, `long`, `dead`
    there is no partition `nope`; there are `gpu`, `short`, `long`, `dead`
    the partition `dead` starts no jobs at the moment; up are `gpu`, `short`, `long`
    the account `robotics` is not yours; yours are `ls_robotics`, `student`
    `time` is 2d, and the limit of the partition `gpu` is 1d; shorten it, or let the run go on in several attempts with `[jobs.train.resume]`
    `time` is 1m30s, and the limit of the partition `short` is 1m; shorten it, or let the run go on in several attempts with `[jobs.train.resume]`
    `time` is 3h, and `max-time` of the target is 2h; shorten it, or let the run go on in several attempts with `[jobs.train.resume]`
    a run wants 9 GPUs on one node, and the largest node has 8
    the partition `short` has no GPUs; those that have are `gpu`, `long`, `dead`
    no node there has a GPU of type `h100`; there are `a100`, `rtx_3090`
    no node there has a GPU of type `v100`; there are `a100`, `rtx_3090`
    `--gpus` counts the GPUs of all 2 nodes; write `{total_gpus}` instead of `{gpus}` in `gpu-request`
    `--gpus-per-task` counts the GPUs of one process; write `{gpus_per_task}` instead of `{gpus}` in `gpu-request`
    `memory` of the job and `--mem-per-gpu` in `directives` exclude each other; drop one
    a run wants 200 cores on one node, and the largest node has 128
    a run wants 160 cores on one node, and the largest node has 128
    a run wants 953675 MiB of memory on one node, and the largest node has 512000
    a run wants 11 nodes, and there are 10
    no node there has the feature `infiniband`; there are `big`, `ib`
    ");
}

#[test]
fn what_may_run_is_not_refused() {
    for (job, target) in [
        ("", ""),
        ("gpus = 8\ncpus = 64\ntime = '24h'", "account = 'LS_robotics'\npartition = 'gpu'"),
        ("time = '48h'\nresume.attempts = 3", ""),
        ("time = '48h'", "partition = 'gpu,long'"),
        ("time = '900h'", "partition = 'long'"),
        ("gpus = 1", "gpu-request = '--gpus=a100:{total_gpus}'"),
        ("gpus = 1", "gpu-request = '--gpus-per-node={gpus} --gpu-bind=none'"),
        ("", "constraint = 'ib&(big|small)'"),
        ("nodes = 10", ""),
    ] {
        assert_eq!(refused(job, target), "", "{job} {target}");
    }
    let (job, target) = specs("gpus = 99", "partition = 'nope'\naccount = 'nobody'");
    assert_eq!(refuse(&job, &target, &Facts::default()), None, "a site that could not be asked refuses nothing");
}

#[test]
fn times() {
    let minutes = |job: &str, target: &str| {
        let (job, target) = specs(job, target);
        allocation_time(&job, &target, &facts()).map(time_text)
    };
    assert_eq!(minutes("", ""), None);
    assert_eq!(minutes("", "max-time = '4h'").as_deref(), Some("04:00:00"));
    assert_eq!(minutes("time = '90s'", "").as_deref(), Some("00:02:00"));
    assert_eq!(minutes("time = '5m'", "partition = 'short'").as_deref(), Some("00:01:00"));
    assert_eq!(minutes("time = '48h'", "").as_deref(), Some("1-00:00:00"));
    assert_eq!(minutes("time = '48h'", "partition = 'gpu,long'").as_deref(), Some("2-00:00:00"));
    assert_eq!(minutes("time = '48h'", "max-time = '90s'").as_deref(), Some("00:01:00"));
    assert_eq!(minutes("time = '1h'\ngpus = 0.25\npack = 10", "").as_deref(), Some("03:00:00"));
}

#[test]
fn lanes_of_a_pack() {
    let counts = |job: &str| {
        let (job, _) = specs(job, "");
        (runs_per_group(&job), lanes(&job))
    };
    assert_eq!(counts("gpus = 2"), (1, 1));
    assert_eq!(counts("gpus = 0.25"), (4, 4));
    assert_eq!(counts("gpus = 0.25\npack = 2"), (2, 2));
    assert_eq!(counts("gpus = 0.25\npack = 10"), (10, 4));
}

#[test]
fn arrays_within_the_site() {
    let mut facts = facts();
    assert_eq!(split(0, &facts), []);
    assert_eq!(split(1000, &facts), vec![0..1000; 1]);
    assert_eq!(split(1001, &facts), vec![0..1001; 1]);
    assert_eq!(split(2500, &facts), [0..1001, 1001..2002, 2002..2500]);
    facts.settings = Answer::Known(Settings { max_array_size: Some(1), ..Settings::default() });
    assert_eq!(split(2, &facts), [0..1, 1..2]);
}

#[test]
fn mechanisms() {
    let chosen = |target: &str, requeue: Option<bool>, groups| {
        let (_, target) = specs("", target);
        let mut facts = facts();
        facts.settings = Answer::Known(Settings { requeue, ..Settings::default() });
        mechanism(&target, &facts, groups, 6)
    };
    assert_eq!(chosen("", Some(true), 500), Ok(ResumeBy::Requeue));
    assert_eq!(chosen("", None, 500), Ok(ResumeBy::Requeue));
    assert_eq!(chosen("", Some(false), 1), Ok(ResumeBy::Array));
    assert_eq!(chosen("", Some(false), 2), Ok(ResumeBy::Chain));
    assert_eq!(chosen("resume-by = 'chain'", Some(true), 1), Ok(ResumeBy::Chain));
    assert_eq!(chosen("resume-by = 'array'", Some(true), 2), Err(PlanError::ArrayOfGroups { groups: 2 }));
}
