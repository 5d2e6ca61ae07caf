//! Trials as Ray jobs, with shares of GPUs; and giving back the space they took on every node.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use trainyard_core::plan::ray::JobStatus;
use trainyard_testkit::ray::Ray;
use trainyard_testkit::{Yard, within};

use crate::clusters;

const FILE: &str = r#"
[project]
name = "p"
[jobs.train]
command = ["sh", "-c", "echo device $CUDA_VISIBLE_DEVICES; echo step 1 reward 0.1; while [ ! -e $GO ]; do sleep 0.2; done"]
gpus = 0.5
cpus = 1
[jobs.train.env]
GO = "DEPOT/go"
[jobs.train.metrics]
stdout = 'step (?<step>\d+) reward (?<reward>\S+)'
[jobs.other]
command = ["sh", "-c", "cat code.txt; sleep 3"]
cpus = 3
[sweeps.tune]
job = "train"
metric = "reward"
goal = "maximize"
sampler = "random"
repeats = 1
trials = 6
parallel = 4
[sweeps.tune.space]
x = { uniform = [0.0, 1.0] }
"#;

fn file(ray: &Ray) -> String {
    format!("{}\n{}", FILE.replace("DEPOT", &ray.depot().to_string_lossy()), ray.target("r"))
}

#[test]
fn four_trials_share_two_nodes_of_one_gpu() {
    let ray = clusters::newest();
    let others = all_runs(&ray);
    let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), &file(&ray));
    yard.set("YARD_PACE", "300");
    yard.write("code.txt", "of this laptop");
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
    (1..=2).for_each(|node| std::fs::write(ray.disk(node).join("go"), "").unwrap());
    let status = sweep.wait().unwrap();
    assert!(status.success(), "{status}");
    let shown = yard.json(&["sweep", "show", "tune"]);
    assert_eq!((&shown["state"], &shown["runs"]["ended"]), (&"done".into(), &6.into()), "{shown}");
    all_nodes_are_cleaned_of_what_nobody_needs(&ray, &yard, others);
}

/// As if all of this had been left alone for two hours.
fn age(folder: &Path) {
    let aged = Command::new("find").arg(folder).args(["-exec", "touch", "-h", "-d", "2 hours ago", "{}", "+"]).status();
    assert!(aged.unwrap().success());
}

fn runs_on(ray: &Ray, node: usize) -> BTreeSet<String> {
    let entries = std::fs::read_dir(ray.disk(node).join("runs")).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn blobs_on(ray: &Ray, node: usize) -> usize {
    let folders = std::fs::read_dir(ray.disk(node).join("blobs")).into_iter().flatten().flatten();
    folders.map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().count()).sum()
}

fn all_runs(ray: &Ray) -> BTreeSet<String> {
    (1..=2).flat_map(|node| runs_on(ray, node)).collect()
}

fn all_nodes_are_cleaned_of_what_nobody_needs(ray: &Ray, yard: &Yard, others: BTreeSet<String>) {
    // Somebody else with the same cluster and other code, on both nodes.
    let mut other = Yard::new(env!("CARGO_BIN_EXE_yard"), &file(ray));
    other.set("YARD_PACE", "300");
    other.write("code.txt", "of somebody else");
    let ran = other.run(&["run", "other", "--on", "r", "--seeds", "1,2"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    let theirs: BTreeSet<String> = other.runs().iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect();
    (1..=2).for_each(|node| age(&ray.disk(node)));
    let before: Vec<_> = (1..=2).map(|node| (runs_on(ray, node), blobs_on(ray, node))).collect();
    assert!(before.iter().all(|(runs, blobs)| runs.len() >= 2 && *blobs >= 2), "{before:?}");

    // First a plan, which removes nothing.
    let wish = ["clean", "--on", "r", "--older", "0s"];
    let plan = yard.json(&[&wish[..], &["--dry-run"]].concat());
    let files = plan["sites"][0]["files"].as_array().unwrap();
    for node in ["127.0.0.3:runs/", "127.0.0.4:runs/"] {
        assert!(files.iter().any(|file| file["path"].as_str().unwrap().starts_with(node)), "{node}: {plan}");
    }
    assert_eq!((1..=2).map(|node| (runs_on(ray, node), blobs_on(ray, node))).collect::<Vec<_>>(), before);

    let cleaned = yard.json(&[&wish[..], &["--yes"]].concat());
    assert_eq!((&cleaned["removed"], cleaned["runs"].as_array().unwrap().len()), (&true.into(), 6), "{cleaned}");
    assert_eq!(all_runs(ray), &theirs | &others, "what somebody else has stays");
    for (node, (_, blobs)) in (1..=2).zip(before) {
        let left = blobs_on(ray, node);
        assert!(left < blobs && (left > 0) != runs_on(ray, node).is_empty(), "node {node}: {left} of {blobs} blobs");
    }
    let pulled = other.run(&["logs", "other-s1"]);
    assert_eq!(pulled.stdout, "of somebody else", "{pulled:?}");
}
