//! Giving space back at a site that others use too, and running again what is there.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use trainyard_testkit::Yard;
use trainyard_testkit::slurm::Slurm;

use crate::site::Site;

/// As if all of this had been left alone for two hours.
fn age(folder: &Path) {
    let aged = Command::new("find").arg(folder).args(["-exec", "touch", "-h", "-d", "2 hours ago", "{}", "+"]).status();
    assert!(aged.unwrap().success());
}

fn count(folder: &Path) -> usize {
    std::fs::read_dir(folder).into_iter().flatten().flatten().count()
}

fn blobs(depot: &Path) -> usize {
    let folders = std::fs::read_dir(depot.join("blobs")).into_iter().flatten().flatten();
    folders.map(|folder| count(&folder.path())).sum()
}

/// Another laptop of the same researcher, with the same cluster.
fn other_laptop(site: &Site<'_>) -> Yard {
    let file = std::fs::read_to_string(site.project().join("trainyard.toml")).unwrap();
    let mut other = Yard::new(env!("CARGO_BIN_EXE_yard"), &file);
    other.set("YARD_SSH", &site.login.ssh_command());
    other.set("YARD_PACE", "300");
    other.hide(site.login.home());
    other.write("code.txt", "of the other laptop\n");
    other
}

fn kinds(cleaned: &Value) -> Vec<String> {
    let items = cleaned["sites"][0]["files"].as_array().cloned().unwrap_or_default();
    let mut kinds: Vec<String> =
        items.iter().map(|item| item["what"].as_str().unwrap_or_default().to_owned()).collect();
    kinds.sort();
    kinds
}

#[test]
fn what_somebody_else_waits_for_stays() {
    let site = Site::new(
        Slurm::shared(),
        "[jobs.train]\ncommand = ['cat', 'code.txt']\n[jobs.wait]\ncommand = ['cat', 'code.txt']\n",
        "directives = ['--begin=now+1hour']\n",
    );
    let depot: PathBuf = site.login.home().join("depot");
    let other = other_laptop(&site);
    // It waits in SLURM's queue: the site has no folder of it.
    let waiting = other.run(&["run", "wait", "--on", "euler", "--detach"]);
    assert_eq!(waiting.exit, 0, "{waiting:?}");
    let file = std::fs::read_to_string(site.project().join("trainyard.toml")).unwrap();
    site.write("trainyard.toml", &file.replace("directives = ['--begin=now+1hour']", ""));
    site.write("code.txt", "of this laptop\n");
    let ran = site.run(&["run", "train", "--on", "euler", "--seeds", "1,2"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert_eq!((count(&depot.join("runs")), count(&depot.join("parcels")), count(&depot.join("snapshots"))), (2, 2, 2));
    let before = blobs(&depot);
    age(&depot);
    std::fs::write(depot.join("bin/yard-old"), "an agent of last year").unwrap();
    std::fs::create_dir(depot.join("parcels/y-never")).unwrap();
    age(&depot);

    let plan = site.json(&["clean", "train-s1"]);
    assert_eq!((&plan["removed"], count(&depot.join("runs"))), (&false.into(), 2), "a plan first: {plan}");
    assert_eq!(kinds(&plan), ["agent", "parcel", "run"], "{plan}");
    let one = site.json(&["clean", "train-s1", "--yes"]);
    assert_eq!(one["removed"], true, "{one}");
    assert_eq!((count(&depot.join("runs")), count(&depot.join("parcels"))), (1, 2), "its brother keeps the parcel");
    assert_eq!(site.runs().len(), 1);
    assert_eq!(blobs(&depot), before);
    assert!(depot.join("bin/yard-old").symlink_metadata().is_err());
    assert_eq!(count(&depot.join("bin")), 1, "the agent that is used");

    let all = site.json(&["clean", "--older", "0s", "--yes", "--on", "euler"]);
    assert_eq!(kinds(&all), ["blobs", "parcel", "run", "snapshot"], "{all}");
    assert_eq!((count(&depot.join("runs")), count(&depot.join("parcels")), count(&depot.join("snapshots"))), (0, 1, 1));
    assert!(blobs(&depot) < before);
    assert_eq!(site.runs().len(), 0);

    // The other one begins now, and finds its code.
    let held = site.slurm.jobs().into_iter().find(|row| row.name.starts_with("wait.")).unwrap();
    site.slurm.ask(&["scontrol", "update", &format!("JobId={}", held.id), "StartTime=now"]);
    let waited = other.run(&["wait", "wait", "--timeout", "60s"]);
    assert_eq!(waited.exit, 0, "{waited:?}\n{}", site.slurm.log());
    assert_eq!(other.run(&["logs", "wait"]).stdout, "of the other laptop\n");
}

#[test]
fn the_same_again_as_long_as_the_site_has_its_code() {
    let site = Site::new(Slurm::shared(), "[jobs.train]\ncommand = ['cat', 'code.txt']\nseeds = [7]\n", "");
    site.write("code.txt", "as it was\n");
    assert_eq!(site.run(&["run", "train", "--on", "euler"]).exit, 0);
    site.write("code.txt", "as it is now\n");
    let again = site.run(&["retry", "train-s7"]);
    assert_eq!((again.exit, again.stdout.starts_with("as it was\n")), (0, true), "{again:?}");
    let depot = site.login.home().join("depot");
    for snapshot in std::fs::read_dir(depot.join("snapshots")).unwrap() {
        std::fs::remove_file(snapshot.unwrap().path()).unwrap();
    }
    let gone = site.run(&["retry", "train-s7"]);
    assert_eq!(gone.exit, 5, "{gone:?}");
    assert!(gone.stderr.contains("the code of train-s7 is no longer at euler"), "{gone:?}");
    assert!(gone.stderr.contains("`yard run train --on euler --seeds 7`"), "{gone:?}");
    assert_eq!(site.runs().len(), 2, "nothing was submitted");
}
