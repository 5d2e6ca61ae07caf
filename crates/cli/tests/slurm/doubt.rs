//! A site that does not answer: what is known is shown, and since when; nothing is made up.

use trainyard_testkit::slurm::Slurm;
use trainyard_testkit::{eventually, within};

use crate::site::Site;

#[test]
fn why_a_run_waits_is_said_in_plain_words() {
    let site = Site::new(Slurm::shared(), "[jobs.train]\ncommand = ['true']\n", "directives = ['--begin=now+1hour']\n");
    assert_eq!(site.run(&["run", "train", "--on", "euler", "--detach"]).exit, 0);
    let shown = eventually("the reason", || Some(site.show("train")).filter(|shown| !shown["note"].is_null()));
    let note = shown["note"].as_str().unwrap();
    assert!(note.contains("SLURM expects it to start"), "{shown}");
    assert!(site.run(&["ps"]).stdout.contains(note));
    assert!(site.run(&["ps", "-l"]).stdout.contains(note));
    assert!(site.run(&["show", "train"]).stdout.contains(note));
    assert_eq!(site.run(&["cancel", "train"]).exit, 0);
    let ended = site.wait_for("train", "cancelled");
    assert!(ended["note"].is_null(), "{ended}");
}

#[test]
fn a_site_that_is_away_leaves_states_as_they_were() {
    let mut site = Site::new(Slurm::shared(), "", "");
    let go = site.login.home().join("go");
    site.add_jobs(&format!(
        "[jobs.train]\ncommand = ['sh', '-c', 'echo begun; until [ -e {} ]; do sleep 0.05; done; exit 3']\n",
        go.display()
    ));
    assert_eq!(site.run(&["run", "train", "--on", "euler", "--detach"]).exit, 0);
    site.wait_for("train", "running");
    site.login.stop();
    std::fs::write(&go, "").unwrap();
    let away = within(std::time::Duration::from_secs(60), "the silence to be noticed", || {
        Some(site.show("train")).filter(|shown| !shown["site"]["problem"].is_null())
    });
    assert_eq!(away["state"], "running", "{away}");
    let listed = site.run(&["ps"]);
    assert!(listed.stderr.contains("euler has not answered since"), "{listed:?}");
    assert!(listed.stderr.contains("states are as of then"), "{listed:?}");
    let listed = site.json(&["ps"]);
    assert_eq!(listed["sites"][0]["name"], "euler", "{listed}");
    assert!(listed["sites"][0]["problem"].is_string() && listed["sites"][0]["seen"].is_string(), "{listed}");
    let waited = site.run(&["wait", "train", "--timeout", "1s"]);
    assert_eq!((waited.exit, waited.stdout.as_str()), (6, ""), "{waited:?}");
    assert!(waited.stderr.contains("euler has not answered since"), "{waited:?}");
    let logs = site.run(&["logs", "train"]);
    assert_eq!((logs.exit, logs.stdout.as_str()), (4, ""), "{logs:?}");
    let cleaned = site.run(&["clean", "--older", "0s", "--yes"]);
    assert!(cleaned.exit == 0 && cleaned.stderr.contains("euler is left alone"), "{cleaned:?}");
    site.login.resume();
    let waited = site.run(&["wait", "train", "--timeout", "60s"]);
    assert_eq!(waited.exit, 1, "{waited:?}");
    let shown = site.show("train");
    assert_eq!((&shown["exit_code"], &shown["site"]["problem"]), (&3.into(), &serde_json::Value::Null), "{shown}");
}
