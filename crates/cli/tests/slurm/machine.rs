//! A plain machine behind ssh: its own queue, without root, Python or a daemon.

use std::collections::BTreeMap;
use std::path::PathBuf;

use trainyard_testkit::{Login, Yard, apptainer, eventually, processes};

use crate::secrets::{SECRET, assert_no_trace, digest};

/// Runs until the file `go` is in the user's home there.
const GATED: &str =
    "[jobs.gated]\ncommand = ['sh', '-c', 'echo up; until [ -e \"$HOME/go\" ]; do sleep 0.05; done; echo over']\n";

/// Prints the digest of its key, and waits as well.
const KEY: &str = "[jobs.key]\ncommand = ['sh', '-c', 'printf %s \"$API_KEY\" | md5sum; until [ -e \"$HOME/go\" ]; do sleep 0.05; done']\n\
                env = { API_KEY = { env = 'MY_KEY' } }\n";

/// A laptop that knows the machine under the name `box`.
pub(crate) fn laptop(login: &Login<'_>, jobs: &str, target: &str) -> Yard {
    laptop_with(env!("CARGO_BIN_EXE_yard"), login, jobs, target)
}

fn laptop_with(program: &str, login: &Login<'_>, jobs: &str, target: &str) -> Yard {
    let (host, depot) = (login.host(), depot(login));
    let depot = depot.display();
    let file = format!("{jobs}\n[targets.box]\nkind = \"ssh\"\nhost = \"{host}\"\ndepot = \"{depot}\"\n{target}\n");
    let mut yard = Yard::new(program, &file);
    yard.set("YARD_SSH", &login.ssh_command());
    yard.set("YARD_PACE", "300");
    yard.hide(login.home());
    yard
}

fn depot(login: &Login<'_>) -> PathBuf {
    login.home().join("depot")
}

fn start(yard: &Yard, words: &[&str]) {
    let ran = yard.run(&[&["run"], words, &["--on", "box", "--detach"]].concat());
    assert_eq!(ran.exit, 0, "{ran:?}");
}

fn open_gate(login: &Login<'_>) {
    std::fs::write(login.home().join("go"), "").unwrap();
}

/// The yardmaster of the machine itself.
fn yardmaster_there(login: &Login<'_>) -> i32 {
    let mark = format!("YARD_HOME={}/host", depot(login).display());
    let all = trainyard_testkit::census::take();
    let is_it = |one: &&trainyard_testkit::census::Process| {
        one.environment.contains(&mark) && one.arguments.get(1).is_some_and(|word| word == "yardmaster")
    };
    all.iter().find(is_it).expect("a yardmaster there").pid
}

#[test]
fn runs_take_turns_there_and_their_state_comes_home() {
    let login = Login::start(None);
    let yard = laptop(
        &login,
        "[jobs.train]\ncommand = ['sh', '-c', 'echo \"$GREETING $YARD_SEED\"; exit $((YARD_SEED - 1))']\nseeds = [1, 2]\n",
        "cpus = 1\nsetup = ['export GREETING=hello']\n",
    );
    let ran = yard.run(&["run", "train", "--on", "box"]);
    assert_eq!(ran.exit, 1, "{ran:?}");
    assert_eq!(yard.show("train-s1")["state"], "succeeded");
    let failed = yard.show("train-s2");
    assert_eq!((&failed["state"], &failed["exit_code"]), (&"failed".into(), &1.into()), "{failed}");
    let again = yard.run(&["retry", "train-s2"]);
    assert!(again.exit <= 1, "{again:?}");
    assert_eq!(yard.run(&["wait", "train-s2", "--timeout", "60s"]).exit, 1);
    assert_eq!(yard.run(&["logs", "train-s2"]).stdout, "hello 2\n");
    assert_eq!(yard.runs().len(), 3);
    yard.write("trainyard.toml", &format!("[jobs.here]\ncommand = ['true']\nin-place = true\n{}", target_of(&yard)));
    let refused = yard.run(&["run", "here", "--on", "box"]);
    assert_eq!(refused.exit, 3, "{refused:?}");
    assert!(refused.stderr.contains("in-place"), "{refused:?}");
}

