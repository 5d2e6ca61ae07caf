//! Everything a person does with a cluster, through the real program.

use trainyard_testkit::ray::Ray;
use trainyard_testkit::{Yard, eventually};

use crate::clusters::{self, TOKEN};
use crate::gate;

const JOBS: &str = r#"
[project]
name = "p"

[jobs.train]
command = ["sh", "-c", "echo at $(cat data/hello) seed $YARD_SEED; mkdir -p out/deep; printf '%s' \"$TOKEN\" > out/token; head -c 300000 /dev/urandom > out/deep/model.bin; echo done"]
cpus = 1
outputs = ["out/"]
[jobs.train.env]
TOKEN = { env = "SECRET_TOKEN" }

[jobs.fails]
command = ["sh", "-c", "echo before; exit 7"]

[jobs.long]
command = ["sh", "-c", "setsid sh -c 'sleep 4001 & sleep 4002' & echo up; sleep 4003"]
grace = "1s"

[jobs.holds]
command = ["sleep", "4004"]
gpus = 1
seeds = [1, 2]
grace = "1s"

[jobs.one]
command = ["true"]
gpus = 1

[jobs.wide]
command = ["true"]
gpus = 3
"#;

fn yard(ray: &Ray) -> Yard {
    let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), &format!("{JOBS}\n{}", ray.target("r")));
    yard.write("data/hello", "hello");
    yard.set("SECRET_TOKEN", "hunter2-and-more");
    yard.set("YARD_PACE", "300");
    yard
}

#[test]
fn from_the_laptop_to_results() {
    let ray = clusters::newest();
    from_submission_to_results(&ray);
    what_waits_says_why(&ray);
    every_node_is_looked_at(&ray);
    gate::through_a_gate(&ray, TOKEN);
}

fn from_submission_to_results(ray: &Ray) {
    let yard = yard(ray);

    // Seeds side by side, more at once than Ray unpacks packages for; the log is what the program wrote.
    let ran = yard.run(&["run", "train", "--on", "r", "--seeds", "1-6"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    for seed in 1..=6 {
        let logged = yard.run(&["logs", &format!("train-s{seed}")]);
        assert_eq!(logged.stdout, format!("at hello seed {seed}\ndone\n"), "{logged:?}");
    }

    // Nothing of it is on this machine until it is pulled; then it is whole, and a second pull brings nothing.
    let to = yard.root().join("home-again");
    let to = to.to_str().unwrap();
    let pulled = yard.run(&["pull", "train-s1", "--to", to]);
    assert_eq!(pulled.exit, 0, "{pulled:?}");
    let results = std::fs::read_dir(to).unwrap().flatten().next().unwrap().path().join("out");
    assert_eq!(std::fs::read_to_string(results.join("token")).unwrap(), "hunter2-and-more");
    let model = std::fs::read(results.join("deep/model.bin")).unwrap();
    let id = yard.show("train-s1")["id"].as_str().unwrap().to_owned();
    let made = |node| std::fs::read(ray.disk(node).join(format!("runs/{id}/work/out/deep/model.bin")));
    assert_eq!((1..=2).find_map(|node| made(node).ok()).unwrap(), model);
    let before = ray.bytes();
    let again = yard.run(&["pull", "train-s1", "--to", to]);
    assert_eq!(again.exit, 0, "{again:?}");
    assert!(ray.bytes() - before < 100_000, "nothing is brought twice: {}", ray.bytes() - before);

    // The secret is nowhere where others look.
    let jobs = format!("{:?}", ray.client().jobs().unwrap());
    assert!(!jobs.contains("hunter2"), "{jobs}");

    // Exit status and log of one that fails.
    let failed = yard.run(&["run", "fails", "--on", "r"]);
    assert_eq!(failed.exit, 1, "{failed:?}");
    assert!(failed.stdout.contains("before"), "its log is shown as it runs: {failed:?}");
    assert_eq!(yard.show("fails")["attempts"][0]["exit_code"], 7, "{}", yard.show("fails"));
    assert!(yard.run(&["logs", "fails"]).stdout.contains("before"));

    // Cancelling ends grandchildren on the node.
    yard.run(&["run", "long", "--on", "r", "--detach"]);
    yard.wait_for("long", "running");
    let id = yard.show("long")["id"].as_str().unwrap().to_owned();
    let alive = || trainyard_testkit::processes::with_environment(&format!("YARD_RUN={id}"));
    eventually("grandchildren", || (alive().len() >= 4).then_some(()));
    assert_eq!(yard.run(&["cancel", "long"]).exit, 0);
    yard.wait_for("long", "cancelled");
    assert_eq!(alive(), Vec::<i32>::new());

    // What no node can do is said before anything is sent.
    let refused = yard.run(&["run", "wide", "--on", "r", "--detach"]);
    assert_eq!(refused.exit, 5, "{refused:?}");
    assert!(refused.stdout.contains("it needs 3 GPUs, and the largest node has 1 GPU"), "{refused:?}");
}

/// Ray says no more than that it is pending.
fn what_waits_says_why(ray: &Ray) {
    let yard = yard(ray);
    yard.run(&["run", "holds", "--on", "r", "--detach"]);
    for seed in ["holds-s1", "holds-s2"] {
        yard.wait_for(seed, "running");
    }
    yard.run(&["run", "one", "--on", "r", "--detach"]);
    eventually("a reason", || {
        let shown = yard.show("one");
        assert!(shown["ended"].is_null(), "{shown}");
        shown["note"].as_str().filter(|note| *note == "waits for 1 GPU; 0 of 2 are free").map(drop)
    });
    assert_eq!(yard.run(&["cancel", "one", "holds"]).exit, 0);
    for run in ["one", "holds-s1", "holds-s2"] {
        yard.wait_for(run, "cancelled");
    }
}

/// As Isaac Lab's `--test` does, on each node with what that has.
fn every_node_is_looked_at(ray: &Ray) {
    ray.give(1, "nvidia-smi", "echo 'NVIDIA Pretend 5000, 24576 MiB, 550.1'");
    let yard = yard(ray);
    let checked = yard.run(&["target", "check", "r"]);
    assert_eq!(checked.exit, 0, "{checked:?}");
    let said = format!("{}{}", checked.stdout, checked.stderr);
    let line = |text: &str| said.lines().find(|line| line.contains(text)).unwrap_or_else(|| panic!("{text}: {said}"));
    assert!(line("127.0.0.1:").contains("3 nodes, 2 GPUs"), "{said}");
    assert!(line("(127.0.0.2)").contains("seen: there is no `nvidia-smi`"), "{said}");
    let worker = line("(127.0.0.3)");
    assert!(worker.contains("declared: 4 CPUs, 1 GPU") && worker.contains("NVIDIA Pretend 5000"), "{said}");
}
