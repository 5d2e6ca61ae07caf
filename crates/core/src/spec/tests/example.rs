//! What the file may hold, in full.

use super::{Layer, config, flat, listing, load, load_text, problems};
use crate::spec::{Command, Gpus, ImageSpec, ResumeReason, Setting, TargetKind};
use crate::value::Value;

/// Section 5 of DESIGN.md.
pub(super) const EXAMPLE: &str = include_str!("example.toml");

#[test]
fn the_example_of_the_design_is_read() {
    insta::assert_snapshot!(flat(&config(EXAMPLE)), @r#"
    /default_target "local"
    /groups {}
    /images/default/docker "isaac-lab-base:latest"
    /jobs/train/command/argv ["python","train.py","--task","Isaac-Velocity-Rough-Anymal-C-v0","--headless","--seed","{seed}"]
    /jobs/train/copy false
    /jobs/train/cpus 8
    /jobs/train/env {}
    /jobs/train/gpus/whole 1
    /jobs/train/grace 10000
    /jobs/train/image "default"
    /jobs/train/in_place false
    /jobs/train/memory 32000000000
    /jobs/train/metrics [{"tensorboard":"logs/"}]
    /jobs/train/name "train"
    /jobs/train/nodes 1
    /jobs/train/outputs ["logs/"]
    /jobs/train/params {}
    /jobs/train/resume/args ["--resume","--checkpoint","{checkpoint}"]
    /jobs/train/resume/attempts 6
    /jobs/train/resume/checkpoint "logs/**/model_*.pt"
    /jobs/train/resume/on ["time-limit","preempted","node-failure"]
    /jobs/train/resume/warn/before 600000
    /jobs/train/resume/warn/signal "USR2"
    /jobs/train/seeds [1,2,3,4]
    /jobs/train/shares {}
    /jobs/train/style "flags"
    /jobs/train/tasks "per-node"
    /jobs/train/time 86400000
    /project/allow_large []
    /project/exclude ["wandb/","*.mp4"]
    /project/name "anymal"
    /sweeps/ppo/aggregate "mean"
    /sweeps/ppo/constraints []
    /sweeps/ppo/from []
    /sweeps/ppo/give_up 10
    /sweeps/ppo/goal "maximize"
    /sweeps/ppo/job "train"
    /sweeps/ppo/metric "Train/mean_reward"
    /sweeps/ppo/name "ppo"
    /sweeps/ppo/parallel 8
    /sweeps/ppo/points []
    /sweeps/ppo/repeats "adaptive"
    /sweeps/ppo/retries 2
    /sweeps/ppo/sampler "tpe"
    /sweeps/ppo/seed 0
    /sweeps/ppo/space/agent.horizon/domain/power-of-two/high 128
    /sweeps/ppo/space/agent.horizon/domain/power-of-two/low 8
    /sweeps/ppo/space/agent.minibatch/domain/derived "env.num_envs * agent.horizon / 4"
    /sweeps/ppo/space/agent.params.lr/domain/log-uniform/high 0.01
    /sweeps/ppo/space/agent.params.lr/domain/log-uniform/low 0.00001
    /sweeps/ppo/space/env.num_envs/domain/choice [512,1024,2048,4096]
    /sweeps/ppo/stop/every 20
    /sweeps/ppo/stop/factor 3
    /sweeps/ppo/stop/first 20
    /sweeps/ppo/stop/mode "stop"
    /sweeps/ppo/stop/mutate/range [1.1,2.0]
    /sweeps/ppo/stop/mutate/rate 0.25
    /sweeps/ppo/stop/quantile 0.25
    /sweeps/ppo/stop/scheduler "asha"
    /sweeps/ppo/stop/threshold 0.1
    /sweeps/ppo/trials 100
    /sweeps/ppo/value "tail"
    /targets/euler/depot "/cluster/scratch/me/yard"
    /targets/euler/kind/slurm/account "ls_robotics"
    /targets/euler/kind/slurm/binds []
    /targets/euler/kind/slurm/cache []
    /targets/euler/kind/slurm/container "apptainer"
    /targets/euler/kind/slurm/directives []
    /targets/euler/kind/slurm/env {}
    /targets/euler/kind/slurm/gpu_request "--gpus=rtx_3090:{gpus}"
    /targets/euler/kind/slurm/host "euler"
    /targets/euler/kind/slurm/mail_type []
    /targets/euler/kind/slurm/memory_request "node"
    /targets/euler/kind/slurm/modules []
    /targets/euler/kind/slurm/partition "gpu"
    /targets/euler/kind/slurm/setup ["module load eth_proxy"]
    /targets/euler/kind/slurm/writable "tmpfs"
    /targets/euler/name "euler"
    /targets/local/name "local"
    "#);
}

#[test]
fn its_values_know_where_they_come_from() {
    let entries = load_text(EXAMPLE).map(|loaded| loaded.entries).unwrap_or_default();
    insta::assert_snapshot!(listing(&entries), @r#"
    defaults.target = "local"  (default)
    image.docker = "isaac-lab-base:latest"  (trainyard.toml:6:10)
    jobs.train.command = ["python", "train.py", "--task", "Isaac-Velocity-Rough-Anymal-C-v0", "--headless", "--seed", "{seed}"]  (trainyard.toml:9:11)
    jobs.train.copy = false  (default)
    jobs.train.cpus = 8  (trainyard.toml:11:8)
    jobs.train.gpus = 1  (trainyard.toml:10:8)
    jobs.train.grace = "10s"  (default)
    jobs.train.in-place = false  (default)
    jobs.train.memory = "32GB"  (trainyard.toml:12:10)
    jobs.train.metrics.tensorboard = "logs/"  (trainyard.toml:23:15)
    jobs.train.nodes = 1  (default)
    jobs.train.outputs = ["logs/"]  (trainyard.toml:14:11)
    jobs.train.params-style = "flags"  (default)
    jobs.train.resume.args = ["--resume", "--checkpoint", "{checkpoint}"]  (trainyard.toml:20:8)
    jobs.train.resume.attempts = 6  (trainyard.toml:17:12)
    jobs.train.resume.checkpoint = "logs/**/model_*.pt"  (trainyard.toml:19:14)
    jobs.train.resume.on = ["time-limit", "preempted", "node-failure"]  (trainyard.toml:18:6)
    jobs.train.resume.warn.before = "10m"  (trainyard.toml:21:36)
    jobs.train.resume.warn.signal = "USR2"  (trainyard.toml:21:19)
    jobs.train.seeds = [1, 2, 3, 4]  (trainyard.toml:15:9)
    jobs.train.tasks = "per-node"  (default)
    jobs.train.time = "24h"  (trainyard.toml:13:8)
    project.allow-large = []  (default)
    project.exclude = ["wandb/", "*.mp4"]  (trainyard.toml:3:11)
    project.name = "anymal"  (trainyard.toml:2:8)
    sweeps.ppo.constraints = []  (default)
    sweeps.ppo.from = []  (default)
    sweeps.ppo.give-up = 10  (default)
    sweeps.ppo.goal = "maximize"  (trainyard.toml:28:8)
    sweeps.ppo.job = "train"  (trainyard.toml:26:7)
    sweeps.ppo.metric = "Train/mean_reward"  (trainyard.toml:27:10)
    sweeps.ppo.parallel = 8  (trainyard.toml:31:12)
    sweeps.ppo.points = []  (default)
    sweeps.ppo.repeats = "adaptive"  (trainyard.toml:32:11)
    sweeps.ppo.retries = 2  (default)
    sweeps.ppo.sampler = "tpe"  (trainyard.toml:29:11)
    sweeps.ppo.seed = 0  (default)
    sweeps.ppo.space."agent.horizon".power-of-two = [8, 128]  (trainyard.toml:37:36)
    sweeps.ppo.space."agent.minibatch".derived = "env.num_envs * agent.horizon / 4"  (trainyard.toml:38:33)
    sweeps.ppo.space."agent.params.lr".log-uniform = [1e-5, 0.01]  (trainyard.toml:35:37)
    sweeps.ppo.space."env.num_envs".choice = [512, 1024, 2048, 4096]  (trainyard.toml:36:29)
    sweeps.ppo.stop.factor = 3  (trainyard.toml:33:51)
    sweeps.ppo.stop.first = 20  (trainyard.toml:33:38)
    sweeps.ppo.stop.scheduler = "asha"  (trainyard.toml:33:22)
    sweeps.ppo.trials = 100  (trainyard.toml:30:10)
    sweeps.ppo.value = "tail"  (default)
    targets.euler.account = "ls_robotics"  (trainyard.toml:44:11)
    targets.euler.binds = []  (default)
    targets.euler.cache = []  (default)
    targets.euler.container = "apptainer"  (trainyard.toml:47:13)
    targets.euler.depot = "/cluster/scratch/me/yard"  (trainyard.toml:43:9)
    targets.euler.directives = []  (default)
    targets.euler.gpu-request = "--gpus=rtx_3090:{gpus}"  (trainyard.toml:46:15)
    targets.euler.host = "euler"  (trainyard.toml:42:8)
    targets.euler.kind = "slurm"  (trainyard.toml:41:8)
    targets.euler.memory-request = "node"  (default)
    targets.euler.modules = []  (default)
    targets.euler.partition = "gpu"  (trainyard.toml:45:13)
    targets.euler.setup = ["module load eth_proxy"]  (trainyard.toml:48:9)
    targets.euler.writable = "tmpfs"  (default)
    targets.local.kind = "local"  (default)
    "#);
}

#[test]
fn the_example_survives_serde() {
    let config = config(EXAMPLE);
    let json = serde_json::to_value(&config).unwrap_or_default();
    assert_eq!(serde_json::from_value(json).ok(), Some(config));
}

#[test]
fn an_empty_file_is_a_configuration() {
    insta::assert_snapshot!(flat(&config("")), @r#"
    /default_target "local"
    /groups {}
    /images {}
    /jobs {}
    /project/allow_large []
    /project/exclude []
    /project/name "folder"
    /sweeps {}
    /targets/local/name "local"
    "#);
}

#[test]
fn layers_and_flags_come_over_each_other() {
    let layer = |name: &str, text: &str| Layer { name: name.into(), text: text.into() };
    let user = layer("config.toml", "defaults.target = 'box'\n[targets.box]\nkind = 'ssh'\nhost = 'box'");
    let project = layer("trainyard.toml", "[jobs.a]\nshell = 'x'\ncpus = 2");
    let sets = ["jobs.a.cpus=4".to_owned(), "targets.local.gpus=['0', '2']".to_owned()];
    let loaded = load(&[user, project], &sets, "folder");
    insta::assert_snapshot!(listing(&loaded.map(|loaded| loaded.entries).unwrap_or_default()), @r#"
    defaults.target = "box"  (config.toml:1:19)
    jobs.a.copy = false  (default)
    jobs.a.cpus = 4  (--set jobs.a.cpus)
    jobs.a.gpus = 0  (default)
    jobs.a.grace = "10s"  (default)
    jobs.a.in-place = false  (default)
    jobs.a.nodes = 1  (default)
    jobs.a.outputs = []  (default)
    jobs.a.params-style = "flags"  (default)
    jobs.a.seeds = []  (default)
    jobs.a.shell = "x"  (trainyard.toml:2:9)
    jobs.a.tasks = "per-node"  (default)
    project.allow-large = []  (default)
    project.exclude = []  (default)
    project.name = "folder"  (default)
    targets.box.host = "box"  (config.toml:4:8)
    targets.box.kind = "ssh"  (config.toml:3:8)
    targets.box.setup = []  (default)
    targets.local.gpus = ["0", "2"]  (--set targets.local.gpus)
    targets.local.kind = "local"  (default)
    "#);
}

#[test]
fn every_kind_of_target_is_read() {
    let config = config(
        "
[targets.local]
gpus = ['0', '1']
memory = '64GB'
[targets.box]
kind = 'ssh'
host = 'me@box'
gpus = 2
cpus = 16
container = 'podman'
setup = ['source ~/env']
[targets.euler]
kind = 'slurm'
depot = '/d'
qos = 'long'
constraint = 'a100'
modules = ['cuda']
directives = ['--exclusive']
mail = 'me@site'
max-time = '1-00:00:00'
resume-by = 'requeue'
[targets.k8s]
kind = 'kubernetes'
context = 'c'
namespace = 'n'
image-pull-secret = 's'
queue = 'q'
node-selector = { 'nvidia.com/gpu.product' = 'A100' }
[targets.runai]
kind = 'runai'
url = 'https://runai.local'
project = 'p'
token = { file = '/run/token' }
ca = '/ca.pem'
[targets.ray]
kind = 'ray'
address = ['http://a:8265', 'http://b:8265']
token = { command = ['pass', 'ray'] }
[targets.ray1]
kind = 'ray'
address = 'http://a:8265'",
    );
    insta::assert_snapshot!(flat(&config.targets), @r#"
    /box/kind/ssh/container "podman"
    /box/kind/ssh/host "me@box"
    /box/kind/ssh/limits/cpus 16
    /box/kind/ssh/limits/gpus/count 2
    /box/kind/ssh/setup ["source ~/env"]
    /box/name "box"
    /euler/depot "/d"
    /euler/kind/slurm/binds []
    /euler/kind/slurm/cache []
    /euler/kind/slurm/constraint "a100"
    /euler/kind/slurm/directives ["--exclusive"]
    /euler/kind/slurm/env {}
    /euler/kind/slurm/gpu_request "--gres=gpu:{gpus}"
    /euler/kind/slurm/mail "me@site"
    /euler/kind/slurm/mail_type []
    /euler/kind/slurm/max_time 86400000
    /euler/kind/slurm/memory_request "node"
    /euler/kind/slurm/modules ["cuda"]
    /euler/kind/slurm/qos "long"
    /euler/kind/slurm/resume_by "requeue"
    /euler/kind/slurm/setup []
    /euler/kind/slurm/writable "tmpfs"
    /euler/name "euler"
    /k8s/kind/kubernetes/context "c"
    /k8s/kind/kubernetes/image_pull_secret "s"
    /k8s/kind/kubernetes/namespace "n"
    /k8s/kind/kubernetes/node_selector/nvidia.com/gpu.product "A100"
    /k8s/kind/kubernetes/queue "q"
    /k8s/name "k8s"
    /local/kind/local/gpus/devices ["0","1"]
    /local/kind/local/memory 64000000000
    /local/name "local"
    /ray/kind/ray/addresses ["http://a:8265","http://b:8265"]
    /ray/kind/ray/env {}
    /ray/kind/ray/pip []
    /ray/kind/ray/py_modules []
    /ray/kind/ray/shares {}
    /ray/kind/ray/token/command ["pass","ray"]
    /ray/name "ray"
    /ray1/kind/ray/addresses ["http://a:8265"]
    /ray1/kind/ray/env {}
    /ray1/kind/ray/pip []
    /ray1/kind/ray/py_modules []
    /ray1/kind/ray/shares {}
    /ray1/name "ray1"
    /runai/kind/runai/ca "/ca.pem"
    /runai/kind/runai/project "p"
    /runai/kind/runai/token/file "/run/token"
    /runai/kind/runai/url "https://runai.local"
    /runai/name "runai"
    "#);
    let names: Vec<&str> = config.targets.values().map(|target| target.kind.name()).collect();
    assert_eq!(names, ["ssh", "slurm", "kubernetes", "local", "ray", "ray", "runai"]);
    assert!(matches!(config.targets["ray1"].kind, TargetKind::Ray(ref ray) if ray.addresses == ["http://a:8265"]));
}

#[test]
fn every_domain_is_read() {
    let config = config(
        "
jobs.a = { shell = 'x', metrics = { jsonl = 'm' } }
[sweeps.s]
job = 'a'
metric = 'm'
goal = 'minimize'
trials = 5
repeats = 3
[sweeps.s.space]
a = { uniform = [0, 1.5] }
b = { log-uniform = [1e-5, 1e-2], when = 'i' }
c = { quantized = [0, 1, 0.25] }
d = { int = [-3, 3] }
e = { log-int = [1, 1000] }
f = { power-of-two = [8, 128] }
g = { choice = ['adam', 1, true, [1, 2]] }
h = { ordinal = [1, 2, 4] }
i = { boolean = true }
j = { fixed = { k = 1 } }
k = { derived = 'd * 2' }",
    );
    insta::assert_snapshot!(flat(&config.sweeps), @r#"
    /s/aggregate "mean"
    /s/constraints []
    /s/from []
    /s/give_up 10
    /s/goal "minimize"
    /s/job "a"
    /s/metric "m"
    /s/name "s"
    /s/parallel 1
    /s/points []
    /s/repeats/each 3
    /s/retries 2
    /s/sampler "auto"
    /s/seed 0
    /s/space/a/domain/uniform/high 1.5
    /s/space/a/domain/uniform/low 0.0
    /s/space/b/domain/log-uniform/high 0.01
    /s/space/b/domain/log-uniform/low 0.00001
    /s/space/b/when "i"
    /s/space/c/domain/quantized/high 1.0
    /s/space/c/domain/quantized/low 0.0
    /s/space/c/domain/quantized/step 0.25
    /s/space/d/domain/int/high 3
    /s/space/d/domain/int/low -3
    /s/space/e/domain/log-int/high 1000
    /s/space/e/domain/log-int/low 1
    /s/space/f/domain/power-of-two/high 128
    /s/space/f/domain/power-of-two/low 8
    /s/space/g/domain/choice ["adam",1,true,[1,2]]
    /s/space/h/domain/ordinal [1,2,4]
    /s/space/i/domain "boolean"
    /s/space/j/domain/fixed/k 1
    /s/space/k/domain/derived "d * 2"
    /s/trials 5
    /s/value "tail"
    "#);
}

#[test]
fn jobs_take_all_that_is_documented() {
    let config = config(
        "
[images.base]
dockerfile = 'docker/Dockerfile'
build-args = { CUDA = '12' }
[images.hub]
registry = 'ghcr.io/a/b:1'
username = 'me'
password = { env = 'PW' }
[jobs.a]
shell = 'echo {seed}'
image = 'base'
target = 'local'
gpus = 0.33
seeds = '1-3,7'
in-place = true
grace = '1m'
params-style = 'hydra'
env = { A = 'x{seed}', B = { env = 'SECRET' } }
params = { 'agent.lr' = 1e-3, n = 4, list = [1, 'a'], on = true, t = { u = 1 } }
resume = {}
metrics = { stdout = 'r: (?<r>\\S+)', jsonl = 'm.jsonl' }
[jobs.b]
command = ['x']",
    );
    let job = &config.jobs["a"];
    assert_eq!(job.command, Command::Shell("echo {seed}".into()));
    assert_eq!((job.image.as_deref(), job.target.as_deref()), (Some("base"), Some("local")));
    assert_eq!((job.gpus, job.seeds.as_slice()), (Gpus::Share(3), [1, 2, 3, 7].as_slice()));
    assert_eq!(job.env["A"], Setting::Text("x{seed}".into()));
    assert_eq!(job.params["agent.lr"], Value::Float(1e-3));
    assert_eq!(job.params["list"], Value::List(vec![Value::Int(1), Value::Text("a".into())]));
    assert_eq!(job.resume.attempts, 3);
    let reasons = [ResumeReason::TimeLimit, ResumeReason::Preempted, ResumeReason::NodeFailure];
    assert_eq!(job.resume.on, reasons);
    assert_eq!(job.metrics.len(), 2);
    assert_eq!((config.jobs["b"].resume.attempts, config.jobs["b"].cpus), (1, 1));
    insta::assert_snapshot!(flat(&config.images), @r#"
    /base/dockerfile/args/CUDA "12"
    /base/dockerfile/context "."
    /base/dockerfile/file "docker/Dockerfile"
    /hub/registry/login/password/env "PW"
    /hub/registry/login/username "me"
    /hub/registry/reference "ghcr.io/a/b:1"
    "#);
}

#[test]
fn an_image_is_there_by_default_or_not() {
    let image = |lines: &str| {
        let mut config = config(&format!("[images.b]\nsif = 'b'\n[jobs.a]\nshell = 'x'\n{lines}"));
        config.jobs.remove("a").and_then(|job| job.image)
    };
    assert_eq!(image(""), None);
    assert_eq!(image("[image]\nsif = 'a'").as_deref(), Some(ImageSpec::DEFAULT));
    assert_eq!(image("image = 'b'\n[image]\nsif = 'a'").as_deref(), Some("b"));
    assert_eq!(image("image = 'none'\n[image]\nsif = 'a'"), None);
    assert_eq!(image("[images.default]\nsif = 'a'").as_deref(), Some(ImageSpec::DEFAULT));
}

#[test]
fn images_come_from_many_places() {
    let from = |line: &str| {
        let mut config = config(&format!("[image]\n{line}"));
        config.images.remove(ImageSpec::DEFAULT).map(|image| (image.kind(), image.named().to_owned()))
    };
    for kind in ["docker", "podman", "archive", "oci", "folder", "dockerfile", "registry", "sif"] {
        assert_eq!(from(&format!("{kind} = 'x'")), Some((kind, "x".to_owned())));
    }
    assert_eq!(from("archive = 'x'\nreference = 'a:1'"), Some(("archive", "x".to_owned())));
}

#[test]
fn a_folder_without_a_name_has_a_project_nevertheless() {
    let loaded = load(&[], &[], "").map(|loaded| loaded.config.project.name);
    assert_eq!(loaded.as_deref(), Ok("project"));
    assert_eq!(config("project.name = 'a b'").project.name, "a b");
    assert_ne!(problems("project.name = ''"), "no problem");
}
