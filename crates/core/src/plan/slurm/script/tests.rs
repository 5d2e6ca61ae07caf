use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::json;

use super::*;
use crate::spec::{Layer, TargetKind, load};

/// A job and a target as the file describes them.
fn specs(job: &str, target: &str) -> (JobSpec, SlurmSpec) {
    let text = format!(
        "[jobs.train]\ncommand = ['python', 'train.py']\n{job}\n\
         [targets.site]\nkind = 'slurm'\ndepot = '/scratch/me/yard'\n{target}"
    );
    let loaded = load(&[Layer { name: "trainyard.toml".to_owned(), text }], &[], "p").unwrap();
    let TargetKind::Slurm(target) = loaded.config.targets["site"].kind.clone() else { panic!("kind") };
    (loaded.config.jobs["train"].clone(), *target)
}

fn facts() -> Facts {
    let nodes = json!([{ "count": 4, "state": "idle", "cpus": 64, "memory": 256_000, "features": [],
        "gpus": [{ "kind": "a100", "count": 8 }] }]);
    let partition = |name: &str, is_default: bool, max: Option<u64>| json!({ "name": name, "is_default": is_default, "is_up": true, "max_time": max, "nodes": nodes });
    let mut facts = Facts::default();
    let all = json!([
        partition("gpu", true, Some(86_400_000)),
        partition("short", false, Some(60_000)),
        partition("long", false, None)
    ]);
    facts.partitions = super::super::Answer::Known(serde_json::from_value(all).unwrap());
    facts
}

fn agent() -> Vec<String> {
    ["/scratch/me/yard/bin/yard-ab12", "agent", "parcel", "--depot", "/scratch/me/yard", "--parcel", "y0123", "--group"]
        .map(str::to_owned)
        .to_vec()
}

