//! Faults of the scripts that yard replaces: none of them is here. Each test names the one it is about.

use std::collections::BTreeSet;
use std::time::Duration;

use trainyard_testkit::slurm::Slurm;
use trainyard_testkit::{eventually, within};

use crate::site::Site;

/// Isaac Lab's `container.sh job`: three shells read the arguments one after another. ProtoMotions: an apostrophe breaks
/// the script.
#[test]
fn arguments_arrive_byte_for_byte() {
    let hostile = [
        "k={name:default,x:1}",
        "units=[256, 128]",
        "name=my run",
        "path=$HOME/x",
        "a=$(touch pwned)",
        "b=`touch pwned`",
        "it's",
        "\"quoted\"",
        "*",
        "~",
        "back\\slash",
        "semi;colon & pipe | redirect > file",
        "line\nbreak",
        "größe 🤖",
        "",
        "--",
        "#comment",
        "!history",
        "%j",
    ];
    let site = Site::new(
        Slurm::shared(),
        "[jobs.echo]\ncommand = ['python3', '-c', 'import sys, json; print(json.dumps(sys.argv[1:]))']\n",
        "",
    );
    let mut words = vec!["run", "echo", "--on", "euler", "--"];
    words.extend(hostile);
    let ran = site.run(&words);
    assert_eq!(ran.exit, 0, "{ran:?}");
    let log = site.run(&["logs", "echo"]).stdout;
    let arrived: Vec<String> = serde_json::from_str(log.trim()).unwrap_or_else(|error| panic!("{error}: {log}"));
    assert_eq!(arrived, hostile);
    assert!(!site.login.home().join("pwned").exists() && !site.login.home().join("depot/pwned").exists());
}

/// Isaac Lab: the code folder is named by the second, so submissions in one second share it.
#[test]
fn five_submissions_at_once_do_not_meet() {
    let site = Site::new(Slurm::shared(), "[jobs.who]\ncommand = ['sh', '-c', 'cat me.txt; echo \"$PWD\"']\n", "");
    std::thread::scope(|scope| {
        for number in 0..5 {
            let (site, name) = (&site.yard, format!("who{number}"));
            scope.spawn(move || {
                let ran = site.run(&["run", "who", "--on", "euler", "--detach", "--name", &name]);
                assert_eq!(ran.exit, 0, "{ran:?}");
            });
        }
        site.write("me.txt", "me\n");
    });
    let mut folders = BTreeSet::new();
    for number in 0..5 {
        let name = format!("who{number}");
        within(Duration::from_secs(60), "it to end", || (!site.show(&name)["ended"].is_null()).then_some(()));
        folders.insert(site.run(&["logs", &name]).stdout.lines().last().map(str::to_owned));
    }
    assert_eq!(folders.len(), 5, "{folders:?}");
}

/// Orbit: one fixed folder without `--delete`, so removed files live on and queued jobs run what was uploaded last.
#[test]
fn a_queued_run_keeps_its_code_and_removed_files_are_gone() {
    let jobs = "[jobs.show]\ncommand = ['sh', '-c', 'cat code.txt; ls']\n";
    let site = Site::new(Slurm::shared(), jobs, "directives = ['--begin=now+4']\n");
    site.write("code.txt", "first\n");
    site.write("removed.txt", "");
    site.run(&["run", "show", "--on", "euler", "--detach", "--name", "one"]);
    site.write("code.txt", "second\n");
    std::fs::remove_file(site.project().join("removed.txt")).expect("a file");
    site.run(&["run", "show", "--on", "euler", "--detach", "--name", "two"]);
    for name in ["one", "two"] {
        site.wait_for(name, "succeeded");
    }
    let one = site.run(&["logs", "one"]).stdout;
    assert!(one.starts_with("first\n") && one.contains("removed.txt"), "{one}");
    let two = site.run(&["logs", "two"]).stdout;
    assert!(two.starts_with("second\n") && !two.contains("removed.txt"), "{two}");
}

