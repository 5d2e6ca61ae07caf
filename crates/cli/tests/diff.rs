//! `yard diff`, and the commit that `yard show` tells.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;
use trainyard_testkit::{Output, Yard};

const PROGRAM: &str = env!("CARGO_BIN_EXE_yard");
const FILE: &str = "[jobs.train]\ncommand = [\"true\"]\nparams = { lr = 0.5 }\n";

fn yard() -> Yard {
    let yard = Yard::new(PROGRAM, FILE);
    yard.write("train.py", "one\ntwo\nthree\n");
    yard.write("old.py", "gone\n");
    yard.write("run.sh", "#!/bin/sh\n");
    yard.write("weights.bin", "\0\0");
    yard
}

fn run(yard: &Yard, arguments: &[&str]) {
    let output = yard.run(&[&["run", "train"], arguments].concat());
    assert_eq!(output.exit, 0, "{output:?}");
}

/// One of everything.
fn change(yard: &Yard) {
    yard.write("train.py", "one\n2\nthree\nfour\n");
    yard.write("new/er.py", "new\n");
    yard.write("weights.bin", "\0\x01\0");
    std::fs::remove_file(yard.project().join("old.py")).unwrap();
    std::fs::set_permissions(yard.project().join("run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    yard.write("trainyard.toml", &FILE.replace("0.5", "0.25").replace("\nparams", "\ncpus = 2\nparams"));
}

fn git(yard: &Yard, arguments: &[&str]) {
    let settings = ["-c", "user.name=a", "-c", "user.email=a@b"];
    let output = Output::of(Command::new("git").current_dir(yard.project()).args(settings).args(arguments));
    assert_eq!(output.exit, 0, "{output:?}");
}

#[test]
fn the_same_has_no_differences() {
    let yard = yard();
    run(&yard, &[]);
    let output = yard.run(&["diff", "train", "--exit-code"]);
    assert_eq!((output.exit, output.stdout.as_str()), (0, "train → now\nno differences\n"), "{output:?}");
    assert_eq!(yard.json(&["diff", "train", "train"])["same"], true);
}

#[test]
fn code_and_settings_are_compared_with_now() {
    let yard = yard();
    run(&yard, &[]);
    change(&yard);
    let output = yard.run(&["diff", "train"]);
    assert_eq!(output.exit, 0, "{output:?}");
    insta::assert_snapshot!(output.stdout, @r#"
    train → now
    cpus  1 → 2
    params.lr  0.5 → 0.25
    6 files
    added   new/er.py  +1 -0
    --- /dev/null
    +++ b/new/er.py
    @@ -0,0 +1 @@
    +new
    removed old.py  +0 -1
    --- a/old.py
    +++ /dev/null
    @@ -1 +0,0 @@
    -gone
    changed run.sh  (mode 644 → 755)
    changed train.py  +2 -1
    --- a/train.py
    +++ b/train.py
    @@ -1,3 +1,4 @@
     one
    -two
    +2
     three
    +four
    changed trainyard.toml  +2 -1
    --- a/trainyard.toml
    +++ b/trainyard.toml
    @@ -1,3 +1,4 @@
     [jobs.train]
     command = ["true"]
    -params = { lr = 0.5 }
    +cpus = 2
    +params = { lr = 0.25 }
    changed weights.bin  (binary, 2 B → 3 B)
    "#);
    let stat = yard.run(&["diff", "train", "--stat", "--exit-code"]);
    assert_eq!(stat.exit, 1);
    insta::assert_snapshot!(stat.stdout, @r#"
    train → now
    cpus  1 → 2
    params.lr  0.5 → 0.25
    6 files
    added   new/er.py  +1 -0
    removed old.py  +0 -1
    changed run.sh  (mode 644 → 755)
    changed train.py  +2 -1
    changed trainyard.toml  +2 -1
    changed weights.bin  (binary, 2 B → 3 B)
    "#);
}

#[test]
fn two_runs_are_compared_as_they_were() {
    let yard = yard();
    run(&yard, &["--name", "first", "--seeds", "1"]);
    change(&yard);
    run(&yard, &["--name", "second", "--seeds", "2", "--", "--fast"]);
    std::fs::remove_dir_all(yard.project().join("new")).unwrap();
    let diff = yard.json(&["diff", "first-s1", "second-s2"]);
    let setting = |key: &str| {
        let all = diff["settings"].as_array().unwrap();
        all.iter().find(|change| change["key"] == key).map(|change| [change["old"].clone(), change["new"].clone()])
    };
    assert_eq!(setting("seed"), Some([1.into(), 2.into()]));
    assert_eq!(setting("params.lr"), Some([0.5.into(), 0.25.into()]));
    assert_eq!(setting("extra-arguments"), Some([Value::Null, serde_json::json!(["--fast"])]));
    let files: Vec<&str> =
        diff["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(files, ["new/er.py", "old.py", "run.sh", "train.py", "trainyard.toml", "weights.bin"]);
    assert_eq!(diff["files"][0]["change"], "added");
    assert_eq!(diff["files"][0]["patch"], "--- /dev/null\n+++ b/new/er.py\n@@ -0,0 +1 @@\n+new\n");
}

#[test]
fn contents_that_are_not_here_are_said_to_be_at_the_site() {
    let yard = yard();
    run(&yard, &[]);
    change(&yard);
    std::fs::remove_dir_all(yard.home().join("depot/blobs")).unwrap();
    let diff = yard.json(&["diff", "train"]);
    let train = diff["files"].as_array().unwrap().iter().find(|file| file["path"] == "train.py").unwrap();
    assert_eq!((&train["change"], &train["patch"]), (&"changed".into(), &Value::Null));
    assert!(train["note"].as_str().unwrap().starts_with("content is at the site"), "{train}");
}

#[test]
fn the_commit_is_shown_and_compared() {
    let yard = yard();
    git(&yard, &["init", "-q", "-b", "main"]);
    git(&yard, &["add", "."]);
    git(&yard, &["commit", "-qm", "one"]);
    git(&yard, &["remote", "add", "origin", "https://me:secret@example.com/robots.git"]);
    run(&yard, &["--name", "clean"]);
    let commit = Output::of(Command::new("git").current_dir(yard.project()).args(["rev-parse", "HEAD"])).stdout;
    let shown = yard.show("clean");
    assert_eq!(shown["provenance"]["commit"], commit.trim());
    assert_eq!(shown["provenance"]["dirty"], false);
    let text = yard.run(&["show", "clean"]).stdout;
    let expected = format!("code      {} on main (https://example.com/robots.git)\n", &commit[..10]);
    assert!(text.contains(&expected), "{text}");
    assert!(!std::fs::read_to_string(yard.home().join("ledger.db-wal")).unwrap_or_default().contains("secret"));

    yard.write("train.py", "changed");
    run(&yard, &["--name", "dirty"]);
    assert_eq!(yard.show("dirty")["provenance"]["dirty"], true);
    assert!(yard.run(&["show", "dirty"]).stdout.contains(" on main, with changes ("));
    let diff = yard.run(&["diff", "clean", "dirty", "--stat"]).stdout;
    assert!(diff.contains("git.changes  false → true\n"), "{diff}");
}