fn try_script(job: &str, target: &str, change: impl Fn(&mut Wanted<'_>)) -> Result<String, PlanError> {
    let (job, target) = specs(job, target);
    let (facts, agent) = (facts(), agent());
    let mut wanted = Wanted {
        job: &job,
        target: &target,
        facts: &facts,
        name: "train.y0123",
        parcel_folder: "/scratch/me/yard/parcels/y0123",
        agent: &agent,
        array: Array::None,
        mechanism: ResumeBy::Requeue,
        secrets: &[],
    };
    change(&mut wanted);
    Ok(wanted.script()?.to_string())
}

fn script(job: &str, target: &str, change: impl Fn(&mut Wanted<'_>)) -> String {
    let text = try_script(job, target, change).unwrap();
    let status = through("bash", &["-n"], &text);
    assert!(status.0, "{text}");
    text
}

/// Whether the program takes the script on its standard input, and what it says.
fn through(program: &str, arguments: &[&str], script: &str) -> (bool, String) {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn the_least() {
    insta::assert_snapshot!(script("", "", |_| {}), @r#"
    #!/bin/bash
    #SBATCH --job-name=train.y0123
    #SBATCH --chdir=/scratch/me/yard/parcels/y0123
    #SBATCH --output=/scratch/me/yard/parcels/y0123/slurm-%j.out
    #SBATCH --open-mode=append
    #SBATCH --export=NONE
    #SBATCH --nodes=1
    #SBATCH --ntasks-per-node=1
    #SBATCH --cpus-per-task=1
    #SBATCH --no-requeue

    export HOME="${HOME:-$(echo ~)}" PATH="${PATH:-/usr/local/bin:/usr/bin:/bin}"
    export SLURM_EXPORT_ENV=ALL
    export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"
    exec /scratch/me/yard/bin/yard-ab12 agent parcel --depot /scratch/me/yard --parcel y0123 --group 0
    "#);
}

#[test]
fn everything_at_once() {
    let job = "gpus = 1\ncpus = 8\nmemory = '32GB'\ntime = '23h'\nresume.attempts = 3";
    let target =
        "account = 'ls_robotics'\npartition = 'gpu'\nqos = 'high'\nconstraint = 'a100&ib'\nreservation = 'course'
        gpu-request = '--gpus=rtx_3090:{total_gpus} --gpu-bind=none'\nmemory-request = 'cpu'\nmail = 'me@example.org'
        mail-type = ['END', 'TIME_LIMIT_90']\nmodules = ['eth_proxy', 'gcc/12.2']
        setup = ['source ~/it\\'s.sh', \"a\\nb\"]\nenv.HTTPS_PROXY = 'http://proxy:3128'
        directives = ['--exclusive=user', '--comment=\"two words\"', '--nodelist n1,n2']"
            .replace("'source ~/it\\'s.sh'", "\"source ~/it's.sh\"");
    let secrets = ["WANDB_API_KEY".to_owned(), "HF_TOKEN".to_owned()];
    let text = try_script(job, &target, |_| {}).unwrap();
    assert!(text.contains("--requeue"));
    insta::assert_snapshot!(script(job, &target, |wanted| wanted.secrets = &[]).len() < 4000, @"true");
    let (job, target) = specs(job, &target);
    let (facts, agent) = (facts(), agent());
    let wanted = Wanted {
        job: &job,
        target: &target,
        facts: &facts,
        name: "train.y0123",
        parcel_folder: "/scratch/my 100%/yard",
        agent: &agent,
        array: Array::Groups { first: 0, last: 499, at_most: Some(20) },
        mechanism: ResumeBy::Requeue,
        secrets: &secrets,
    };
    insta::assert_snapshot!(wanted.script().unwrap(), @r#"
    #!/bin/bash
    #SBATCH --job-name=train.y0123
    #SBATCH "--chdir=/scratch/my 100%/yard"
    #SBATCH "--output=/scratch/my 100%%/yard/slurm-%A_%a.out"
    #SBATCH --open-mode=append
    #SBATCH --export=WANDB_API_KEY,HF_TOKEN
    #SBATCH --account=ls_robotics
    #SBATCH --partition=gpu
    #SBATCH --qos=high
    #SBATCH --reservation=course
    #SBATCH "--constraint=a100&ib"
    #SBATCH --nodes=1
    #SBATCH --ntasks-per-node=1
    #SBATCH --cpus-per-task=8
    #SBATCH --mem-per-cpu=3815M
    #SBATCH --gpus=rtx_3090:1
    #SBATCH --gpu-bind=none
    #SBATCH --time=23:00:00
    #SBATCH --array=0-499%20
    #SBATCH --requeue
    #SBATCH --mail-type=END,TIME_LIMIT_90
    #SBATCH --mail-user=me@example.org
    #SBATCH --exclusive=user
    #SBATCH "--comment=two words"
    #SBATCH --nodelist n1,n2

    export HOME="${HOME:-$(echo ~)}" PATH="${PATH:-/usr/local/bin:/usr/bin:/bin}"
    export SLURM_EXPORT_ENV=ALL
    export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"
    export HTTPS_PROXY=http://proxy:3128
    type module >/dev/null 2>&1 || [ ! -r /etc/profile ] || . /etc/profile
    module load eth_proxy || [ -n "${YARD_SETUP_FAILED:-}" ] || export YARD_SETUP_FAILED='module load eth_proxy'
    module load gcc/12.2 || [ -n "${YARD_SETUP_FAILED:-}" ] || export YARD_SETUP_FAILED='module load gcc/12.2'
    eval "source ~/it's.sh" || [ -n "${YARD_SETUP_FAILED:-}" ] || export YARD_SETUP_FAILED="source ~/it's.sh"
    eval 'a
    b' || [ -n "${YARD_SETUP_FAILED:-}" ] || export YARD_SETUP_FAILED='a
    b'
    exec /scratch/me/yard/bin/yard-ab12 agent parcel --depot /scratch/me/yard --parcel y0123 --group "${SLURM_ARRAY_TASK_ID:-0}"
    "#);
}
