//! Jobs that ended while nobody looked, and that SLURM's controller has forgotten: what the books tell, where a site keeps
//! any, and what follows where it does not.

use trainyard_testkit::slurm::{Options, Slurm};
use trainyard_testkit::{eventually, processes};

use crate::site::Site;

const JOB: &str = "[jobs.gated]\ncommand = ['sh', '-c', 'mkdir -p ck; echo x > ck/1; touch \"$HOME/began-$YARD_SEED-$YARD_ATTEMPT\"; \
                   until [ -e \"$HOME/go\" ]; do sleep 0.1; done']\noutputs = ['ck/']\n\
                   [jobs.gated.resume]\nattempts = 3\ncheckpoint = 'ck/*'\n\
                   [jobs.once]\ncommand = ['sleep', '980']\n";

fn forgetful(accounting: bool) -> Slurm {
    Slurm::start(Options { accounting, extra: vec!["MinJobAge=2".to_owned()], ..Options::default() })
}

fn began(site: &Site<'_>, seed: u32, attempt: u32) {
    let mark = site.login.home().join(format!("began-{seed}-{attempt}"));
    eventually(&format!("attempt {attempt} of seed {seed}"), || mark.exists().then_some(()));
}

/// The laptop is switched off while this happens, and until SLURM's queue knows nothing of it any more.
fn while_nobody_looks(site: &Site<'_>, happens: impl FnOnce()) {
    site.processes().into_iter().for_each(processes::kill);
    happens();
    eventually("SLURM to forget it", || site.jobs().is_empty().then_some(()));
    assert_eq!(site.yardmasters(), Vec::<i32>::new(), "nobody looked");
}

fn started(slurm: &Slurm) -> (Site<'_>, String) {
    let site = Site::new(slurm, JOB, "resume-by = 'requeue'\n");
    let ran = site.run(&["run", "gated", "--on", "euler", "--seeds", "7", "--detach"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    began(&site, 7, 1);
    let id = site.live_jobs()[0].id.clone();
    (site, id)
}

/// A node that dies with a job that SLURM will not start again.
fn resumed_after_a_dead_node(slurm: &Slurm) {
    let (site, id) = started(slurm);
    let node = site.live_jobs()[0].nodes.clone();
    while_nobody_looks(&site, || {
        slurm.ask(&["scontrol", "update", &format!("JobId={id}"), "Requeue=0"]);
        slurm.kill_node(&node);
        slurm.declare_down(&node);
    });
    assert_ne!(site.show("gated-s7")["state"], "failed");
    began(&site, 7, 2);
    std::fs::write(site.login.home().join("go"), "").unwrap();
    site.wait_for("gated-s7", "succeeded");
    let shown = site.show("gated-s7");
    assert_eq!(shown["attempts"].as_array().map(Vec::len), Some(2), "{shown}");
    slurm.start_node(&node);
    slurm.wait_idle();
}

#[test]
fn the_books_tell_a_cancelled_job_from_a_dead_node() {
    let slurm = forgetful(true);
    let (site, id) = started(&slurm);
    while_nobody_looks(&site, || drop(slurm.ask(&["scancel", &id])));
    let shown = site.wait_for("gated-s7", "cancelled");
    assert_eq!(shown["attempts"].as_array().map(Vec::len), Some(1), "{shown}");
    resumed_after_a_dead_node(&slurm);
}

#[test]
fn without_books_what_was_interrupted_goes_on() {
    let slurm = forgetful(false);
    resumed_after_a_dead_node(&slurm);
}

#[test]
fn one_task_of_an_array_is_cancelled_by_hand() {
    let site = Site::new(Slurm::shared(), JOB, "");
    let ran = site.run(&["run", "gated", "--on", "euler", "--seeds", "1-3", "--detach"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    (1..=3).for_each(|seed| began(&site, seed, 1));
    let task = site.live_jobs().into_iter().find(|row| row.task == Some(1)).expect("three tasks");
    site.slurm.ask(&["scancel", &format!("{}_1", task.array)]);
    let shown = site.wait_for("gated-s2", "cancelled");
    assert_eq!(shown["attempts"].as_array().map(Vec::len), Some(1), "{shown}");
    // One that the yardmaster has not looked at since it began may still be waiting in its books.
    for other in ["gated-s1", "gated-s3"] {
        site.wait_for(other, "running");
    }
    std::fs::write(site.login.home().join("go"), "").unwrap();
    for other in ["gated-s1", "gated-s3"] {
        site.wait_for(other, "succeeded");
    }
}

#[test]
fn a_job_without_another_attempt_is_cancelled_by_hand() {
    let site = Site::new(Slurm::shared(), JOB, "");
    let ran = site.run(&["run", "once", "--on", "euler", "--detach"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    site.wait_for("once", "running");
    site.slurm.ask(&["scancel", &site.live_jobs()[0].id]);
    let ended = eventually("its end", || Some(site.show("once")).filter(|shown| !shown["ended"].is_null()));
    assert_eq!(ended["state"], "cancelled", "{ended}");
}
