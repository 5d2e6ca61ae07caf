//! From a Docker image to a job inside Apptainer: converted, pushed and used by `yard run` alone.

use std::path::Path;
use std::time::{Duration, SystemTime};

use trainyard_testkit::apptainer;
use trainyard_testkit::slurm::Slurm;

use crate::site::Site;

/// A site, and a project whose job runs in `lab.tar`.
fn site(job: &str) -> Site<'static> {
    let mut site = Site::new(Slurm::shared(), "", "");
    site.rewrite(&format!("[image]\narchive = 'lab.tar'\n[jobs.train]\n{job}\n"), &apptainer::target());
    apptainer::docker_archive(&site.project().join("lab.tar"), "lab", |root| {
        std::fs::write(root.join("version"), "one\n").unwrap();
    });
    site.write(".gitignore", "lab.tar\n");
    site
}

fn archive(site: &Site<'_>, version: &str) {
    apptainer::docker_archive(&site.project().join("lab.tar"), "lab", |root| {
        std::fs::write(root.join("version"), format!("{version}\n")).unwrap();
    });
}

#[test]
fn a_docker_image_becomes_a_job_in_apptainer() {
    let site = site(
        "command = ['sh', '-c', 'cat /image /version code.txt; echo $LAB; mkdir -p out; echo done > out/result']\n\
         outputs = ['out']",
    );
    site.write("code.txt", "of the project\n");
    let ran = site.run(&["run", "train", "--on", "euler"]);
    assert_eq!(ran.exit, 0, "{ran:?}\n{}", site.slurm.log());
    assert!(ran.stdout.contains("lab\none\nof the project") && ran.stdout.contains("\nlab\n"), "{ran:?}");
    let pulled = site.json(&["pull", "train"]);
    let to = pulled["pulled"][0]["to"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(format!("{to}/out/result")).unwrap(), "done\n", "{pulled:#}");
    let listed = site.json(&["image", "ls", "--on", "euler"]);
    let listed = &listed["images"][0];
    assert_eq!(listed["image"], "default", "{listed:#}");
    let digest = listed["digest"].as_str().unwrap();
    assert!(listed["path"].as_str().unwrap().ends_with(&format!("/images/{digest}.sif")), "{listed:#}");
    let again = site.json(&["image", "push", "--on", "euler"]);
    assert_eq!(again["was_made_before"], true, "{again:#}");
    assert_eq!(again["pushed"]["was_there"], true, "{again:#}");
}

#[test]
fn a_queued_run_keeps_its_image_when_a_new_one_is_pushed() {
    let site = site("command = ['cat', '/version']");
    let held = site.run(&["run", "train", "--on", "euler", "--detach", "--set", "targets.euler.directives=['--hold']"]);
    assert_eq!(held.exit, 0, "{held:?}");
    archive(&site, "two");
    let second = site.run(&["run", "train", "--on", "euler", "--name", "second"]);
    assert_eq!(second.exit, 0, "{second:?}");
    assert!(second.stdout.contains("two\n"), "{second:?}");
    let listed = site.json(&["image", "ls", "--on", "euler"]);
    assert_eq!(listed["images"].as_array().unwrap().len(), 2, "{listed:#}");
    let users: Vec<&str> = listed["images"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|image| image["open_runs"].as_array().unwrap())
        .filter_map(|run| run.as_str())
        .collect();
    assert_eq!(users, ["train"], "{listed:#}");
    for job in site.live_jobs() {
        site.slurm.ask(&["scontrol", "release", &job.id]);
    }
    site.wait_for("train", "succeeded");
    assert!(site.run(&["logs", "train"]).stdout.contains("one\n"));
}

/// As if everything below had lain there for hours.
fn age(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            age(&entry.path());
        }
        let file = std::fs::File::open(entry.path()).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(7200)).unwrap();
    }
}

fn images_in(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    names.filter(|path| path.extension().is_some_and(|ending| ending == "sif")).count()
}

#[test]
fn images_that_no_run_needs_are_cleaned_here_and_there() {
    let site = site("command = ['cat', '/version']");
    assert_eq!(site.run(&["image", "push", "--on", "euler"]).exit, 0);
    archive(&site, "two");
    let ran = site.run(&["run", "train", "--on", "euler"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    archive(&site, "three");
    assert_eq!(site.run(&["image", "push", "--on", "euler"]).exit, 0);
    let (here, there) = (site.home().join("images"), site.login.home().join("depot/images"));
    assert_eq!((images_in(&here), images_in(&there)), (3, 3));
    age(&here);
    age(&there);
    let planned = site.run(&["clean", "--dry-run", "--older", "1d"]);
    assert_eq!(planned.exit, 0, "{planned:?}");
    assert_eq!((images_in(&here), images_in(&there)), (3, 3), "a plan removes nothing");
    let cleaned = site.run(&["clean", "--yes", "--older", "1d"]);
    assert_eq!(cleaned.exit, 0, "{cleaned:?}");
    assert_eq!(images_in(&there), 2, "the run's and the newest stay: {cleaned:?}");
    assert_eq!(images_in(&here), 1, "runs elsewhere need nothing here: {cleaned:?}");
    let retried = site.run(&["retry", "train"]);
    assert!(retried.stdout.contains("two\n"), "{retried:?}");
}

#[test]
fn what_cannot_be_made_is_told_before_anything_is_sent() {
    let job = "[jobs.train]\ncommand = ['true']\n";
    for (image, why) in [
        ("archive = 'no.tar'", "no.tar"),
        ("oci = 'no'", "index.json"),
        ("folder = 'no'", "cannot be read"),
        ("archive = 'trainyard.toml'", "trainyard.toml"),
    ] {
        let site = Site::new(Slurm::shared(), &format!("[image]\n{image}\n{job}"), "container = 'apptainer'");
        let ran = site.run(&["run", "train", "--on", "euler"]);
        assert_eq!(ran.exit, 3, "{image}: {ran:?}");
        assert!(ran.stderr.contains(why), "{image}: {ran:?}");
        let ran = site.run(&["run", "train", "--on", "euler", "--image", "ros2"]);
        assert_eq!(ran.exit, 3, "{ran:?}");
        assert!(ran.stderr.contains("no image `ros2`") && ran.stderr.contains("images: default"), "{ran:?}");
        assert_eq!(site.runs().len(), 0);
    }
}
