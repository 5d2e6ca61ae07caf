use std::io::Write as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;
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

    export HOME="${HOME:-$(echo ~)}" USER="${USER:-$(id -un)}"
    printenv PATH >/dev/null || export PATH=/usr/local/bin:/usr/bin:/bin
    export SLURM_EXPORT_ENV=ALL
    export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"
    exec /scratch/me/yard/bin/yard-ab12 agent parcel --depot /scratch/me/yard --parcel y0123 --group 0
    "#);
}

#[test]
fn everything_at_once() {
    let job = "gpus = 1\ncpus = 8\nmemory = '32GB'\ntime = '23h'\nresume.attempts = 3";
    let target = r#"
account = 'ls_robotics'
partition = 'gpu'
qos = 'high'
constraint = 'a100&ib'
reservation = 'course'
gpu-request = '--gpus=rtx_3090:{total_gpus} --gpu-bind=none'
memory-request = 'cpu'
mail = 'me@example.org'
mail-type = ['END', 'TIME_LIMIT_90']
modules = ['eth_proxy', 'gcc/12.2']
setup = ["source ~/it's.sh", "a\nb"]
env.HTTPS_PROXY = 'http://proxy:3128'
directives = ['--exclusive=user', '--comment="two words"', '--nodelist n1,n2']
"#;
    let secrets = ["WANDB_API_KEY".to_owned(), "HF_TOKEN".to_owned()];
    let (job, target) = specs(job, target);
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
    let text = wanted.script().unwrap().to_string();
    assert!(through("bash", &["-n"], &text).0);
    insta::assert_snapshot!(text, @r#"
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

    export HOME="${HOME:-$(echo ~)}" USER="${USER:-$(id -un)}"
    printenv PATH >/dev/null || export PATH=/usr/local/bin:/usr/bin:/bin
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

/// The `#SBATCH` lines alone.
fn lines(job: &str, target: &str, array: Array, mechanism: ResumeBy) -> String {
    let text = script(job, target, |wanted| (wanted.array, wanted.mechanism) = (array, mechanism));
    let own = ["job-name", "chdir", "open-mode", "export"];
    let lines = text.lines().filter_map(|line| line.strip_prefix("#SBATCH "));
    lines.filter(|line| !own.iter().any(|own| line.starts_with(&format!("--{own}")))).collect::<Vec<_>>().join(" ")
}

#[test]
fn sizes() {
    let one = |job: &str, target: &str| {
        let lines = lines(job, target, Array::None, ResumeBy::Requeue);
        lines.split(' ').filter(|word| !word.starts_with("--output")).collect::<Vec<_>>().join(" ")
    };
    let two_nodes = "gpus = 4\ncpus = 32\nnodes = 2\nmemory = '64GiB'\n";
    insta::assert_snapshot!(one("gpus = 0.25\ncpus = 3\nmemory = '1GiB'", ""), @"--nodes=1 --ntasks-per-node=1 --cpus-per-task=12 --mem=4096M --gres=gpu:1 --no-requeue");
    insta::assert_snapshot!(one("gpus = 0.25\ncpus = 3\nmemory = '1GiB'\npack = 2", "memory-request = 'cpu'"), @"--nodes=1 --ntasks-per-node=1 --cpus-per-task=6 --mem-per-cpu=342M --gres=gpu:1 --no-requeue");
    insta::assert_snapshot!(one(two_nodes, "gpu-request = '--gpus={total_gpus}'"), @"--nodes=2 --ntasks-per-node=1 --cpus-per-task=32 --mem=65536M --gpus=8 --no-requeue");
    let per_gpu = format!("{two_nodes}tasks = 'per-gpu'");
    insta::assert_snapshot!(one(&per_gpu, "gpu-request = '--gpus-per-task=a100:{gpus_per_task}'"), @"--nodes=2 --ntasks-per-node=4 --cpus-per-task=8 --mem=65536M --gpus-per-task=a100:1 --no-requeue");
    insta::assert_snapshot!(one(&per_gpu, "memory-request = 'cpu'"), @"--nodes=2 --ntasks-per-node=4 --cpus-per-task=8 --mem-per-cpu=2048M --gres=gpu:4 --no-requeue");
    insta::assert_snapshot!(one("cpus = 2\ntime = '25h30m'", "partition = 'long'\nmail = 'a@b.c'"), @"--partition=long --nodes=1 --ntasks-per-node=1 --cpus-per-task=2 --time=1-01:30:00 --no-requeue --mail-type=END,FAIL --mail-user=a@b.c");
}

/// The requests of Isaac Lab's cluster scripts and of ProtoMotions' launcher.
#[test]
fn what_both_predecessors_ask_for() {
    let job = "gpus = 1\ncpus = 8\nmemory = '32384MiB'\ntime = '23:00:00'";
    let target =
        "gpu-request = '--gpus=rtx_3090:{gpus}'\nmemory-request = 'cpu'\nmail = 'me@example.org'\nmail-type = ['END']";
    insta::assert_snapshot!(lines(job, target, Array::None, ResumeBy::Requeue), @"--output=/scratch/me/yard/parcels/y0123/slurm-%j.out --nodes=1 --ntasks-per-node=1 --cpus-per-task=8 --mem-per-cpu=4048M --gpus=rtx_3090:1 --time=23:00:00 --no-requeue --mail-type=END --mail-user=me@example.org");
    let job = "gpus = 4\nnodes = 2\ntasks = 'per-gpu'\ncpus = 32\ntime = '4:00:00'\nresume.attempts = 5";
    let target = "account = 'lab'\npartition = 'gpu'\ngpu-request = '--gpus-per-node={gpus}'";
    insta::assert_snapshot!(lines(job, target, Array::Attempts(5), ResumeBy::Array), @"--output=/scratch/me/yard/parcels/y0123/slurm-%A_%a.out --account=lab --partition=gpu --nodes=2 --ntasks-per-node=4 --cpus-per-task=8 --gpus-per-node=4 --time=04:00:00 --array=0-4%1 --no-requeue");
}

#[test]
fn ways_to_go_on() {
    let job = "resume.attempts = 6";
    let groups = Array::Groups { first: 0, last: 9, at_most: None };
    insta::assert_snapshot!(lines(job, "", Array::Attempts(6), ResumeBy::Array), @"--output=/scratch/me/yard/parcels/y0123/slurm-%A_%a.out --nodes=1 --ntasks-per-node=1 --cpus-per-task=1 --array=0-5%1 --no-requeue");
    insta::assert_snapshot!(lines(job, "", groups, ResumeBy::Chain), @"--output=/scratch/me/yard/parcels/y0123/slurm-%A_%a.out --nodes=1 --ntasks-per-node=1 --cpus-per-task=1 --array=0-9 --no-requeue");
    insta::assert_snapshot!(lines(job, "", groups, ResumeBy::Requeue), @"--output=/scratch/me/yard/parcels/y0123/slurm-%A_%a.out --nodes=1 --ntasks-per-node=1 --cpus-per-task=1 --array=0-9 --requeue");
    insta::assert_snapshot!(lines("", "", groups, ResumeBy::Requeue), @"--output=/scratch/me/yard/parcels/y0123/slurm-%A_%a.out --nodes=1 --ntasks-per-node=1 --cpus-per-task=1 --array=0-9 --no-requeue");
}

#[test]
fn refusals() {
    let refused = |change: &dyn Fn(&mut Wanted<'_>)| try_script("", "", change).unwrap_err().to_string();
    let names = ["ALL".to_owned()];
    insta::assert_snapshot!(refused(&|wanted| wanted.array = Array::Attempts(2000)), @"an array of 2000 is more than the 1001 the site allows; lower `resume.attempts`, or set `resume-by` to `requeue` or `chain`");
    insta::assert_snapshot!(refused(&|wanted| wanted.name = "a\nb"), @r#""--job-name=a\nb" holds a line break or another control character, which no `#SBATCH` line can carry"#);
    insta::assert_snapshot!(refused(&|wanted| wanted.parcel_folder = "/a\\b"), @r#""/a\\b" holds a backslash, after which SLURM reads file names differently; choose another `depot`"#);
    let (job, target) = specs("", "");
    let (facts, agent) = (facts(), agent());
    let wanted = Wanted {
        job: &job,
        target: &target,
        facts: &facts,
        name: "a",
        parcel_folder: "/p",
        agent: &agent,
        array: Array::None,
        mechanism: ResumeBy::Chain,
        secrets: &names,
    };
    insta::assert_snapshot!(wanted.script().unwrap_err(), @r#""ALL" cannot be handed to a job: it is no name of an environment variable, or one SLURM reads itself"#);
}

/// The body runs in a real shell: a setup line that is no shell, or fails, is told to the agent, which starts.
#[test]
fn setup_that_fails_reaches_the_agent() {
    let target = r#"
setup = ["echo 'unclosed", "false", "export FROM_SETUP='a b'"]
env.GREETING = "it's $HOME"
"#;
    let shown =
        ["sh", "-c", r#"printf '%s\n' "$YARD_SETUP_FAILED" "$GREETING" "$FROM_SETUP" "$SLURM_EXPORT_ENV" "$@""#, "sh"];
    let shown = shown.map(str::to_owned);
    let (job, target) = specs("", target);
    let facts = facts();
    let wanted = Wanted {
        job: &job,
        target: &target,
        facts: &facts,
        name: "a",
        parcel_folder: "/p",
        agent: &shown,
        array: Array::Groups { first: 0, last: 1, at_most: None },
        mechanism: ResumeBy::Chain,
        secrets: &[],
    };
    let (_, output) = through("bash", &[], &wanted.script().unwrap().to_string());
    let said: Vec<&str> = output.lines().filter(|line| !line.starts_with("bash:")).collect();
    assert_eq!(said, ["echo 'unclosed", "it's $HOME", "a b", "ALL", "0"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whatever a user writes, the script is one that a shell reads, and no value ends a `#SBATCH` line early.
    #[test]
    fn any_text_makes_a_script_or_is_refused(account in ".{1,12}", setup in "(.|\n){1,20}", folder in "/.{0,12}") {
        let (job, mut target) = specs("", "");
        target.account = Some(account);
        target.setup = vec![setup];
        let (facts, agent) = (facts(), agent());
        let wanted = Wanted {
            job: &job,
            target: &target,
            facts: &facts,
            name: "a",
            parcel_folder: &folder,
            agent: &agent,
            array: Array::None,
            mechanism: ResumeBy::Chain,
            secrets: &[],
        };
        if let Ok(script) = wanted.script() {
            let text = script.to_string();
            prop_assert!(through("bash", &["-n"], &text).0, "{text}");
            let directives = text.lines().take_while(|line| line.starts_with('#')).count();
            prop_assert_eq!(directives, script.directives.len() + 1);
        }
    }
}
