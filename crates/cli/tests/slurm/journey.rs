//! What a researcher does all day.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use trainyard_testkit::slurm::{Options, Slurm};
use trainyard_testkit::waiting::patiently;
use trainyard_testkit::{eventually, processes};

use crate::site::Site;

#[test]
fn a_run_succeeds_and_its_results_come_home() {
    let site = Site::new(
        Slurm::shared(),
        "[jobs.train]\ncommand = ['sh', '-c', 'mkdir -p out; echo \"seed $YARD_SEED\" > out/result; echo hello; cat code.txt']\n\
         outputs = ['out']\nseeds = [3, 4]\n",
        "",
    );
    site.write("code.txt", "my code\n");
    let ran = site.run(&["run", "train", "--on", "euler"]);
    assert_eq!(ran.exit, 0, "{ran:?}\n{}", site.slurm.log());
    let log = site.run(&["logs", "train-s3"]);
    assert_eq!(log.stdout, "hello\nmy code\n", "{log:?}");
    let pulled = site.run(&["pull", "train", "--to", "home"]);
    assert_eq!(pulled.exit, 0, "{pulled:?}");
    let mut seeds = BTreeSet::new();
    for folder in std::fs::read_dir(site.project().join("home")).expect("results") {
        let result = folder.expect("a folder").path().join("out/result");
        seeds.insert(std::fs::read_to_string(result).expect("a result"));
    }
    assert_eq!(seeds, BTreeSet::from(["seed 3\n".to_owned(), "seed 4\n".to_owned()]), "every seed arrived");
}

#[test]
fn exit_status_and_reason_arrive() {
    let jobs =
        "[jobs.bad]\ncommand = ['sh', '-c', 'echo oops; exit 3']\n[jobs.absent]\ncommand = ['no-such-program']\n";
    let site = Site::new(Slurm::shared(), jobs, "");
    let ran = site.run(&["run", "bad", "--on", "euler"]);
    assert_eq!(ran.exit, 1, "{ran:?}");
    assert_eq!(site.show("bad")["exit_code"], 3);
    site.run(&["run", "absent", "--on", "euler"]);
    let absent = site.show("absent");
    assert_eq!(absent["exit_code"], 127, "{absent}");
    assert!(absent["reason"].as_str().is_some_and(|why| why.contains("no-such-program")), "{absent}");
    // SLURM knows it too.
    let states: Vec<String> = site.jobs_of("bad").into_iter().map(|row| row.state).collect();
    assert_eq!(states, ["FAILED"]);
}

#[test]
fn cancel_ends_what_runs_and_what_waits() {
    let jobs = "[jobs.long]\ncommand = ['sh', '-c', 'setsid sleep 976 & echo up; sleep 977']\n\
                [jobs.huge]\ncommand = ['true']\ncpus = 4\nseeds = [1, 2, 3]\n";
    let site = Site::new(Slurm::shared(), jobs, "directives = ['--hold']\n");
    site.run(&["run", "huge", "--on", "euler", "--detach"]);
    let shown = site.show("huge-s1");
    assert_eq!(shown["state"], "waiting", "{shown}");
    eventually("a reason", || site.show("huge-s1")["note"].as_str().map(str::to_owned));
    site.run(&["cancel", "huge"]);
    for seed in 1..=3 {
        site.wait_for(&format!("huge-s{seed}"), "cancelled");
    }
    assert!(site.live_jobs().is_empty(), "{:?}", site.live_jobs());

    let site = Site::new(Slurm::shared(), jobs, "");
    site.run(&["run", "long", "--on", "euler", "--detach"]);
    let id = site.wait_for("long", "running")["id"].as_str().map(str::to_owned).expect("an id");
    eventually("its output", || site.run(&["logs", "long"]).stdout.contains("up").then_some(()));
    site.run(&["cancel", "long"]);
    site.wait_for("long", "cancelled");
    assert_eq!(processes::with_environment(&format!("YARD_RUN={id}")), Vec::<i32>::new(), "grandchildren included");
    eventually("SLURM to be done with it", || site.live_jobs().is_empty().then_some(()));
}

#[test]
fn a_failed_run_is_retried_with_the_same_code() {
    let site = Site::new(Slurm::shared(), "[jobs.once]\ncommand = ['sh', '-c', 'cat code.txt; test -e go']\n", "");
    site.write("code.txt", "old\n");
    site.run(&["run", "once", "--on", "euler"]);
    site.write("code.txt", "new\n");
    let again = site.run(&["retry", "once"]);
    assert!(again.exit <= 1, "{again:?}");
    let ran = site.run(&["wait", "once", "--timeout", "60s"]);
    assert_eq!(ran.exit, 1, "{ran:?}");
    assert_eq!(site.run(&["logs", "once"]).stdout, "old\n");
}

