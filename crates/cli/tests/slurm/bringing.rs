//! What runs say and make, from far away: the laptop cannot see the cluster's disk, all of it comes over the pipe.

use std::process::Stdio;

use trainyard_testkit::eventually;
use trainyard_testkit::slurm::Slurm;

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
    assert_eq!(site.show("train")["state"], "running", "it is read while it runs");
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
    let folder = std::path::PathBuf::from(json["pulled"][0]["to"].as_str().unwrap()).join("data");
    assert!(folder.join("7").symlink_metadata().is_err());
    assert_eq!(std::fs::read_to_string(folder.join("8")).unwrap(), "new\n");
    assert_eq!(std::fs::read_to_string(folder.join("new")).unwrap(), "9\n");
}