/// The part of the file that says what `box` is.
fn target_of(yard: &Yard) -> String {
    let file = std::fs::read_to_string(yard.project().join("trainyard.toml")).unwrap();
    file.split_at(file.find("[targets.box]").unwrap()).1.to_owned()
}

#[test]
fn the_queue_goes_on_without_the_laptop() {
    let login = Login::start(None);
    let jobs =
        "[jobs.turn]\ncommand = ['sh', '-c', 'sleep 0.5; echo \"$YARD_SEED\" >> \"$HOME/turns\"']\nseeds = [1, 2, 3]\n";
    let yard = laptop(&login, jobs, "cpus = 1\n");
    start(&yard, &["turn"]);
    yard.processes().into_iter().for_each(processes::kill);
    login.cut();
    let turns = || std::fs::read_to_string(login.home().join("turns")).unwrap_or_default();
    eventually("all turns", || (turns() == "1\n2\n3\n").then_some(()));
    assert_eq!(yard.yardmasters(), Vec::<i32>::new(), "nobody was there");
    for seed in 1..=3 {
        yard.wait_for(&format!("turn-s{seed}"), "succeeded");
    }
    assert_eq!(turns(), "1\n2\n3\n", "nothing was begun again");
}

#[test]
fn two_gpus_serve_four_halves_at_once() {
    let login = Login::start(None);
    let jobs = "[jobs.half]\ncommand = ['sh', '-c', 'echo \"+ $CUDA_VISIBLE_DEVICES\" >> \"$HOME/marks\"; sleep 1; \
                echo \"- $CUDA_VISIBLE_DEVICES\" >> \"$HOME/marks\"']\ngpus = 0.5\nseeds = '1-6'\n";
    let yard = laptop(&login, jobs, "gpus = 2\ncpus = 64\n");
    let ran = yard.run(&["run", "half", "--on", "box"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    let marks = std::fs::read_to_string(login.home().join("marks")).unwrap();
    let (mut busy, mut most) = (BTreeMap::<&str, i32>::new(), 0);
    for line in marks.lines() {
        let (sign, device) = line.split_once(' ').unwrap();
        let here = busy.entry(device).or_default();
        *here += if sign == "+" { 1 } else { -1 };
        assert!(*here <= 2, "three share one GPU:\n{marks}");
        most = most.max(busy.values().sum());
    }
    assert_eq!((most, busy.len()), (4, 2), "{marks}");
    assert_eq!(marks.lines().count(), 12);
}

#[test]
fn a_run_outlives_its_time_limit_there() {
    let login = Login::start(None);
    let jobs = "[jobs.long]\ncommand = ['sh', 'work.sh']\ntime = '2s'\noutputs = ['ck/']\n[jobs.long.resume]\nattempts = 10\n\
                checkpoint = 'ck/*'\nargs = ['{checkpoint}']\n";
    let yard = laptop(&login, jobs, "");
    yard.write(
        "work.sh",
        "from=${1##*/}; mkdir -p ck\nfor i in $(seq $((from + 1)) 12); do sleep 0.25; echo > ck/.$i; mv ck/.$i ck/$i; done\n",
    );
    let ran = yard.run(&["run", "long", "--on", "box"]);
    assert_eq!(ran.exit, 0, "{ran:?}\n{}", yard.show("long"));
    let shown = yard.show("long");
    let attempts = shown["attempts"].as_array().unwrap();
    assert!(attempts.len() >= 2, "{shown}");
    assert_eq!(attempts[0]["outcome"], "time limit reached", "{shown}");
    assert_eq!(attempts[1]["resumed_from"], attempts[0]["checkpoint"], "{shown}");
    assert!(!attempts[1]["resumed_from"].is_null(), "{shown}");
}

#[test]
fn waiting_and_running_runs_are_cancelled() {
    let login = Login::start(None);
    let yard = laptop(&login, GATED, "cpus = 1\n");
    start(&yard, &["gated", "--seeds", "1-3"]);
    let id = yard.wait_for("gated-s1", "running")["id"].as_str().unwrap().to_owned();
    assert_eq!(yard.show("gated-s2")["state"], "waiting");
    yard.run(&["cancel", "gated-s2"]);
    yard.wait_for("gated-s2", "cancelled");
    assert_eq!(yard.show("gated-s1")["state"], "running");
    yard.run(&["cancel", "gated-s1"]);
    yard.wait_for("gated-s1", "cancelled");
    assert_eq!(processes::with_environment(&format!("YARD_RUN={id}")), Vec::<i32>::new());
    yard.wait_for("gated-s3", "running");
    open_gate(&login);
    yard.wait_for("gated-s3", "succeeded");
    let what: Vec<String> =
        yard.show("gated-s3")["events"].as_array().unwrap().iter().map(|event| event["what"].to_string()).collect();
    assert!(what.windows(2).all(|pair| pair[0] != pair[1]), "nothing is told twice: {what:?}");
}

#[test]
fn what_the_machine_can_never_have_is_refused() {
    let login = Login::start(None);
    let yard = laptop(&login, "[jobs.big]\ncommand = ['true']\ngpus = 3\n", "gpus = 2\n");
    let ran = yard.run(&["run", "big", "--on", "box"]);
    assert_eq!(ran.exit, 5, "{ran:?}");
    let shown = yard.show("big");
    assert!(shown["reason"].as_str().is_some_and(|why| why.contains("needs 3 GPU")), "{shown}");
}

#[test]
fn two_laptops_stand_in_one_queue() {
    let login = Login::start(None);
    let first = laptop(&login, GATED, "cpus = 1\n");
    let second = laptop(&login, GATED, "cpus = 1\n");
    start(&first, &["gated"]);
    first.wait_for("gated", "running");
    start(&second, &["gated"]);
    second.wait_for("gated", "waiting");
    first.run(&["cancel", "gated"]);
    first.wait_for("gated", "cancelled");
    second.wait_for("gated", "running");
    open_gate(&login);
    second.wait_for("gated", "succeeded");
    assert_eq!(first.runs().len(), 1, "each knows its own");
    assert_eq!(second.run(&["logs", "gated"]).stdout, "up\nover\n");
}

#[test]
fn runs_go_on_when_the_yardmaster_there_is_killed() {
    let login = Login::start(None);
    let yard = laptop(&login, GATED, "");
    start(&yard, &["gated"]);
    yard.wait_for("gated", "running");
    processes::kill(yardmaster_there(&login));
    open_gate(&login);
    yard.wait_for("gated", "succeeded");
    let shown = yard.show("gated");
    assert_eq!(shown["attempts"].as_array().map(Vec::len), Some(1), "{shown}");
    assert_eq!(yard.run(&["logs", "gated"]).stdout, "up\nover\n");
}

#[test]
fn a_secret_is_in_the_program_and_nowhere_else() {
    let login = Login::start(None);
    let mut yard = laptop(&login, KEY, "");
    yard.set("MY_KEY", SECRET);
    start(&yard, &["key"]);
    yard.wait_for("key", "running");
    let folders = [depot(&login), yard.home(), yard.project()];
    assert_no_trace(&folders);
    let said = eventually("its log", || Some(yard.run(&["logs", "key"]).stdout).filter(|said| !said.is_empty()));
    open_gate(&login);
    yard.wait_for("key", "succeeded");
    assert_eq!(said, digest(), "it is the right one");
    let shown = yard.run(&["show", "key"]).stdout + &yard.show("key").to_string() + &yard.run(&["ps", "-a"]).stdout;
    assert!(!shown.contains(SECRET), "{shown}");
    assert_no_trace(&folders);
}

#[test]
fn secrets_are_brought_again_when_the_yardmaster_there_is_killed() {
    let login = Login::start(None);
    let mut yard = laptop(&login, KEY, "cpus = 1\n");
    yard.set("MY_KEY", SECRET);
    start(&yard, &["key", "--seeds", "1,2"]);
    yard.wait_for("key-s1", "running");
    processes::kill(yardmaster_there(&login));
    open_gate(&login);
    yard.wait_for("key-s2", "succeeded");
    assert_eq!(yard.show("key-s1")["state"], "succeeded");
    assert_eq!(yard.run(&["logs", "key-s2"]).stdout, digest());
    assert_no_trace(&[depot(&login), yard.home()]);
}

#[test]
fn a_machine_without_bash_will_do() {
    let login = Login::without_bash();
    let yard = laptop(
        &login,
        "[jobs.plain]\ncommand = ['sh', '-c', 'echo \"$GREETING\"; command -v bash || echo none']\n",
        "setup = ['export GREETING=hello']\n",
    );
    let ran = yard.run(&["run", "plain", "--on", "box"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert_eq!(yard.run(&["logs", "plain"]).stdout, "hello\nnone\n");
}

#[test]
fn laptops_with_different_builds_share_a_machine_in_peace() {
    let login = Login::start(None);
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("yard");
    std::fs::copy(env!("CARGO_BIN_EXE_yard"), &program).unwrap();
    // One that does the same and is another file.
    std::io::Write::write_all(&mut std::fs::File::options().append(true).open(&program).unwrap(), b"x").unwrap();
    let target = "cpus = 4\n";
    let old = laptop(&login, GATED, target);
    let new = laptop_with(program.to_str().unwrap(), &login, GATED, target);
    start(&old, &["gated", "--name", "first"]);
    old.wait_for("first", "running");
    start(&new, &["gated", "--name", "second"]);
    new.wait_for("second", "running");
    assert_eq!(std::fs::read_dir(depot(&login).join("bin")).unwrap().count(), 2, "two builds are there");
    let serves = yardmaster_there(&login);
    for _ in 0..3 {
        for (yard, run) in [(&old, "first"), (&new, "second")] {
            let before = yard.show(run)["site"]["seen"].clone();
            eventually("another look", || (yard.show(run)["site"]["seen"] != before).then_some(()));
        }
        assert_eq!(yardmaster_there(&login), serves, "the newer one serves both");
    }
    open_gate(&login);
    old.wait_for("first", "succeeded");
    new.wait_for("second", "succeeded");
}

/// The codec of the only image in the depot, as its squashfs says it.
fn codec(login: &Login<'_>) -> u16 {
    let images = std::fs::read_dir(depot(login).join("images")).unwrap().flatten().map(|entry| entry.path());
    let found: Vec<PathBuf> = images.filter(|path| path.extension().is_some_and(|ending| ending == "sif")).collect();
    let [image] = &found[..] else { panic!("{found:?}") };
    let bytes = std::fs::read(image).unwrap();
    // At the first page of the file that begins like one.
    let superblock = bytes.chunks(4096).find(|page| page.starts_with(b"hsqs")).unwrap();
    u16::from_le_bytes([superblock[20], superblock[21]])
}

#[test]
fn an_image_is_made_for_the_runtime_that_is_there() {
    let login = Login::start(None);
    let programs = login.home().join("programs");
    let setup = |path: &str| format!("setup = ['export PATH=\"{path}\" APPTAINER_UNSQUASH=1']\n");
    let job = "[image]\narchive = 'lab.tar'\n[jobs.train]\ncommand = ['cat', '/image']\n";
    let yard = laptop(&login, job, &setup(&format!("{}:$PATH", apptainer::programs().display())));
    apptainer::docker_archive(&yard.project().join("lab.tar"), "lab", |_| {});
    yard.write(".gitignore", "lab.tar\n");
    let ran = yard.run(&["run", "train", "--on", "box"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert!(ran.stdout.contains("lab\n"), "{ran:?}");
    assert_eq!(codec(&login), 6, "a new Apptainer opens zstd");

    // A machine that has nothing, and one that has an old Singularity only.
    std::fs::create_dir(&programs).unwrap();
    let other = laptop(&login, job, &setup(&programs.display().to_string()));
    apptainer::docker_archive(&other.project().join("lab.tar"), "lab", |_| {});
    let ran = other.run(&["run", "train", "--on", "box"]);
    assert_eq!(ran.exit, 5, "{ran:?}");
    assert!(ran.stderr.contains("none of `apptainer`, `singularity`, `podman` and `docker`"), "{ran:?}");
    let old = programs.join("singularity");
    std::fs::write(&old, "#!/bin/sh\necho singularity version 3.5.2\n").unwrap();
    std::fs::set_permissions(&old, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::remove_dir_all(depot(&login).join("images")).unwrap();
    let third = laptop(&login, job, &setup(&programs.display().to_string()));
    apptainer::docker_archive(&third.project().join("lab.tar"), "lab", |_| {});
    let pushed = third.run(&["image", "push", "--on", "box"]);
    assert_eq!(pushed.exit, 0, "{pushed:?}");
    assert_eq!(codec(&login), 1, "an old one opens gzip");
}
