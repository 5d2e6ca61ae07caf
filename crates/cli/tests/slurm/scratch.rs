//! Runs that work on a node's own disk.

use std::path::{Path, PathBuf};
use std::time::Duration;

use trainyard_testkit::slurm::{Options, Slurm};
use trainyard_testkit::{eventually, within};

use crate::site::Site;

/// A site with a disk for its nodes.
fn site<'a>(slurm: &'a Slurm, job: &str) -> (Site<'a>, PathBuf) {
    let mut site = Site::new(slurm, "", "");
    let disk = site.login.home().join("disk");
    let made = site.login.ssh(site.login.direct_host(), "mkdir disk");
    assert_eq!(made.exit, 0, "{made:?}");
    site.rewrite(&format!("[jobs.train]\n{job}\n"), "scratch = '$DISK'\nsetup = ['export DISK=~/disk']\n");
    (site, disk)
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn results_come_back_and_the_scratch_is_removed() {
    let (site, disk) = site(
        Slurm::shared(),
        "command = ['sh', '-c', 'pwd; cat code.txt; mkdir -p out/deep; echo r > out/deep/result; echo x > other']\n\
         outputs = ['out']",
    );
    site.write("code.txt", "from the project\n");
    let ran = site.run(&["run", "train", "--on", "euler"]);
    assert_eq!(ran.exit, 0, "{ran:?}\n{}", site.slurm.log());
    assert!(ran.stdout.contains(&format!("{}/yard-", disk.display())), "{ran:?}");
    assert!(ran.stdout.contains("from the project"), "{ran:?}");
    let work = PathBuf::from(site.show("train")["folder"].as_str().unwrap());
    assert_eq!(std::fs::read_to_string(work.join("out/deep/result")).unwrap(), "r\n");
    assert!(!work.join("other").exists() && !work.join("code.txt").exists(), "only results");
    assert!(is_empty(&disk));
}

#[test]
fn the_next_attempt_finds_what_the_depot_has() {
    let (site, disk) = site(
        Slurm::shared(),
        "command = ['sh', '-c', 'if [ -z \"$YARD_CHECKPOINT\" ]; then mkdir out; echo one > out/model_1.pt; exit 1; fi; \
         cat \"$YARD_CHECKPOINT\" code.txt']\noutputs = ['out']\n\
         [jobs.train.resume]\nattempts = 2\non = ['failed']\ncheckpoint = 'out/model_*.pt'",
    );
    site.write("code.txt", "from the project\n");
    let ran = site.run(&["run", "train", "--on", "euler"]);
    assert_eq!(ran.exit, 0, "{ran:?}\n{}", site.slurm.log());
    assert!(ran.stdout.contains("one\nfrom the project\n"), "{ran:?}");
    assert!(is_empty(&disk));
}

#[test]
fn promised_outputs_that_are_not_there_and_a_disk_that_is_not_there_are_told() {
    let (mut site, _) = site(Slurm::shared(), "command = ['true']\noutputs = ['out']");
    let ran = site.run(&["run", "train", "--on", "euler"]);
    assert_eq!(ran.exit, 1, "{ran:?}");
    assert!(site.show("train")["reason"].as_str().unwrap().contains("out"), "{:#}", site.show("train"));
    for (place, why) in [("/no/such/disk", "/no/such/disk"), ("$NOPE/x", "NOPE, which is not set")] {
        site.rewrite("[jobs.other]\ncommand = ['true']\n", &format!("scratch = '{place}'\n"));
        let ran = site.run(&["run", "other", "--on", "euler", "--name", "odd"]);
        assert_eq!(ran.exit, 1, "{ran:?}");
        let runs = site.runs();
        let reasons: String = runs.iter().map(|run| run["reason"].to_string()).collect();
        assert!(reasons.contains(why) && reasons.contains("scratch"), "{reasons}");
    }
}

#[test]
fn what_is_saved_at_the_warning_comes_back_at_once() {
    let (site, disk) = site(
        Slurm::shared(),
        "command = ['sh', '-c', 'trap \"mkdir -p out; echo saved > out/model_1.pt\" USR2; echo up; while true; do sleep 0.2; done']\n\
         outputs = ['out']\ntime = '4m'\ngrace = '1s'\n\
         [jobs.train.resume]\nattempts = 1\ncheckpoint = 'out/model_*.pt'\nwarn = { signal = 'USR2', before = '215s' }",
    );
    assert_eq!(site.run(&["run", "train", "--on", "euler", "--detach"]).exit, 0);
    let work = PathBuf::from(eventually("a folder", || site.show("train")["folder"].as_str().map(str::to_owned)));
    let saved = eventually("the checkpoint", || std::fs::read_to_string(work.join("out/model_1.pt")).ok());
    assert_eq!(saved, "saved\n");
    assert_eq!(site.show("train")["state"], "running");
    assert_eq!(site.run(&["cancel", "train"]).exit, 0);
    site.wait_for("train", "cancelled");
    assert!(work.join("out/model_1.pt").exists());
    eventually("an empty scratch", || is_empty(&disk).then_some(()));
}

/// Writes large checkpoints over and over, each of them all of one letter, with hardly a pause to bring one back.
const WRITER: &str = r#"
import os, sys, time
turn = 0
if os.environ["YARD_CHECKPOINT"]:
    data = open(os.environ["YARD_CHECKPOINT"]).read()
    assert len(data) == 30_000_000 and set(data) == {data[0]}, "torn"
    print("whole", flush=True)
    sys.exit(0)
while True:
    turn += 1
    name = f"out/model_{turn % 3}.pt"
    os.makedirs("out", exist_ok=True)
    with open(name, "w") as file:
        for _ in range(300):
            file.write(chr(97 + turn % 26) * 100_000)
            time.sleep(0.002)
    time.sleep(1.2)
"#;

#[test]
fn a_node_that_dies_leaves_nothing_torn() {
    let slurm = Slurm::start(Options { nodes: 2, ..Options::default() });
    let (site, _) = site(
        &slurm,
        "command = ['python3', 'writer.py']\noutputs = ['out']\n\
         [jobs.train.resume]\nattempts = 3\non = ['node-failure']\ncheckpoint = 'out/model_*.pt'",
    );
    site.write("writer.py", WRITER);
    assert_eq!(site.run(&["run", "train", "--on", "euler", "--detach"]).exit, 0);
    let work = PathBuf::from(eventually("a folder", || site.show("train")["folder"].as_str().map(str::to_owned)));
    let whole = |name: &str| {
        let data = std::fs::read(work.join("out").join(name)).ok()?;
        assert!(data.len() == 30_000_000 && data.iter().all(|byte| *byte == data[0]), "{name} is torn");
        Some(())
    };
    let names = ["model_0.pt", "model_1.pt", "model_2.pt"];
    within(Duration::from_secs(200), "a checkpoint in the depot", || names.iter().find_map(|name| whole(name)));
    let node = slurm.jobs().into_iter().find(|row| row.state == "RUNNING").expect("a running job").nodes;
    slurm.kill_node(&node);
    slurm.declare_down(&node);
    for name in names {
        whole(name);
    }
    let shown = within(Duration::from_secs(150), "the run to end", || {
        Some(site.show("train")).filter(|shown| shown["ended"].is_string())
    });
    assert_eq!(shown["state"], "succeeded", "{shown:#}\n{}", slurm.log());
    assert!(site.run(&["logs", "train"]).stdout.contains("whole"));
}
