//! What may not be written or read is named, before anything is done.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use trainyard_testkit::{Output, Yard};

use crate::yard;

const JOB: &str = "[jobs.short]\ncommand = [\"true\"]\n";

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Nothing is forbidden to root, so root does it as nobody.
fn unprivileged(command: &Command) -> Output {
    let root = rustix::process::geteuid().is_root();
    let mut lowered = if root { Command::new("setpriv") } else { Command::new("env") };
    if root {
        lowered.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    lowered.arg(command.get_program()).args(command.get_args());
    lowered.current_dir(command.get_current_dir().unwrap());
    lowered.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Output::of(&mut lowered)
}

/// A yard in a folder that everybody may enter.
fn open_yard() -> Yard {
    let yard = yard(JOB);
    set_mode(yard.root(), 0o755);
    yard
}

fn is_refused(output: &Output, names: &Path) {
    assert_eq!((output.exit, output.stdout.as_str()), (3, ""), "{output:?}");
    assert_eq!(output.stderr.matches("error:").count(), 1, "{output:?}");
    assert!(output.stderr.contains(&*names.to_string_lossy()), "{output:?}");
}

#[test]
fn a_home_that_may_not_be_written_is_named() {
    let yard = open_yard();
    std::fs::create_dir(yard.home()).unwrap();
    set_mode(&yard.home(), 0o555);
    let output = unprivileged(&yard.command(&["run", "short"]));
    is_refused(&output, &yard.home());
    assert!(output.stderr.contains("YARD_HOME"), "{output:?}");

    let below = yard.home().join("deeper");
    let output = unprivileged(yard.command(&["run", "short"]).env("YARD_HOME", &below));
    is_refused(&output, &below);
    assert!(output.stderr.contains("YARD_HOME"), "{output:?}");
    set_mode(&yard.home(), 0o755);
}

#[test]
fn a_ledger_that_may_not_be_written_is_named() {
    let yard = open_yard();
    assert_eq!(yard.run(&["run", "short"]).exit, 0);
    crate::kill_yardmaster(&yard);
    for entry in std::fs::read_dir(yard.home()).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() {
            set_mode(&entry.path(), 0o444);
        }
    }
    set_mode(&yard.home(), 0o555);
    let output = unprivileged(&yard.command(&["run", "short"]));
    is_refused(&output, &yard.home());
    assert!(output.stderr.contains("YARD_HOME"), "{output:?}");
    set_mode(&yard.home(), 0o755);
}

#[test]
fn what_may_not_be_read_of_a_project_is_named() {
    let yard = open_yard();
    let home = yard.root().join("own-home");
    std::fs::create_dir(&home).unwrap();
    set_mode(&home, 0o777);
    yard.write("secret/inside", "x");
    yard.write("weights.pt", "x");
    let project = yard.project();
    let submit = || unprivileged(yard.command(&["run", "short"]).env("YARD_HOME", &home));
    for hidden in ["weights.pt", "secret", "trainyard.toml"] {
        let path = project.join(hidden);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        set_mode(&path, 0o000);
        let output = submit();
        set_mode(&path, mode);
        is_refused(&output, &path);
        assert!(output.stderr.contains("Permission denied"), "{output:?}");
    }
    assert_eq!(submit().exit, 0);
    let runs = unprivileged(yard.command(&["--output", "json", "ps", "-a"]).env("YARD_HOME", &home));
    assert_eq!(runs.stdout.matches("\"id\"").count(), 1, "only the last was submitted: {runs:?}");
    trainyard_testkit::processes::with_environment(&format!("YARD_HOME={}", home.display()))
        .into_iter()
        .for_each(crate::kill);
}
