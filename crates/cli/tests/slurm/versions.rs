//! The way of a run through every SLURM there is: this machine's, and with `./test --all` two newer generations.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Stdio;

use trainyard_testkit::eventually;
use trainyard_testkit::slurm::{Options, Slurm};

use crate::site::Site;

const JOBS: &str = "\
[jobs.hello]\ncommand = ['sh', '-c', 'echo \"hello $YARD_SEED\"; mkdir -p out; echo \"$YARD_SEED\" > out/seed']\noutputs = ['out']\n
[jobs.gated]\ncommand = ['sh', '-c', 'echo \"up $YARD_ATTEMPT\"; until [ -e \"$HOME/go\" ]; do sleep 0.1; done; echo over']
resume.attempts = 3
[jobs.share]\ncommand = ['sh', '-c', 'echo \"$SLURM_JOB_ID $CUDA_VISIBLE_DEVICES\"; sleep 1']\ngpus = 0.5\n";

#[test]
fn every_generation_of_slurm_will_do() {
    for root in Slurm::roots() {
        match root {
            None => journey(Slurm::shared()),
            Some(root) => of_root(root),
        }
    }
}

fn of_root(root: PathBuf) {
    journey(&Slurm::start(Options { root: Some(root), ..Options::default() }));
}

fn journey(slurm: &Slurm) {
    let version = slurm.version();
    let site = Site::new(slurm, JOBS, "");
    an_array_of_twenty(&site, &version);
    follow_and_requeue(&site, &version);
    halves_share(&site, &version);
    cancel(&site, &version);
}

fn an_array_of_twenty(site: &Site<'_>, version: &str) {
    let ran = site.run(&["run", "hello", "--on", "euler", "--seeds", "1-20"]);
    assert_eq!(ran.exit, 0, "{version}: {ran:?}\n{}", site.slurm.log());
    let arrays: BTreeSet<String> = site.jobs_of("hello").into_iter().map(|row| row.array).collect();
    assert_eq!(arrays.len(), 1, "{version}: {arrays:?}");
    assert_eq!(site.run(&["logs", "hello-s17"]).stdout, "hello 17\n", "{version}");
    let pulled = site.json(&["pull", "hello"]);
    assert_eq!(pulled["pulled"].as_array().map(Vec::len), Some(20), "{version}: {pulled}");
}

fn follow_and_requeue(site: &Site<'_>, version: &str) {
    let ran = site.run(&["run", "gated", "--on", "euler", "--detach"]);
    assert_eq!(ran.exit, 0, "{version}: {ran:?}");
    let out = site.yard.root().join("followed");
    let file = std::fs::File::create(&out).unwrap();
    let mut follower = site.command(&["logs", "-f", "gated"]).stdout(file).stderr(Stdio::null()).spawn().unwrap();
    let said = || std::fs::read_to_string(&out).unwrap();
    eventually("the first attempt", || said().contains("up 1\n").then_some(()));
    site.slurm.ask(&["scontrol", "requeue", &site.live_jobs()[0].id]);
    eventually("the second attempt", || said().contains("up 2\n").then_some(()));
    std::fs::write(site.login.home().join("go"), "").unwrap();
    assert!(follower.wait().unwrap().success(), "{version}");
    std::fs::remove_file(site.login.home().join("go")).unwrap();
    let shown = site.wait_for("gated", "succeeded");
    let said = said();
    assert!(said.contains("up 1\n") && said.ends_with("up 2\nover\n"), "{version}: {said}");
    assert_eq!(shown["attempts"].as_array().map(Vec::len), Some(2), "{version}: {shown}");
    // SLURM has it as one job all the way.
    assert_eq!(site.jobs_of("gated").len(), 1, "{version}");
    let what: Vec<String> = shown["events"].as_array().unwrap().iter().map(|event| event["what"].to_string()).collect();
    assert!(what.windows(2).all(|pair| pair[0] != pair[1]), "nothing is told twice: {what:?}");
}

fn halves_share(site: &Site<'_>, version: &str) {
    let ran = site.run(&["run", "share", "--on", "euler", "--seeds", "1,2"]);
    assert_eq!(ran.exit, 0, "{version}: {ran:?}");
    let places = ["share-s1", "share-s2"].map(|run| site.run(&["logs", run]).stdout);
    assert_eq!(places[0], places[1], "{version}: one allocation, one GPU");
}

fn cancel(site: &Site<'_>, version: &str) {
    let ran = site.run(&["run", "gated", "--on", "euler", "--detach"]);
    assert_eq!(ran.exit, 0, "{version}: {ran:?}");
    site.wait_for("gated", "running");
    assert_eq!(site.run(&["cancel", "gated"]).exit, 0, "{version}");
    site.wait_for("gated", "cancelled");
    eventually("SLURM to be done with it", || site.live_jobs().is_empty().then_some(()));
}
