//! Sweeps whose controller is on the cluster: they outlive the laptop, and are read and commanded from any other.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use trainyard_core::plan::ray::JobStatus;
use trainyard_testkit::processes::{kill, mentioning, with_environment};
use trainyard_testkit::ray::Ray;
use trainyard_testkit::{Yard, within};

use crate::clusters::{self, TOKEN};

const PATIENCE: Duration = Duration::from_secs(300);
const SECRET: &str = "hunter2-and-more";

const FILE: &str = r#"
[project]
name = "p"
[jobs.train]
command = ["sh", "-c", "n=0; while [ $n -lt 3 ]; do n=$((n+1)); echo step $n reward 0.$n; sleep 1; done; mkdir -p out; printf '%s' \"$TOKEN\" > out/token"]
outputs = ["out/"]
[jobs.train.env]
TOKEN = { env = "SECRET_TOKEN" }
[jobs.train.metrics]
stdout = 'step (?<step>\d+) reward (?<reward>\S+)'
[jobs.long]
command = ["sh", "-c", "echo step 1 reward 1; sleep 4021"]
grace = "1s"
[jobs.long.metrics]
stdout = 'step (?<step>\d+) reward (?<reward>\S+)'
[sweeps.tune]
job = "train"
metric = "reward"
goal = "maximize"
sampler = "random"
repeats = 1
trials = 6
parallel = 2
[sweeps.tune.space]
x = { uniform = [0.0, 1.0] }
[sweeps.endless]
job = "long"
metric = "reward"
goal = "maximize"
sampler = "random"
repeats = 1
trials = 2
parallel = 2
[sweeps.endless.space]
x = { uniform = [0.0, 1.0] }
"#;

fn laptop(ray: &Ray) -> Yard {
    let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), &format!("{FILE}\n{}", ray.target("r")));
    yard.set("YARD_PACE", "300");
    yard
}

fn shown(yard: &Yard, sweep: &str) -> Value {
    yard.json(&["sweep", "show", sweep, "--at", "r"])
}

#[derive(PartialEq)]
enum Head {
    Stays,
    IsKilled,
}

fn until(yard: &Yard, sweep: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    within(PATIENCE, &format!("{sweep}: {what}"), || Some(shown(yard, sweep)).filter(|shown| is_so(shown)))
}

/// The yardmaster that the cluster itself runs.
fn yardmasters(ray: &Ray) -> Vec<i32> {
    with_environment(&format!("YARD_HOME={}/controller", ray.depot().display()))
}

/// The job that keeps it going.
fn keepers(ray: &Ray) -> Vec<i32> {
    let (here, all) = (mentioning(&ray.depot().to_string_lossy()), mentioning("controller"));
    let keeping = mentioning("keep");
    here.into_iter().filter(|pid| all.contains(pid) && keeping.contains(pid)).collect()
}

fn trials(ray: &Ray) -> BTreeSet<String> {
    let jobs = ray.client().jobs().unwrap().into_iter();
    jobs.map(|job| job.id).filter(|id| id.starts_with("train.")).collect()
}

