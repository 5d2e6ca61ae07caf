//! A secret reaches the program, and is nowhere else: no file, no argument, no output, nothing that SLURM shows.

use std::path::{Path, PathBuf};
use std::time::Duration;

use trainyard_testkit::slurm::Slurm;
use trainyard_testkit::{census, within};

use crate::site::Site;

/// Nothing else looks like it, also not in part.
pub(crate) const SECRET: &str = "hunter-9f1c$HOME it's";

/// What `printf %s "$API_KEY" | md5sum` prints where that is the secret.
pub(crate) fn digest() -> String {
    let mut command = std::process::Command::new("sh");
    let output = command.args(["-c", "printf %s \"$API_KEY\" | md5sum"]).env("API_KEY", SECRET).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Looks into every file below these folders and at the arguments of all processes there are.
pub(crate) fn assert_no_trace(folders: &[PathBuf]) {
    for process in census::take() {
        let found = process.arguments.iter().any(|word| word.contains("hunter-9f1c"));
        assert!(!found, "in the arguments of {process:?}");
    }
    folders.iter().for_each(|folder| assert_no_trace_below(folder));
}

fn assert_no_trace_below(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            assert_no_trace_below(&path);
        } else if kind.is_file() {
            // What is removed meanwhile holds nothing.
            let bytes = std::fs::read(&path).unwrap_or_default();
            let found = bytes.windows(b"hunter-9f1c".len()).any(|part| part == b"hunter-9f1c");
            assert!(!found, "in {}", path.display());
        }
    }
}

const JOB: &str = "[jobs.key]\ncommand = ['sh', '-c', '''
printf %s \"$API_KEY\" | md5sum
touch \"$HOME/began-$YARD_ATTEMPT\"; until [ -e \"$HOME/go\" ]; do sleep 0.1; done''']
env = { API_KEY = { env = 'MY_KEY' } }
resume.attempts = 3\n";

#[test]
fn a_secret_survives_a_requeue_and_is_seen_nowhere() {
    let mut site = Site::new(Slurm::shared(), JOB, "resume-by = 'requeue'\n");
    site.yard.set("MY_KEY", SECRET);
    let ran = site.run(&["run", "key", "--on", "euler", "--detach"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    let began = |attempt: u32| {
        let mark = site.login.home().join(format!("began-{attempt}"));
        within(Duration::from_secs(180), "the program", || {
            let shown = site.show("key");
            assert_ne!(shown["state"], "failed", "{shown}\n{}", site.slurm.log());
            mark.exists().then_some(())
        });
    };
    began(1);
    let folders = [site.login.home().join("depot"), site.home(), site.project()];
    assert_no_trace(&folders);
    let id = site.live_jobs()[0].id.clone();
    let shown = site.slurm.ask(&["scontrol", "show", "job", "-dd", &id]);
    assert!(!shown.contains("hunter"), "{shown}");
    // Whoever may read the script reads it without the value.
    let script = site.slurm.ask(&["scontrol", "write", "batch_script", &id, "-"]);
    assert!(script.contains("agent parcel") && !script.contains("hunter"), "{script}");
    site.slurm.ask(&["scontrol", "requeue", &id]);
    began(2);
    assert_no_trace(&folders);
    std::fs::write(site.login.home().join("go"), "").unwrap();
    site.wait_for("key", "succeeded");
    let said =
        site.run(&["logs", "key", "--attempt", "1"]).stdout + &site.run(&["logs", "key", "--attempt", "2"]).stdout;
    // A shell may say that it was terminated.
    let sums: String = said.lines().filter(|line| line.ends_with('-')).map(|line| format!("{line}\n")).collect();
    assert_eq!(sums, digest() + &digest());
    for shown in
        [site.run(&["show", "key"]), site.run(&["ps", "-a"]), site.run(&["run", "key", "--on", "euler", "--dry-run"])]
    {
        assert!(!format!("{shown:?}").contains("hunter"), "{shown:?}");
    }
    assert_no_trace(&folders);
}
