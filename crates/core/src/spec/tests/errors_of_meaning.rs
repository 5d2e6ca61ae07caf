//! Messages about values that contradict each other, and about names that lead nowhere.

use insta::assert_snapshot;

use super::{Layer, job_problems, load, problems, render};

#[test]
fn everything_is_reported_at_once_and_in_order() {
    let text = "
[sweeps.s]
job = 'trian'
metric = 'm'
goal = 'max'
[sweeps.s.space]
x = { uniform = [1, 0] }
[jobs.train]
command = ['a', '{sed}']
memory = '12 bananas'
seeds = [1, 1]
outputs = ['logs/']
resume.checkpoint = 'out/*.pt'
[targets.t]
kind = 'ssh'";
    assert_snapshot!(problems(text), @r#"
    trainyard.toml:2:1: sweeps.s: missing key `trials`: only a grid knows its end
      hint: add `trials`, or a `budget` such as `{ time = "24h" }`
    trainyard.toml:3:7: sweeps.s.job: no job is called `trian`
      hint: did you mean `train`?
    trainyard.toml:5:8: sweeps.s.goal: expected one of `maximize`, `minimize`, found "max"
    trainyard.toml:7:17: sweeps.s.space.x.uniform: low must be less than high, found 1 and 0
    trainyard.toml:9:17: jobs.train.command[1]: unknown placeholder `{sed}`, the nearest is `{seed}`; to write the braces themselves, double them: `{{sed}}`
    trainyard.toml:10:10: jobs.train.memory: expected a size such as "32GB", found "12 bananas"
    trainyard.toml:11:13: jobs.train.seeds[1]: seed 1 is given twice
    trainyard.toml:13:21: jobs.train.resume.checkpoint: lies in none of `outputs`: `logs/`
      hint: add `"out/"` to `outputs`
    trainyard.toml:14:1: targets.t: missing key `host`
      hint: `host`: any name `ssh` understands, from `ssh_config` too
    "#);
}

#[test]
fn checkpoints_lie_in_the_outputs() {
    let with = |outputs: &str, checkpoint: &str| {
        job_problems(&format!("outputs = {outputs}\nresume.checkpoint = '{checkpoint}'"))
    };
    assert_snapshot!(with("['logs/']", "out/**/model_*.pt"), @r#"
    trainyard.toml:4:21: jobs.train.resume.checkpoint: lies in none of `outputs`: `logs/`
      hint: add `"out/"` to `outputs`
    "#);
    assert_snapshot!(with("[]", "model_*.pt"), @"trainyard.toml:4:21: jobs.train.resume.checkpoint: lies in none of `outputs`, which is empty");
    assert_snapshot!(with("['logs/', 'b']", "logs2/model.pt"), @r#"
    trainyard.toml:4:21: jobs.train.resume.checkpoint: lies in none of `outputs`: `logs/`, `b`
      hint: add `"logs2/"` to `outputs`
    "#);
    assert_snapshot!(with("['logs/run']", "logs/*/model.pt"), @r#"
    trainyard.toml:4:21: jobs.train.resume.checkpoint: lies in none of `outputs`: `logs/run`
      hint: add `"logs/"` to `outputs`
    "#);
    assert_snapshot!(with("['logs/']", "**/model.pt"), @"trainyard.toml:4:21: jobs.train.resume.checkpoint: lies in none of `outputs`: `logs/`");
    for (outputs, checkpoint) in [
        ("['logs/']", "logs/**/model_*.pt"),
        ("['./logs']", "logs/last.pt"),
        ("['a', 'logs/run/']", "logs/run/x/[ab].pt"),
        ("['last.pt']", "last.pt"),
        ("['.']", "*.pt"),
    ] {
        assert_eq!(with(outputs, checkpoint), "no problem", "{outputs} {checkpoint}");
    }
}

#[test]
fn arguments_with_a_checkpoint_need_one() {
    assert_snapshot!(job_problems("resume.args = ['--load', '{checkpoint}']"), @r#"
    trainyard.toml:3:26: jobs.train.resume.args[1]: uses `{checkpoint}`, but there is no `checkpoint` to look for
      hint: add `checkpoint = "logs/**/model_*.pt"`
    "#);
    assert_eq!(job_problems("resume.args = ['{{checkpoint}}']"), "no problem");
}

#[test]
fn placeholders_are_known() {
    assert_snapshot!(
        job_problems("env.A = '{sed}'\nresume.args = ['{chekpoint}']\nparams.lr = 1\nenv.B = '{param.rl}'"),
        @r"
    trainyard.toml:3:9: jobs.train.env.A: unknown placeholder `{sed}`, the nearest is `{seed}`; to write the braces themselves, double them: `{{sed}}`
    trainyard.toml:4:16: jobs.train.resume.args[0]: unknown placeholder `{chekpoint}`, the nearest is `{checkpoint}`; to write the braces themselves, double them: `{{chekpoint}}`
    trainyard.toml:6:9: jobs.train.env.B: unknown placeholder `{param.rl}`, the nearest is `{param.lr}`; to write the braces themselves, double them: `{{param.rl}}`
    "
    );
    assert_snapshot!(problems("[jobs.a]\nshell = 'echo {param.x}'"), @"trainyard.toml:2:9: jobs.a.shell: unknown placeholder `{param.x}`, the nearest is `{name}`; to write the braces themselves, double them: `{{param.x}}`");
    assert_eq!(job_problems("params.lr = 1\nenv.B = '{param.lr}{seed}'"), "no problem");
}

#[test]
fn a_sweep_brings_parameters_to_its_own_job_only() {
    let text = |job: &str| {
        format!(
            "[jobs.a]\nshell = 'x {{param.agent.lr}}'\nmetrics.jsonl = 'm'\n[jobs.b]\nshell = 'y'\nmetrics.jsonl = 'm'
            [sweeps.s]\njob = '{job}'\nmetric = 'm'\ngoal = 'minimize'\ntrials = 1
            space.'agent.lr' = {{ uniform = [0, 1] }}"
        )
    };
    assert_eq!(problems(&text("a")), "no problem");
    assert_snapshot!(problems(&text("b")), @"trainyard.toml:2:9: jobs.a.shell: unknown placeholder `{param.agent.lr}`, the nearest is `{attempt}`; to write the braces themselves, double them: `{{param.agent.lr}}`");
}

#[test]
fn warnings_come_after_the_start() {
    let with =
        |before: &str| job_problems(&format!("time = '1h'\nresume.warn = {{ signal = 'USR2', before = '{before}' }}"));
    assert_snapshot!(with("60m"), @"trainyard.toml:4:43: jobs.train.resume.warn.before: the warning would come before the start: an attempt has 1h, and this is 1h");
    assert_eq!(with("59m"), "no problem");
}

#[test]
fn commands_say_what_to_run() {
    assert_snapshot!(problems("[jobs.a]\ncommand = ['', 'x']\n[jobs.b]\nshell = ' '"), @r"
    trainyard.toml:2:12: jobs.a.command[0]: the name of the program is empty
    trainyard.toml:4:9: jobs.b.shell: there is nothing to run
    ");
}

#[test]
fn names_lead_somewhere() {
    assert_snapshot!(job_problems("image = 'base'"), @r"
    trainyard.toml:3:9: jobs.train.image: no image is called `base`
      hint: there is no image yet: add `[images.base]`
    ");
    assert_snapshot!(job_problems("image = 'bse'\n[images.base]\nsif = 'x'"), @r"
    trainyard.toml:3:9: jobs.train.image: no image is called `bse`
      hint: did you mean `base`?
    ");
    assert_snapshot!(job_problems("image = 'default'"), @r"
    trainyard.toml:3:9: jobs.train.image: no image is called `default`
      hint: there is no image yet: add `[images.default]`
    ");
    assert_snapshot!(job_problems("target = 'locl'"), @r"
    trainyard.toml:3:10: jobs.train.target: no target is called `locl`
      hint: did you mean `local`?
    ");
    assert_snapshot!(problems("defaults.target = 'euler'"), @r"
    trainyard.toml:1:19: defaults.target: no target is called `euler`
      hint: known here: `local`
    ");
    assert_eq!(job_problems("image = 'none'\ntarget = 'local'"), "no problem");
}

#[test]
fn image_profiles_are_clear() {
    assert_snapshot!(problems("[image]\nsif = 'x'\n[images.default]\nsif = 'y'\n[images.none]\nsif = 'z'"), @r"
    trainyard.toml:3:1: images.default: `[image]` is this profile already
    trainyard.toml:5:1: images.none: `none` is how a job says that it runs without an image
      hint: use another name
    ");
}

#[test]
fn in_place_is_local() {
    let target = "[targets.t]\nkind = 'ssh'\nhost = 'h'";
    assert_snapshot!(job_problems(&format!("in-place = true\ntarget = 't'\n{target}")), @"trainyard.toml:3:12: jobs.train.in-place: works on targets of kind `local` only, and `t` is of kind `ssh`");
    assert_eq!(job_problems(&format!("in-place = false\ntarget = 't'\n{target}")), "no problem");
    assert_eq!(job_problems("in-place = true\ntarget = 'local'\nresume.attempts = 2"), "no problem");
}

fn target(lines: &str) -> String {
    problems(&format!("[targets.t]\n{lines}"))
}

#[test]
fn targets_know_their_kind() {
    assert_snapshot!(target("host = 'x'"), @r#"
    trainyard.toml:1:1: targets.t: missing key `kind`
      hint: write `kind = "…"` with one of `local`, `ssh`, `slurm`, `kubernetes`, `runai`, `ray`
    "#);
    assert_snapshot!(target("kind = 'slrm'"), @r#"
    trainyard.toml:2:8: targets.t.kind: expected one of `local`, `ssh`, `slurm`, `kubernetes`, `runai`, `ray`, found "slrm"
      hint: did you mean `slurm`?
    "#);
    assert_snapshot!(target("kind = 3"), @"trainyard.toml:2:8: targets.t.kind: expected one of `local`, `ssh`, `slurm`, `kubernetes`, `runai`, `ray`, found 3");
    assert_snapshot!(target("kind = 'ssh'\nhost = 'x'\npartition = 'gpu'"), @r"
    trainyard.toml:4:1: targets.t.partition: a target of kind `ssh` has no such key, only of kind `slurm`
      hint: allowed here: `host`, `depot`, `gpus`, `cpus`, `memory`, `setup`, `container`
    ");
    assert_snapshot!(target("kind = 'local'\nhost = 'x'\nhots = 'y'"), @r"
    trainyard.toml:3:1: targets.t.host: a target of kind `local` has no such key, only of kind `ssh`, `slurm`
      hint: allowed here: `gpus`, `cpus`, `memory`, `depot`
    trainyard.toml:4:1: targets.t.hots: unknown key
      hint: allowed here: `gpus`, `cpus`, `memory`, `depot`
    ");
    assert_snapshot!(target("kind = 'slurm'"), @r"
    trainyard.toml:1:1: targets.t: missing key `depot`
      hint: `depot`: the folder at the site for code, images and runs
    ");
    assert_snapshot!(problems("[targets.local]\nkind = 'ssh'\nhost = 'x'"), @r"
    trainyard.toml:2:8: targets.local.kind: the target called `local` is always this machine, of kind `local`
      hint: give the other one another name
    ");
}

#[test]
fn targets_have_sane_values() {
    assert_snapshot!(target("kind = 'ssh'\nhost = '-oProxyCommand=x'"), @r#"trainyard.toml:3:8: targets.t.host: expected a host name, found "-oProxyCommand=x""#);
    assert_snapshot!(target("kind = 'local'\ngpus = 'all'"), @r#"trainyard.toml:3:8: targets.t.gpus: expected a whole number from 0 to 1024 or a list, found "all""#);
    assert_snapshot!(target("kind = 'slurm'\ndepot = '/d'\ngpu-request = '--gpus={gpu}'\ncontainer = 'docker'"), @r#"
    trainyard.toml:4:15: targets.t.gpu-request: unknown placeholder `{gpu}`, here can stand `{gpus}`, `{gpus_per_task}`, `{total_gpus}`, `{nodes}`, `{tasks}`
    trainyard.toml:5:13: targets.t.container: expected one of `apptainer`, `singularity`, `pyxis`, `none`, found "docker"
    "#);
    assert_snapshot!(target("kind = 'slurm'\ndepot = '/d'\ndirectives = ['#SBATCH -N1', \"--a\\nrm\"]"), @r#"
    trainyard.toml:4:15: targets.t.directives[0]: expected an option of `sbatch`, such as `--exclusive`
    trainyard.toml:4:30: targets.t.directives[1]: expected a line of text, found "--a\nrm"
    "#);
    assert_snapshot!(target("kind = 'runai'\nurl = 'runai.local'\nproject = 'p'\ntoken = { env = 'T' }"), @r#"trainyard.toml:3:7: targets.t.url: expected an address such as "https://…", found "runai.local""#);
}

fn slurm(lines: &str) -> String {
    target(&format!("kind = 'slurm'\ndepot = '/d'\n{lines}"))
}

#[test]
fn options_of_sbatch_that_have_a_key_or_are_ours() {
    let directives = [
        "--job-name=x",
        "-Jx",
        "-J x",
        "-HJ x",
        "--part=gpu",
        "-p gpu",
        "--mem-per-cpu=4048",
        "--gres=gpu:1",
        "--gres=lscratch:100",
        "-G1",
        "--export=ALL",
        "--dependency=afterok:1",
        "--no-requeue",
        "--signal=B:USR1@60",
        "--comment=x --array=0-5%1",
        "--container-image=a",
        "--comment='open",
        "--",
        "exclusive",
    ];
    let list: Vec<String> = directives.iter().map(|directive| format!("{directive:?}")).collect();
    assert_snapshot!(slurm(&format!("directives = [\n{}]", list.join(",\n"))), @r#"
    trainyard.toml:5:1: targets.t.directives[0]: `--job-name` is set by `yard`: runs are found again by it
    trainyard.toml:6:1: targets.t.directives[1]: `--job-name` is set by `yard`: runs are found again by it
    trainyard.toml:7:1: targets.t.directives[2]: `--job-name` is set by `yard`: runs are found again by it
    trainyard.toml:8:1: targets.t.directives[3]: `--job-name` is set by `yard`: runs are found again by it
    trainyard.toml:9:1: targets.t.directives[4]: write `partition` of the target instead
    trainyard.toml:10:1: targets.t.directives[5]: write `partition` of the target instead
    trainyard.toml:11:1: targets.t.directives[6]: write `memory` of the job and `memory-request = "cpu"` of the target instead
    trainyard.toml:12:1: targets.t.directives[7]: write `gpus` of the job and `gpu-request` of the target instead
    trainyard.toml:13:1: targets.t.directives[8]: a second `--gres` replaces the first: write `gpu-request = "--gres=gpu:{gpus},lscratch:100"`
    trainyard.toml:14:1: targets.t.directives[9]: write `gpus` of the job and `gpu-request` of the target instead
    trainyard.toml:15:1: targets.t.directives[10]: `--export` is set by `yard`: the environment of a run is `env` of job and target
    trainyard.toml:16:1: targets.t.directives[11]: `--dependency` is set by `yard`: it is how runs go on: `resume-by`
    trainyard.toml:17:1: targets.t.directives[12]: `--no-requeue` is set by `yard`: it is how runs go on: `resume-by`
    trainyard.toml:18:1: targets.t.directives[13]: `--signal` is set by `yard`: it warns programs itself: `resume.warn` of the job
    trainyard.toml:19:1: targets.t.directives[14]: `--array` is set by `yard`: it makes one task for each group of runs
    trainyard.toml:20:1: targets.t.directives[15]: images are run by `container` of the target
    trainyard.toml:21:1: targets.t.directives[16]: a quote is not closed
    trainyard.toml:22:1: targets.t.directives[17]: expected an option of `sbatch`, such as `--exclusive`
    trainyard.toml:23:1: targets.t.directives[18]: expected an option of `sbatch`, such as `--exclusive`
    "#);
    let fine = "directives = ['--exclusive', '--nodelist=n1', '-w n1', '--mem-bind=local', '--time-min=10', '--hold', '-H', \
                '--tmp=10G', '--nice=100', '--comment=-J', '--gpu-bind=none', '--mem-per-gpu=20G', '--licenses=a:1']";
    assert_snapshot!(slurm(fine), @"no problem");
    assert_snapshot!(slurm("gpu-request = '--gpus-per-node={gpus}'\ndirectives = ['--gres=lscratch:100']"), @"no problem");
}

#[test]
fn gpu_requests() {
    assert_snapshot!(slurm("gpu-request = 'gpu:{gpus}'"), @"trainyard.toml:4:15: targets.t.gpu-request: expected options of `sbatch`, such as `--gres=gpu:{gpus}`");
    assert_snapshot!(slurm("gpu-request = '--gpus={gpus} --partition=x'"), @"trainyard.toml:4:15: targets.t.gpu-request: write `partition` of the target instead");
    assert_snapshot!(slurm("gpu-request = \"--gpus='{gpus}\""), @"trainyard.toml:4:15: targets.t.gpu-request: a quote is not closed");
    for request in [
        "--gres=gpu:{gpus}",
        "--gres=gpu:a100:{gpus},lscratch:10",
        "--gpus=rtx_3090:{total_gpus}",
        "--gpus-per-node=a100:{gpus}",
        "--gpus-per-task={gpus_per_task} --gpu-bind=none",
        "-G {total_gpus}",
        "--gres=shard:{gpus}",
    ] {
        assert_eq!(slurm(&format!("gpu-request = '{request}'")), "no problem", "{request}");
    }
}

#[test]
fn samples_that_nobody_filled_in() {
    let lines = "kind = 'slurm'\nhost = 'username@cluster_ip'\ndepot = '/some/path/on/cluster'\naccount = 'your_account'\nmail = 'name@mail'";
    assert_snapshot!(target(lines), @"
    trainyard.toml:3:8: targets.t.host: `username@cluster_ip` is still the placeholder; write your own
    trainyard.toml:4:9: targets.t.depot: `/some/path/on/cluster` is still the placeholder; write your own
    trainyard.toml:5:11: targets.t.account: `your_account` is still the placeholder; write your own
    trainyard.toml:6:8: targets.t.mail: `name@mail` is still the placeholder; write your own
    ");
    assert_eq!(
        target("kind = 'slurm'\nhost = 'euler'\ndepot = '/d'\nmail = 'first.name@mail.example.org'"),
        "no problem"
    );
    assert_snapshot!(target("kind = 'ssh'\nhost = 'YOUR_CLUSTER_LOGIN_NODE'"), @"trainyard.toml:3:8: targets.t.host: `YOUR_CLUSTER_LOGIN_NODE` is still the placeholder; write your own");
}

#[test]
fn folders_of_containers() {
    assert_snapshot!(slurm("binds = ['/a', '$SCRATCH:/b', '/a:/b:ro', 'a:/b', '/a,/b', '/a:b']\ncache = ['/root/.cache', 'x']\nscratch = 'tmp'"), @"
    trainyard.toml:4:43: targets.t.binds[3]: expected `/SOURCE`, `/SOURCE:/INSIDE` or `/SOURCE:/INSIDE:ro`
    trainyard.toml:4:51: targets.t.binds[4]: container runtimes read a comma as the end of a bind
    trainyard.toml:4:60: targets.t.binds[5]: expected `/SOURCE`, `/SOURCE:/INSIDE` or `/SOURCE:/INSIDE:ro`
    trainyard.toml:5:26: targets.t.cache[1]: expected a path in the container that begins with `/`, without `,` and `:`
    trainyard.toml:6:11: targets.t.scratch: expected a path that begins with `/` or a variable such as `$TMPDIR`
    ");
}

#[test]
fn sizes_that_do_not_go_together() {
    assert_snapshot!(job_problems("gpus = 0.25\nnodes = 2"), @"trainyard.toml:4:9: jobs.train.nodes: a run with a share of a GPU, `gpus = 0.25`, lives on one node");
    assert_snapshot!(job_problems("tasks = 'per-gpu'"), @"trainyard.toml:3:9: jobs.train.tasks: `per-gpu` needs whole GPUs, and the job has `gpus = 0`");
    assert_snapshot!(job_problems("gpus = 0.5\ntasks = 'per-gpu'"), @"trainyard.toml:4:9: jobs.train.tasks: `per-gpu` needs whole GPUs, and the job has `gpus = 0.5`");
    assert_snapshot!(job_problems("gpus = 1\npack = 4"), @"
    trainyard.toml:4:8: jobs.train.pack: only runs that share a GPU are packed, and the job has `gpus = 1`
      hint: write a share, such as `gpus = 0.25`
    ");
    assert_snapshot!(job_problems("nodes = 2\ntarget = 'local'"), @"trainyard.toml:3:9: jobs.train.nodes: the target `local` is of kind `local`, which is one machine, and the job wants 2");
    assert_eq!(job_problems("gpus = 4\nnodes = 2\ntasks = 'per-gpu'"), "no problem");
    assert_eq!(job_problems("gpus = 0.25\npack = 8"), "no problem");
}

fn sweep(lines: &str) -> String {
    problems(&format!(
        "jobs.train = {{ shell = 'x', metrics = {{ jsonl = 'm' }} }}\n[sweeps.s]\nmetric = 'm'\ngoal = 'maximize'\n{lines}"
    ))
}

#[test]
fn sweeps_search_a_known_job() {
    let rest = "trials = 1\nspace.x.int = [0, 1]";
    assert_snapshot!(sweep(&format!("job = 'trian'\n{rest}")), @r"
    trainyard.toml:5:7: sweeps.s.job: no job is called `trian`
      hint: did you mean `train`?
    ");
    assert_snapshot!(
        problems(&format!("jobs.a.shell = 'x'\n[sweeps.s]\nmetric = 'm'\ngoal = 'maximize'\njob = 'a'\n{rest}")),
        @r"
    trainyard.toml:3:10: sweeps.s.metric: the job `a` has no `metrics`, so nothing can be read from its runs
      hint: add `[jobs.a.metrics]` with `tensorboard`, `jsonl`, `csv`, `stdout`, or a `preset`: rl_games, rsl_rl, skrl, sb3, lightning, report
    "
    );
    assert_eq!(sweep(&format!("job = 'train'\n{rest}")), "no problem");
}

#[test]
fn sweeps_have_an_end() {
    assert_snapshot!(sweep("job = 'train'\nspace.x.int = [0, 1]"), @r#"
    trainyard.toml:2:1: sweeps.s: missing key `trials`: only a grid knows its end
      hint: add `trials`, or a `budget` such as `{ time = "24h" }`
    "#);
    assert_eq!(sweep("job = 'train'\nbudget = { time = '24h' }\nspace.x.int = [0, 1]"), "no problem");
    assert_snapshot!(sweep("job = 'train'\nsampler = 'grid'\nspace.x.uniform = [0, 1]"), @"trainyard.toml:2:1: sweeps.s: missing key `trials`: the space is not finite");
    assert_eq!(sweep("job = 'train'\nsampler = 'grid'\nspace.x.int = [0, 1]"), "no problem");
    assert_snapshot!(sweep("job = 'train'\ntrials = 1\nspace = {}"), @"trainyard.toml:7:9: sweeps.s.space: there is nothing to search");
}

#[test]
fn sweeps_have_sane_values() {
    let rest = "job = 'train'\ntrials = 1\nspace.x.int = [0, 1]";
    assert_snapshot!(sweep(&format!("{rest}\nrepeats = 0")), @"trainyard.toml:8:11: sweeps.s.repeats: expected a whole number of at least 1, found 0");
    assert_snapshot!(sweep(&format!("{rest}\nrepeats = 'often'")), @r#"trainyard.toml:8:11: sweeps.s.repeats: expected "adaptive", found "often""#);
    assert_snapshot!(sweep(&format!("{rest}\nsampler = 'bayes'\nstop = {{ scheduler = 'asha', factor = 1 }}")), @r#"
    trainyard.toml:8:11: sweeps.s.sampler: expected one of `auto`, `grid`, `random`, `sobol`, `tpe`, `cmaes`, `gp`, found "bayes"
    trainyard.toml:9:39: sweeps.s.stop.factor: expected a whole number from 2 to 100, found 1
    "#);
}

#[test]
fn ranges_are_ranges() {
    let dimensions = [
        "{ uniform = [1, 1] }",
        "{ uniform = [1] }",
        "{ uniform = ['a', 1] }",
        "{ uniform = [0, inf] }",
        "{ log-uniform = [0, 1] }",
        "{ log-uniform = [2, 1] }",
        "{ quantized = [0, 1, 0] }",
        "{ quantized = [0, 1, 2] }",
        "{ quantized = [0, 1] }",
        "{ int = [2, 1] }",
        "{ int = [1, 1] }",
        "{ uniform = [inf, 1] }",
        "{ int = [0.5, 1] }",
        "{ int = [9223372036854775806, 9223372036854775807] }",
        "{ log-int = [0, 8] }",
        "{ power-of-two = [8, 100] }",
        "{ power-of-two = [8, 8] }",
        "{ power-of-two = [0, 8] }",
        "{ choice = [] }",
        "{ ordinal = [] }",
        "{ boolean = false }",
        "{ choice = [1], fixed = 1 }",
        "{ when = 'y' }",
        "{ derived = '' }",
        "[1, 2]",
    ];
    let lines: Vec<String> = dimensions.iter().enumerate().map(|(n, x)| format!("space.x{n:02} = {x}")).collect();
    assert_snapshot!(sweep(&format!("job = 'train'\ntrials = 1\n{}", lines.join("\n"))), @r#"
    trainyard.toml:7:25: sweeps.s.space.x00.uniform: low must be less than high, found 1 and 1
    trainyard.toml:8:25: sweeps.s.space.x01.uniform: expected `[low, high]`, found `[1]`
    trainyard.toml:9:26: sweeps.s.space.x02.uniform[0]: expected a number, found "a"
    trainyard.toml:10:29: sweeps.s.space.x03.uniform[1]: expected a number, found inf
    trainyard.toml:11:29: sweeps.s.space.x04.log-uniform: a logarithm needs numbers above 0, found 0
    trainyard.toml:12:29: sweeps.s.space.x05.log-uniform: low must be less than high, found 2 and 1
    trainyard.toml:13:27: sweeps.s.space.x06.quantized: the step must lie above 0 and within the range, found 0
    trainyard.toml:14:27: sweeps.s.space.x07.quantized: the step must lie above 0 and within the range, found 2
    trainyard.toml:15:27: sweeps.s.space.x08.quantized: expected `[low, high, step]`, found `[0, 1]`
    trainyard.toml:16:21: sweeps.s.space.x09.int: low must be less than high, found 2 and 1
    trainyard.toml:17:21: sweeps.s.space.x10.int: low must be less than high, found 1 and 1
    trainyard.toml:18:26: sweeps.s.space.x11.uniform[0]: expected a number, found inf
    trainyard.toml:19:22: sweeps.s.space.x12.int[0]: expected a whole number, found 0.5
    trainyard.toml:21:25: sweeps.s.space.x14.log-int: a logarithm needs numbers above 0, found 0
    trainyard.toml:22:30: sweeps.s.space.x15.power-of-two: 100 is not a power of two
    trainyard.toml:23:30: sweeps.s.space.x16.power-of-two: low must be less than high, found 8 and 8
    trainyard.toml:24:31: sweeps.s.space.x17.power-of-two[0]: expected a whole number of at least 1, found 0
    trainyard.toml:25:24: sweeps.s.space.x18.choice: expected a list with at least 1 item
    trainyard.toml:26:25: sweeps.s.space.x19.ordinal: expected a list with at least 1 item
    trainyard.toml:27:25: sweeps.s.space.x20.boolean: expected `true`, found false
    trainyard.toml:28:29: sweeps.s.space.x21.fixed: excludes `choice`, which is given too
    trainyard.toml:29:13: sweeps.s.space.x22: needs one of `uniform`, `log-uniform`, `quantized`, `int`, `log-int`, `power-of-two`, `choice`, `ordinal`, `boolean`, `fixed`, `derived`
    trainyard.toml:30:25: sweeps.s.space.x23.derived: expected a line of text, found ""
    trainyard.toml:31:13: sweeps.s.space.x24: expected a table, found a list
    "#);
}

#[test]
fn a_flag_that_is_wrong_is_named() {
    let layer = Layer { name: "trainyard.toml".into(), text: "[jobs.train]\nshell = 'x'".into() };
    let with = |sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        load(std::slice::from_ref(&layer), &sets, "f").map_or_else(|error| render(&error), |_| "no problem".into())
    };
    assert_snapshot!(with(&["jobs.train.memory=lots", "jobs.train.gpu=1"]), @r#"
    --set jobs.train.gpu: unknown key
      hint: did you mean `gpus`?
    --set jobs.train.memory: expected a size such as "32GB", found "lots"
    "#);
    assert_snapshot!(with(&["jobs.trian.gpus=1"]), @r"
    --set jobs.trian.gpus: jobs.trian: needs one of `command`, `shell`
      hint: did you mean `train`?
    ");
    assert_snapshot!(with(&["jobs.train", "=", "a.b"]), @r"
    --set : expected a path of keys with dots between, such as `jobs.train.gpus`
      hint: write `--set jobs.train.gpus=2`
    --set a.b: expected `path=value`
      hint: write `--set jobs.train.gpus=2`
    --set jobs.train: expected `path=value`
      hint: write `--set jobs.train.gpus=2`
    ");
    assert_snapshot!(with(&["image.registry=x", "image.username=me", "image.password=hunter2"]), @r#"
    --set image.password: a secret is not written into the file, only where it is found
      hint: write `{ env = "NAME" }`, `{ file = "PATH" }` or `{ command = ["PROGRAM", …] }`
    "#);
    assert_eq!(with(&["jobs.train.time=12:00:00", "jobs.train.gpus=0.5"]), "no problem");
}

#[test]
fn a_flag_moves_no_table_that_was_written() {
    let layer = Layer { name: "trainyard.toml".into(), text: "[targets.t]\nkind = 'ssh'".into() };
    let sets = ["targets.t.setup=['x']".to_owned(), "targets.local.kind=slurm".to_owned()];
    let error = load(&[layer], &sets, "f").map(|_| ());
    assert_snapshot!(error.map_or_else(|error| render(&error), |()| "no problem".into()), @r"
    trainyard.toml:1:1: targets.t: missing key `host`
      hint: `host`: any name `ssh` understands, from `ssh_config` too
    --set targets.local.kind: targets.local: missing key `depot`
      hint: `depot`: the folder at the site for code, images and runs
    --set targets.local.kind: the target called `local` is always this machine, of kind `local`
      hint: give the other one another name
    ");
}

#[test]
fn problems_of_several_files_come_together() {
    let layer = |name: &str, text: &str| Layer { name: name.into(), text: text.into() };
    let error = load(&[layer("config.toml", "x ="), layer("trainyard.toml", "y = [")], &[], "f").map(|_| ());
    assert_snapshot!(error.map_or_else(|error| render(&error), |()| "no problem".into()), @r"
    config.toml:1:4: string values must be quoted, expected literal string
    trainyard.toml:1:6: unclosed array, expected `]`
    ");
}

#[test]
fn a_reference_chooses_among_the_images_of_a_file() {
    assert_snapshot!(problems("[image]\ndocker = 'lab'\nreference = 'a:1'\n[images.b]\noci = 'o'\nreference = 'x'"), @"trainyard.toml:3:13: image.reference: says nothing without `archive` or `oci`");
}

#[test]
fn groups_name_jobs_that_exist_once() {
    let text = "
[jobs.train]
command = ['a']
per-node = 2
cpus = 4
[jobs.eval]
command = ['a']
[groups.eval]
jobs = ['train', 'evil', 'train']
start = 'at-once'
target = 'nowhere'
[targets.r]
kind = 'ray'
address = 'http://h:1'
clusters = '~/.cluster_config'";
    assert_snapshot!(problems(text), @r#"
    trainyard.toml:4:12: jobs.train.per-node: shares out whole nodes, and the job says `cpus` itself
      hint: leave out `cpus`, or `per-node`
    trainyard.toml:8:1: groups.eval: a job is called `eval` too, and `yard run eval` can mean only one of them
      hint: give one of them another name
    trainyard.toml:9:18: groups.eval.jobs[1]: no job is called `evil`
      hint: did you mean `eval`?
    trainyard.toml:9:26: groups.eval.jobs[2]: `train` stands here twice
      hint: give the job `seeds` to run it several times
    trainyard.toml:10:9: groups.eval.start: expected one of `when-free`, `in-order`, `together`, found "at-once"
    trainyard.toml:11:10: groups.eval.target: no target is called `nowhere`
      hint: known here: `local`, `r`
    trainyard.toml:15:1: targets.r.clusters: excludes `address`, which is given too
    "#);
}