/// ProtoMotions: `0-5%1` is six tasks where five were meant, and every task starts again after a crash on line 1.
#[test]
fn attempts_are_counted_exactly() {
    let job = |attempts: u32, on: &str| {
        format!(
            "[jobs.crash]\ncommand = ['sh', '-c', 'echo try; exit 1']\n[jobs.crash.resume]\nattempts = {attempts}\non = ['{on}']\n"
        )
    };
    let site = Site::new(Slurm::shared(), &job(5, "time-limit"), "resume-by = 'array'\n");
    let shown = site.run(&["run", "crash", "--on", "euler", "--dry-run"]).stdout;
    assert!(shown.contains("#SBATCH --array=0-4%1"), "{shown}");
    site.run(&["run", "crash", "--on", "euler"]);
    let shown = site.show("crash");
    assert_eq!(shown["attempts"].as_array().map(Vec::len), Some(1), "a crash is no reason to go on: {shown}");
    eventually("nothing to be left in the queue", || site.live_jobs().is_empty().then_some(()));
    // Where a crash is a reason, two in a row that get nowhere end it.
    let site = Site::new(Slurm::shared(), &job(5, "failed"), "resume-by = 'chain'\n");
    let ran = site.run(&["run", "crash", "--on", "euler"]);
    assert_eq!(ran.exit, 1, "{ran:?}");
    let shown = site.show("crash");
    assert_eq!(shown["attempts"].as_array().map(Vec::len), Some(2), "{shown}");
    assert!(shown["reason"].as_str().is_some_and(|why| why.contains("crash loop")), "{shown}");
    eventually("nothing to be left in the queue", || site.live_jobs().is_empty().then_some(()));
}

/// ProtoMotions and Isaac Lab: an unknown simulator, scheduler or partition is found out after the upload.
#[test]
fn what_cannot_run_is_refused_before_the_upload() {
    let job = "[jobs.train]\ncommand = ['true']\n";
    for (target, exit, word) in [
        ("partition = 'no-such-partition'\n", 5, "no-such-partition"),
        ("gpu-request = '--gres=gpu:h100:{gpus}'\n", 5, "h100"),
        ("container = 'enroot'\n", 3, "container"),
        ("account = 'your_account'\n", 3, "placeholder"),
    ] {
        let job = if target.contains("gpu-request") { "[jobs.train]\ncommand = ['true']\ngpus = 1\n" } else { job };
        let site = Site::new(Slurm::shared(), job, target);
        let ran = site.run(&["run", "train", "--on", "euler"]);
        assert_eq!(ran.exit, exit, "{target}: {ran:?}");
        assert!(ran.stderr.contains(word), "{target}: {ran:?}");
        assert!(!site.login.home().join("depot/blobs").exists(), "{target}: nothing was uploaded");
        assert!(site.jobs().is_empty());
    }
    let site = Site::new(Slurm::shared(), job, "");
    let ran = site.run(&["run", "tarin", "--on", "euler"]);
    assert_eq!(ran.exit, 3, "{ran:?}");
    assert_eq!(site.login.bytes(), 0, "a job that is not in the file needs no connection");
}

/// Both: a space in any path breaks it.
#[test]
fn spaces_and_quotes_in_paths_are_fine() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("to be open");
    let depot = folder.path().join("my depot (it's mine)");
    let jobs = "[jobs.train]\ncommand = ['cat', 'a file.txt']\n";
    let site = Site::with_depot(Slurm::shared(), jobs, "", Some(depot));
    site.write("a file.txt", "read\n");
    let ran = site.run(&["run", "train", "--on", "euler"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert_eq!(site.run(&["logs", "train"]).stdout, "read\n");
}

/// Isaac Lab: module loads run on the login node, not in the job.
#[test]
fn setup_lines_run_in_the_job_and_their_failure_is_told() {
    let jobs = "[jobs.train]\ncommand = ['sh', '-c', 'echo \"$WHERE\"']\n";
    let site = Site::new(Slurm::shared(), jobs, "setup = ['export WHERE=\"in job $SLURM_JOB_ID\"']\n");
    let ran = site.run(&["run", "train", "--on", "euler"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert!(site.run(&["logs", "train"]).stdout.starts_with("in job "), "{ran:?}");
    let site = Site::new(Slurm::shared(), jobs, "setup = ['no-such-command-here']\n");
    site.run(&["run", "train", "--on", "euler"]);
    let shown = site.show("train");
    assert_eq!(shown["state"], "failed");
    assert!(shown["reason"].as_str().is_some_and(|why| why.contains("no-such-command-here")), "{shown}");
}
