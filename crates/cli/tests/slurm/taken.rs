//! Machines that die, and machines that are taken away.

use std::time::Duration;

use trainyard_testkit::slurm::{Options, Slurm};
use trainyard_testkit::{eventually, within};

use crate::site::Site;

/// Counts to 20 in fifths of a second and goes on where it was; ten times slower without a checkpoint.
const STEPS: &str = r#"
import os, sys, time, pathlib
start = int(pathlib.Path(sys.argv[1]).name) if len(sys.argv) > 1 else 0
os.makedirs('ck', exist_ok=True)
print('from', start, os.environ['SLURMD_NODENAME'], flush=True)
for n in range(start + 1, 31):
    time.sleep(0.05 if start else 0.5)
    pathlib.Path(f'ck/.{n}').write_text('x')
    os.rename(f'ck/.{n}', f'ck/{n}')
"#;

const JOB: &str = "[jobs.steps]\ncommand = ['python3', 'steps.py']\noutputs = ['ck/']\n\
                   [jobs.steps.resume]\nattempts = 3\ncheckpoint = 'ck/*'\nargs = ['{checkpoint}']\n";

fn started(slurm: &Slurm) -> Site<'_> {
    let site = Site::new(slurm, JOB, "");
    site.write("steps.py", STEPS);
    let ran = site.run(&["run", "steps", "--on", "euler", "--detach"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    site.wait_for("steps", "running");
    eventually("some checkpoints", || (checkpoints(&site) > 4).then_some(()));
    site
}

/// Whole ones in the working folder of the only run.
fn checkpoints(site: &Site<'_>) -> usize {
    let runs = std::fs::read_dir(site.login.home().join("depot/runs")).into_iter().flatten().flatten();
    let ck = runs.filter_map(|run| std::fs::read_dir(run.path().join("work/ck")).ok()).flatten().flatten();
    ck.filter(|file| !file.file_name().to_string_lossy().starts_with('.')).count()
}

fn resumed(site: &Site<'_>) {
    within(Duration::from_secs(150), "it to succeed", || {
        let shown = site.show("steps");
        assert_ne!(shown["state"], "failed", "{shown}\n{}", site.slurm.log());
        (shown["state"] == "succeeded").then_some(())
    });
    let shown = site.show("steps");
    let attempts = shown["attempts"].as_array().expect("attempts");
    assert_eq!(attempts.len(), 2, "{shown}");
    assert!(!attempts[1]["resumed_from"].is_null(), "{shown}");
}

#[test]
fn a_run_whose_node_dies_goes_on_elsewhere() {
    let slurm = Slurm::start(Options::default());
    let site = started(&slurm);
    let node = site.live_jobs().first().map(|row| row.nodes.clone()).expect("a node");
    slurm.kill_node(&node);
    slurm.declare_down(&node);
    resumed(&site);
}

#[test]
fn a_preempted_run_goes_on_later() {
    let slurm = Slurm::start(Options::default());
    let site = started(&slurm);
    let names = slurm.node_names();
    let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
    let other = slurm.preempt(&nodes);
    eventually("it to be sent away", || (site.show("steps")["state"] != "running").then_some(()));
    slurm.run(&["scancel", &other]);
    resumed(&site);
    assert_eq!(site.show("steps")["attempts"][0]["outcome"], "preempted");
}

/// SLURM tells every process at the same time, and ours need not be the first to hear it.
#[test]
fn a_program_that_fell_before_its_agent_heard_why_was_sent_away() {
    let job = "[jobs.fallen]\ncommand = ['sh', '-c', '''
[ $YARD_ATTEMPT = 1 ] || exit 0
setsid sh -c 'trap \"\" TERM; touch \"$HOME/left\"; sleep 60' & until [ -e \"$HOME/left\" ]; do sleep 0.1; done
kill -TERM $$''']\ngrace = '60s'\nresume.attempts = 3\n";
    let site = Site::new(Slurm::shared(), job, "resume-by = 'requeue'\n");
    let ran = site.run(&["run", "fallen", "--on", "euler", "--detach"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    eventually("the program to leave something behind", || site.login.home().join("left").exists().then_some(()));
    let id = site.live_jobs()[0].id.clone();
    site.slurm.ask(&["scontrol", "requeue", &id]);
    site.wait_for("fallen", "succeeded");
    assert_eq!(site.show("fallen")["attempts"][0]["outcome"], "preempted");
}