#[test]
fn a_quarter_of_a_gpu_shares_an_allocation() {
    let jobs = "[jobs.share]\ncommand = ['sh', '-c', 'echo \"$SLURM_JOB_ID $CUDA_VISIBLE_DEVICES\"; sleep 2']\n\
                gpus = 0.25\nseeds = [1, 2, 3, 4, 5, 6]\n";
    let site = Site::new(Slurm::shared(), jobs, "");
    let ran = site.run(&["run", "share", "--on", "euler"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    let places: Vec<String> = (1..=6).map(|seed| site.run(&["logs", &format!("share-s{seed}")]).stdout).collect();
    let allocations: BTreeSet<&str> = places.iter().filter_map(|text| text.split(' ').next()).collect();
    assert_eq!(allocations.len(), 2, "four runs and two: {places:?}");
    assert_eq!(places.first(), places.get(3), "the first four share one GPU");
}

#[test]
fn one_run_of_a_shared_gpu_is_cancelled_alone() {
    let jobs = "[jobs.share]\ncommand = ['sh', '-c', 'echo up; while [ ! -e stop ]; do sleep 0.1; done']\ngpus = 0.5\nseeds = [1, 2]\n";
    let site = Site::new(Slurm::shared(), jobs, "");
    site.run(&["run", "share", "--on", "euler", "--detach"]);
    for seed in 1..=2 {
        site.wait_for(&format!("share-s{seed}"), "running");
    }
    site.run(&["cancel", "share-s1"]);
    site.wait_for("share-s1", "cancelled");
    assert_eq!(site.show("share-s2")["state"], "running");
    assert_eq!(site.live_jobs().len(), 1);
    site.run(&["cancel", "share-s2"]);
    site.wait_for("share-s2", "cancelled");
}

#[test]
fn five_hundred_runs_are_one_array() {
    // On a cluster that others share they would wait for each other's nodes.
    let slurm = Slurm::start(Options::default());
    let site = Site::new(&slurm, "[jobs.many]\ncommand = ['true']\nmemory = '10MB'\n", "");
    let ran = site.run(&["run", "many", "--on", "euler", "--seeds", "1-500", "--detach"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    let arrays: BTreeSet<String> = site.jobs_of("many").into_iter().map(|row| row.array).collect();
    assert_eq!(arrays.len(), 1, "{arrays:?}");
    let unfinished = || site.runs().into_iter().filter(|run| run["state"] != "succeeded").collect::<Vec<Value>>();
    let done = patiently(Duration::from_secs(240), || {
        let ran = site.run(&["wait", "many", "--timeout", "5s"]);
        (ran.exit != 6).then_some(())
    });
    assert!(done.is_some(), "{} are left: {:#?}\n{}", unfinished().len(), unfinished().first(), site.slurm.log());
    let states: BTreeSet<String> =
        site.runs().iter().filter_map(|run: &Value| run["state"].as_str().map(str::to_owned)).collect();
    assert_eq!(states, BTreeSet::from(["succeeded".to_owned()]));
}

#[test]
fn a_dry_run_shows_the_script_and_touches_nothing() {
    let site = Site::new(
        Slurm::shared(),
        "[jobs.train]\ncommand = ['python', 'x.py', \"it's\"]\ntime = '2h'\n",
        "account = 'me'\n",
    );
    site.write("x.py", "print(1)\n");
    let shown = site.run(&["run", "train", "--on", "euler", "--dry-run"]);
    assert_eq!(shown.exit, 0, "{shown:?}");
    for part in ["#SBATCH --account=me", "#SBATCH --time=", "agent parcel", "x.py", "nothing was sent"] {
        assert!(shown.stdout.contains(part), "{part} in {}", shown.stdout);
    }
    assert_eq!(
        std::fs::read_dir(site.login.home())
            .map(|folder| folder.filter(|it| it.as_ref().is_ok_and(|it| it.file_name() == "depot")).count())
            .unwrap_or(0),
        0
    );
    assert!(!site.home().join("ledger.db").exists(), "nor is anything remembered");
    assert_eq!(site.login.bytes(), 0, "nobody was called");
}

#[test]
fn nobody_waits_for_what_goes_on_in_the_background() {
    let site = Site::new(Slurm::shared(), "[jobs.long]\ncommand = ['sleep', '60']\n", "");
    let mut command = site.command(&["run", "long", "--on", "euler", "--detach"]);
    let mut child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().expect("yard");
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut out.expect("a pipe"), &mut text).expect("text");
        std::io::Read::read_to_string(&mut err.expect("a pipe"), &mut text).expect("text");
        tell.send(text)
    });
    child.wait().expect("an end");
    told.recv_timeout(Duration::from_secs(2)).expect("whoever reads its output sees the end of it");
    site.run(&["cancel", "long"]);
}

#[test]
fn on_the_login_node_itself_no_ssh_is_needed() {
    let slurm = Slurm::shared();
    let depot = tempfile::tempdir().expect("a folder");
    let file = format!(
        "[jobs.train]\ncommand = ['sh', '-c', 'echo \"on $SLURMD_NODENAME\"']\n\
         [targets.here]\nkind = \"slurm\"\ndepot = \"{}\"\n",
        depot.path().display()
    );
    let mut yard = trainyard_testkit::Yard::new(env!("CARGO_BIN_EXE_yard"), &file);
    slurm.env().iter().for_each(|(name, value)| yard.set(name, value));
    yard.set("YARD_PACE", "300");
    yard.set("YARD_SSH", "/nonexistent/ssh");
    let ran = yard.run(&["run", "train", "--on", "here"]);
    assert_eq!(ran.exit, 0, "{ran:?}\n{}", slurm.log());
    assert!(ran.stdout.starts_with("on n"), "{ran:?}");
}

#[test]
fn more_runs_than_an_array_may_have_are_several_arrays() {
    let slurm = Slurm::start(Options { max_array: 6, ..Options::default() });
    let site = Site::new(&slurm, "[jobs.many]\ncommand = ['sh', '-c', 'echo \"$YARD_SEED\"']\n", "");
    let ran = site.run(&["run", "many", "--on", "euler", "--seeds", "1-14"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    let arrays: BTreeSet<String> = site.jobs_of("many").into_iter().map(|row| row.array).collect();
    assert_eq!(arrays.len(), 3, "{arrays:?}");
    for seed in [1, 6, 7, 14] {
        assert_eq!(site.run(&["logs", &format!("many-s{seed}")]).stdout, format!("{seed}\n"));
    }
}
