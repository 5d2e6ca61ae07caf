//! What runs say and make, from far away: the laptop cannot see the cluster's disk, all of it comes over the pipe.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use trainyard_testkit::slurm::Slurm;
use trainyard_testkit::{Login, Yard, eventually, processes};

use crate::site::Site;

/// Steps that a test lets happen one after another, by files on the cluster.
fn gate(site: &Site<'_>, name: &str) {
    std::fs::write(site.login.home().join(name), "").unwrap();
}

fn waiting_job(site_home: &str) -> String {
    format!(
        "[jobs.train]\ncommand = ['sh', '-c', '''
mkdir -p out; echo first; head -c 300000 /dev/zero > out/data; echo one > out/kept; ln -s kept out/link
until [ -e {site_home}/go ]; do sleep 0.05; done
rm out/kept; echo second; echo two >> out/data; printf end''']\noutputs = ['out', 'code.txt']\n"
    )
}

#[test]
fn logs_are_followed_live_over_a_connection_that_breaks() {
    let slurm = Slurm::shared();
    let mut site = Site::new(slurm, "", "");
    let home = site.login.home().display().to_string();
    site.add_jobs(&waiting_job(&home));
    site.write("code.txt", "shipped\n");
    let ran = site.run(&["run", "train", "--on", "euler", "--detach"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    let out = site.yard.root().join("followed");
    let file = std::fs::File::create(&out).unwrap();
    let mut follower =
        site.command(&["logs", "-f", "train"]).stdout(file).stderr(Stdio::piped()).spawn().expect("yard");
    let said = || std::fs::read_to_string(&out).unwrap();
    eventually("the first line", || said().contains("first\n").then_some(()));
    assert!(site.show("train")["ended"].is_null(), "it is read while it runs");
    site.login.cut();
    gate(&site, "go");
    assert!(follower.wait().unwrap().success());
    assert_eq!(said(), "first\nsecond\nend", "nothing twice, nothing lost");
    assert_eq!(site.run(&["logs", "train", "-n", "2"]).stdout, "second\nend");
    assert_eq!(site.run(&["logs", "train", "--attempt", "2"]).stdout, "");
    assert_eq!(site.run(&["logs", "train", "--since", "1h"]).stdout, "first\nsecond\nend");
    assert_eq!(site.run(&["logs", "train", "--since", "0s", "-n", "9"]).stdout, "");
}

#[test]
fn results_come_home_while_it_runs_and_when_it_has_ended() {
    let slurm = Slurm::shared();
    let mut site = Site::new(slurm, "", "");
    let home = site.login.home().display().to_string();
    site.add_jobs(&waiting_job(&home));
    site.write("code.txt", "shipped\n");
    assert_eq!(site.run(&["run", "train", "--on", "euler", "--detach"]).exit, 0);
    let to = site.yard.root().join("home-again");
    let pull = ["pull", "train", "--to", to.to_str().unwrap()];
    let folder = eventually("results of a run at work", || {
        let pulled = site.run(&pull);
        assert!(pulled.exit <= 1, "{pulled:?}");
        let folder = std::fs::read_dir(&to).ok()?.next()?.ok()?.path();
        folder.join("out/link").symlink_metadata().is_ok().then_some(folder)
    });
    assert_eq!(std::fs::read_to_string(folder.join("out/kept")).unwrap(), "one\n");
    assert_eq!(std::fs::read_to_string(folder.join("code.txt")).unwrap(), "shipped\n");
    let before = site.login.bytes();
    let mut watching = site.command(&[&pull[..], &["--watch"]].concat()).stdout(Stdio::piped()).spawn().unwrap();
    gate(&site, "go");
    assert!(watching.wait().unwrap().success());
    let data = std::fs::read(folder.join("out/data")).unwrap();
    assert_eq!((data.len(), &data[300_000..]), (300_004, &b"two\n"[..]), "the end came");
    assert!(site.login.bytes() - before < 150_000, "only what is new was sent");
    let json = site.json(&[&pull[..], &["--watch"]].concat());
    assert_eq!(json["pulled"][0]["files"], 0, "{json}");
    assert_eq!(json["pulled"][0]["unchanged"], 2, "{json}");
}

#[test]
fn what_the_program_removed_does_not_come_home() {
    // A snapshot of this size lies under the working folder, where the site allows it.
    let mut site = Site::new(Slurm::shared(), "", "");
    for number in 0..600 {
        site.write(&format!("data/{number}"), "x");
    }
    site.add_jobs("[jobs.drop]\ncommand = ['sh', '-c', 'rm data/7 && echo new > data/8 && echo 9 > data/new']\noutputs = ['data']\n");
    let ran = site.run(&["run", "drop", "--on", "euler"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    let json = site.json(&["pull", "drop"]);
    assert_eq!(json["pulled"][0]["files"], 600, "{json}");
    let folder = PathBuf::from(json["pulled"][0]["to"].as_str().unwrap()).join("data");
    assert!(folder.join("7").symlink_metadata().is_err());
    assert_eq!(std::fs::read_to_string(folder.join("8")).unwrap(), "new\n");
    assert_eq!(std::fs::read_to_string(folder.join("new")).unwrap(), "9\n");
}

/// What stands for `ssh` and counts what it is called for.
fn counting(yard: &mut Yard, ssh: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let (program, calls) = (yard.root().join("ssh"), yard.root().join("calls"));
    let script = format!("#!/bin/sh\nfor last; do :; done\necho \"$last\" >> {}\nexec {ssh} \"$@\"\n", calls.display());
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    yard.set("YARD_SSH", &program.display().to_string());
    calls
}

#[test]
fn many_runs_of_a_site_share_a_connection_and_go_on_across_attempts() {
    let login = Login::start(None);
    let depot = login.home().join("depot");
    let file = format!(
        "[jobs.train]\ncommand = ['sh', '-c', 'echo \"$YARD_SEED in $YARD_ATTEMPT\"; mkdir -p out; echo 1 > out/step-$YARD_ATTEMPT; \
         [ $YARD_ATTEMPT -ge 3 ] || sleep 30']\nseeds = [1, 2]\noutputs = ['out']\ntime = '1s'\n\
         [jobs.train.resume]\nattempts = 3\ncheckpoint = 'out/step-*'\n\
         [targets.box]\nkind = 'ssh'\nhost = '{}'\ndepot = '{}'\ncpus = 2\n",
        login.host(),
        depot.display()
    );
    let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), &file);
    yard.set("YARD_PACE", "300");
    yard.hide(login.home());
    let calls = counting(&mut yard, &login.ssh_command());
    let ran = yard.run(&["run", "train", "--on", "box", "--detach"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    let serving = || std::fs::read_to_string(&calls).unwrap().lines().filter(|call| call.contains("serve")).count();
    let before = serving();
    let followed = yard.run(&["logs", "-f", "train"]);
    assert_eq!(followed.exit, 0, "{followed:?}");
    assert_eq!(yard.show("train-s1")["state"], "succeeded", "{}", yard.show("train-s1"));
    let mut lines: Vec<&str> = followed.stdout.lines().collect();
    let first: Vec<&&str> = lines.iter().filter(|line| line.starts_with("train-s1")).collect();
    assert_eq!(first, [&"train-s1 | 1 in 1", &"train-s1 | 1 in 2", &"train-s1 | 1 in 3"], "in order, nothing twice");
    lines.sort_unstable();
    assert_eq!(lines.len(), 6, "{followed:?}");
    assert_eq!(serving() - before, 1, "one connection for all");
    assert_eq!(yard.run(&["logs", "train-s2", "--attempt", "2"]).stdout, "2 in 2\n");
    assert_eq!(yard.run(&["logs", "train-s2", "-n", "2"]).stdout, "2 in 2\n2 in 3\n");
}

#[test]
fn a_network_that_falls_silent_holds_up_nobody() {
    let mut site = Site::new(Slurm::shared(), "", "");
    site.add_jobs("[jobs.train]\ncommand = ['sh', '-c', 'echo begun; sleep 600']\n");
    assert_eq!(site.run(&["run", "train", "--on", "euler", "--detach"]).exit, 0);
    let out = site.yard.root().join("followed");
    let file = std::fs::File::create(&out).unwrap();
    let mut follower = site.command(&["logs", "-f", "train"]).stdout(file).spawn().unwrap();
    eventually("the first line", || std::fs::read_to_string(&out).unwrap().contains("begun\n").then_some(()));
    site.login.freeze();
    let frozen = Instant::now();
    eventually("a look that nobody answers", || (frozen.elapsed() > Duration::from_millis(600)).then_some(()));
    let began = Instant::now();
    processes::interrupt(follower.id());
    assert_eq!(follower.wait().unwrap().code(), Some(130));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    site.login.thaw();
    assert_eq!(site.run(&["cancel", "train"]).exit, 0);
}