fn survives(ray: &mut Ray, token: Option<&str>, head: Head) {
    let client = ray.client();
    let before = trials(ray);

    // Begun on a laptop that is then thrown away, with everything that yard had there.
    let mut first = laptop(ray);
    first.set("SECRET_TOKEN", SECRET);
    let begun = first.run(&["sweep", "tune", "--on", "r", "--detach-controller", "--detach"]);
    assert_eq!(begun.exit, 0, "{begun:?}");
    assert!(begun.stdout.contains("--at r"), "{begun:?}");
    first.processes().into_iter().for_each(kill);
    std::fs::remove_dir_all(first.home()).unwrap();
    drop(first);

    // Another, which has nothing but the project's file.
    let mut second = laptop(ray);
    let going = until(&second, "tune", "two trials run", |shown| shown["runs"]["running"] == 2);
    assert_eq!(going["state"], "going", "{going}");
    assert_eq!(second.json(&["sweep", "ls", "--at", "r"])["sweeps"][0]["name"], "tune");
    let nothing = second.run(&["sweep", "show", "tune"]);
    assert_eq!(nothing.exit, 2, "it is not in the ledger here: {nothing:?}");
    assert!(nothing.stderr.contains("--at"), "{nothing:?}");

    // The yardmaster there is killed, and followed by another without anybody's help.
    let killed = within(PATIENCE, "a yardmaster on the cluster", || yardmasters(ray).first().copied());
    kill(killed);
    within(PATIENCE, "another yardmaster", || yardmasters(ray).into_iter().find(|pid| *pid != killed));

    // Nothing begins while it is paused.
    let paused = second.run(&["sweep", "pause", "tune", "--at", "r"]);
    assert_eq!(paused.exit, 0, "{paused:?}");
    let paused = until(&second, "tune", "a pause", |shown| shown["runs"]["running"] == 0);
    assert_eq!(paused["state"], "paused", "{paused}");
    let ended = paused["runs"]["ended"].as_u64().unwrap();
    assert!((2..6).contains(&ended), "{paused}");

    // The whole controller is killed. A command starts it again, and as that machine does not have the secrets, what is new
    // waits for one that has.
    keepers(ray).into_iter().chain(yardmasters(ray)).for_each(kill);
    within(PATIENCE, "the end of the controller", || {
        let jobs = client.jobs().ok()?;
        let mut controllers = jobs.iter().filter(|job| job.id.starts_with("yard-controller"));
        controllers.all(|job| job.status.has_ended()).then_some(())
    });
    let resumed = second.run(&["sweep", "resume", "tune", "--at", "r"]);
    assert_eq!(resumed.exit, 0, "{resumed:?}");
    within(PATIENCE, "runs to wait for their secrets", || {
        let listed = second.json(&["ps", "--at", "r", "--state", "queued"]);
        let runs = listed["runs"].as_array()?.clone();
        runs.iter().any(|run| run["note"].as_str().is_some_and(|note| note.contains("secrets"))).then_some(())
    });
    second.set("SECRET_TOKEN", SECRET);
    let extended = second.run(&["sweep", "extend", "tune", "--trials", "+2", "--at", "r"]);
    assert_eq!(extended.exit, 0, "{extended:?}");
    let done = until(&second, "tune", "its end", |shown| shown["state"] == "done");
    assert_eq!(done["runs"]["ended"], 8, "{done}");

    // Every trial was executed once, by one Ray job.
    let after = trials(ray);
    assert_eq!(after.difference(&before).count(), 8, "{after:?}");
    for trial in 0..8 {
        let run = second.json(&["show", &format!("tune-{trial}"), "--at", "r"]);
        assert_eq!(
            (run["state"].as_str(), run["attempts"].as_array().map(Vec::len)),
            (Some("succeeded"), Some(1)),
            "{run}"
        );
    }

    // What it found, said and made comes to any machine.
    let best = second.json(&["sweep", "best", "tune", "--at", "r"]);
    assert!(best["params"]["x"].is_number(), "{best}");
    assert!(second.run(&["logs", "tune-0", "--at", "r"]).stdout.contains("step 3 reward 0.3"));
    let pulled = second.run(&["pull", "tune-5", "--at", "r"]);
    assert_eq!(pulled.exit, 0, "{pulled:?}");
    let results = std::fs::read_dir(second.project().join("yard-results")).unwrap().flatten().next().unwrap().path();
    assert_eq!(std::fs::read_to_string(results.join("out/token")).unwrap(), SECRET);

    // Ended by hand, with everything its runs started.
    let begun = second.run(&["sweep", "endless", "--on", "r", "--detach-controller", "--detach"]);
    assert_eq!(begun.exit, 0, "{begun:?}");
    until(&second, "endless", "two trials run", |shown| shown["runs"]["running"] == 2);
    if head == Head::IsKilled {
        // Ray has forgotten everything. The controller is started by whoever looks, and begins lost trials again.
        ray.kill_head();
        ray.resume();
        within(PATIENCE, "trials of a sweep that was taken up", || {
            shown(&second, "endless");
            let jobs = client.jobs().ok()?;
            let running = jobs.iter().filter(|job| job.id.starts_with("long.") && job.status == JobStatus::Running);
            (running.count() == 2).then_some(())
        });
    }
    let alive = |runs: &[String]| -> Vec<i32> {
        runs.iter().flat_map(|id| with_environment(&format!("YARD_RUN={id}"))).collect()
    };
    // A run that the sweep has begun may not have been heard of as running yet.
    let runs = within(PATIENCE, "their programs", || {
        let listed = second.json(&["ps", "--at", "r", "--job", "long", "--state", "running"]);
        let ids = listed["runs"].as_array()?.iter().filter_map(|run| Some(run["id"].as_str()?.to_owned()));
        let runs: Vec<String> = ids.collect();
        (runs.len() == 2 && alive(&runs).len() >= 2).then_some(runs)
    });
    let stopped = second.run(&["sweep", "stop", "endless", "--at", "r"]);
    assert_eq!(stopped.exit, 0, "{stopped:?}");
    let stopped = until(&second, "endless", "its end", |shown| shown["runs"]["running"] == 0);
    assert_eq!(stopped["state"], "stopped", "{stopped}");
    assert_eq!(alive(&runs), Vec::<i32>::new());

    // With nothing left to do nothing of it runs, and neither secret was ever where others look.
    within(PATIENCE, "the controller to leave", || {
        (keepers(ray).is_empty() && yardmasters(ray).is_empty()).then_some(())
    });
    let mut seen = format!("{:?}", client.jobs().unwrap());
    for node in 0..=1 {
        seen.push_str(&ray.logs(node));
    }
    assert!(seen.contains("yard-controller"), "the logs of Ray are there");
    for secret in token.into_iter().chain([SECRET]) {
        assert!(!seen.contains(secret), "{secret} can be seen");
        assert_eq!(mentioning(secret), Vec::<i32>::new());
    }
}

#[test]
fn a_sweep_outlives_the_laptop_on_the_newest_ray() {
    survives(&mut clusters::newest(), Some(TOKEN), Head::IsKilled);
}

#[test]
fn a_sweep_outlives_the_laptop_on_the_ray_of_isaac_lab() {
    survives(&mut clusters::of_isaac_lab(), None, Head::Stays);
}
