//! Trials as Ray jobs, with shares of GPUs.

use std::collections::BTreeSet;
use std::time::Duration;

use trainyard_core::plan::ray::JobStatus;
use trainyard_testkit::ray::{Ray, Size, newest};
use trainyard_testkit::{Yard, within};

const FILE: &str = r#"
[project]
name = "p"
[jobs.train]
command = ["sh", "-c", "echo device $CUDA_VISIBLE_DEVICES; n=0; while [ $n -lt 4 ]; do n=$((n+1)); echo step $n reward 0.$n; sleep 2; done"]
gpus = 0.5
cpus = 1
[jobs.train.metrics]
stdout = 'step (?<step>\d+) reward (?<reward>\S+)'
[sweeps.tune]
job = "train"
metric = "reward"
goal = "maximize"
sampler = "random"
trials = 6
parallel = 4
[sweeps.tune.space]
x = { uniform = [0.0, 1.0] }
"#;

#[test]
fn four_trials_share_two_nodes_of_one_gpu() {
    let sizes = [Size { cpus: 4, gpus: 1 }; 2];
    let ray = Ray::start(&newest(), &sizes, None);
    let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), &format!("{FILE}\n{}", ray.target("r")));
    yard.set("YARD_PACE", "300");
    let mut sweep = yard.command(&["sweep", "tune", "--on", "r"]).stdout(std::process::Stdio::null()).spawn().unwrap();
    let client = ray.client();
    let nodes = within(Duration::from_secs(300), "four trials at once", || {
        let jobs = client.jobs().ok()?;
        let running = jobs.iter().filter(|job| job.id.starts_with("train.") && job.status == JobStatus::Running);
        let nodes: Vec<String> = running.filter_map(|job| job.node.clone()).collect();
        assert!(nodes.len() <= 4, "{jobs:?}");
        (nodes.len() == 4).then_some(nodes)
    });
    assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), 2, "both nodes are used");
    let status = sweep.wait().unwrap();
    assert!(status.success(), "{status}");
    let shown = yard.json(&["sweep", "show", "tune"]);
    assert_eq!((&shown["state"], &shown["runs"]["ended"]), (&"done".into(), &6.into()), "{shown}");
}
