//! Runs on several nodes, and with several processes on one.

use trainyard_testkit::slurm::{Options, Slurm};
use trainyard_testkit::{eventually, processes};

use crate::site::Site;

/// Says who it is, then does what its second argument says.
const WORKER: &str = r#"
import json, os, signal, subprocess, sys, time

names = ["RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"]
said = {name: os.environ.get(name) for name in names}
said |= {"host": os.uname().nodename, "argv": sys.argv[2:], "cpus": os.environ["SLURM_CPUS_PER_TASK"], "folder": os.getcwd()}
print(json.dumps(said), flush=True)
match sys.argv[1]:
    case "fail" if os.environ["RANK"] == "1":
        sys.exit(37)
    case "fail" | "wait":
        # Out of its session and of its parents, as daemons do.
        subprocess.run("setsid sh -c 'sleep 600 & sleep 600' &", shell=True)
        time.sleep(600)
    case "save":
        def save(*_):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(0.7)
            print("saved", os.environ["RANK"], flush=True)
            sys.exit(0)
        signal.signal(signal.SIGTERM, save)
        print("up", flush=True)
        time.sleep(600)
    case "warned":
        def warned(*_):
            print("warned", os.environ["RANK"], flush=True)
            sys.exit(3)
        signal.signal(signal.SIGUSR2, warned)
        time.sleep(600)
"#;

fn site(job: &str) -> Site<'static> {
    let site = Site::new(Slurm::shared(), &format!("[jobs.train]\n{job}\n"), "");
    site.write("worker.py", WORKER);
    site
}

/// What each process said, by its rank.
fn said(log: &str) -> Vec<serde_json::Value> {
    let mut said: Vec<serde_json::Value> =
        log.lines().filter_map(|line| serde_json::from_str(&line[line.find('{')?..]).ok()).collect();
    said.sort_by_key(|one| one["RANK"].to_string());
    said
}

const HOSTILE: &[&str] =
    &["a b", "$HOME", "`id`", "{x: [1,2]}", "it's", "\"q\"", "*", "a,b;c&d|e", "-n", "--", "ü\n2", "", "\\"];

#[test]
fn processes_on_two_nodes_know_each_other_and_get_their_arguments() {
    let site =
        site("command = ['python3', 'worker.py', 'say', '{total_gpus}-{nodes}-{world_size}']\nnodes = 2\ncpus = 2");
    let ran = site.run(&[&["run", "train", "--on", "euler", "--"], HOSTILE].concat());
    assert_eq!(ran.exit, 0, "{ran:?}\n{}", site.slurm.log());
    let said = said(&ran.stdout);
    assert_eq!(said.len(), 2, "{ran:?}");
    for (rank, one) in said.iter().enumerate() {
        let rank = rank.to_string();
        assert_eq!(
            (&one["RANK"], &one["NODE_RANK"], &one["LOCAL_RANK"]),
            (&rank.clone().into(), &rank.into(), &"0".into())
        );
        assert_eq!((&one["WORLD_SIZE"], &one["LOCAL_WORLD_SIZE"]), (&"2".into(), &"1".into()));
        let arguments: Vec<&str> = one["argv"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        assert_eq!(arguments, [&["0-2-2"], HOSTILE].concat(), "byte for byte");
        assert_eq!(one["cpus"], "2");
    }
    assert_eq!(said[0]["MASTER_ADDR"], said[0]["host"], "the first node is where they meet");
    assert_eq!(said[0]["MASTER_ADDR"], said[1]["MASTER_ADDR"]);
    assert_eq!(said[0]["MASTER_PORT"], said[1]["MASTER_PORT"]);
    assert_ne!(said[0]["host"], said[1]["host"]);
    assert_eq!(said[0]["folder"], said[1]["folder"]);
}

#[test]
fn one_process_per_gpu() {
    let site = site("command = ['python3', 'worker.py', 'say']\nnodes = 2\ncpus = 2\ngpus = 2\ntasks = 'per-gpu'");
    let ran = site.run(&["run", "train", "--on", "euler"]);
    assert_eq!(ran.exit, 0, "{ran:?}\n{}", site.slurm.log());
    let said = said(&ran.stdout);
    let ranks: Vec<(&str, &str, &str)> = said
        .iter()
        .map(|one| {
            let of = |name: &str| one[name].as_str().unwrap();
            (of("RANK"), of("NODE_RANK"), of("LOCAL_RANK"))
        })
        .collect();
    assert_eq!(ranks, [("0", "0", "0"), ("1", "0", "1"), ("2", "1", "0"), ("3", "1", "1")]);
    assert!(
        said.iter().all(|one| one["WORLD_SIZE"] == "4" && one["LOCAL_WORLD_SIZE"] == "2" && one["cpus"] == "1"),
        "{said:?}"
    );
}

fn id(site: &Site<'_>) -> String {
    site.runs()[0]["id"].as_str().unwrap().to_owned()
}

fn processes_of(run: &str) -> Vec<i32> {
    processes::with_environment(&format!("YARD_RUN={run}"))
}

#[test]
fn one_that_fails_takes_the_others_with_it_and_its_status_arrives() {
    let site = site("command = ['python3', 'worker.py', 'fail']\nnodes = 2");
    let ran = site.run(&["run", "train", "--on", "euler"]);
    assert_eq!(ran.exit, 1, "{ran:?}");
    let shown = site.show("train");
    assert_eq!(shown["exit_code"], 37, "{shown:#}");
    let run = id(&site);
    eventually("all processes to be gone", || processes_of(&run).is_empty().then_some(()));
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let site = site("command = ['no-such-program', 'x']\nnodes = 2");
    let ran = site.run(&["run", "train", "--on", "euler"]);
    assert_eq!(ran.exit, 1, "{ran:?}");
    assert_eq!(site.show("train")["exit_code"], 127);
    assert!(ran.stdout.contains("cannot start `no-such-program`"), "{ran:?}");
}

#[test]
fn a_cancelled_run_leaves_nothing_on_the_second_node() {
    let site = site("command = ['python3', 'worker.py', 'wait']\nnodes = 2\ngrace = '2s'");
    assert_eq!(site.run(&["run", "train", "--on", "euler", "--detach"]).exit, 0);
    let run = eventually("a run", || site.runs().first().map(|_| id(&site)));
    let sleeping = || {
        let found = processes_of(&run);
        found
            .into_iter()
            .filter(|pid| {
                let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                line.split('\0').take(2).eq(["sleep", "600"])
            })
            .count()
    };
    eventually("two sleepers on each of two nodes", || (sleeping() == 4).then_some(()));
    assert_eq!(site.run(&["cancel", "train"]).exit, 0);
    site.wait_for("train", "cancelled");
    eventually("all processes to be gone", || processes_of(&run).is_empty().then_some(()));
}

#[test]
fn the_warning_arrives_on_both_nodes() {
    let site = site(
        "command = ['python3', 'worker.py', 'warned']\nnodes = 2\ntime = '40s'\n\
         [jobs.train.resume]\nattempts = 1\nwarn = { signal = 'USR2', before = '30s' }",
    );
    let ran = site.run(&["run", "train", "--on", "euler"]);
    let logs = site.run(&["logs", "train"]).stdout;
    assert!(logs.contains("warned 0") && logs.contains("warned 1"), "{logs}\n{ran:?}\n{}", site.slurm.log());
}

#[test]
fn a_single_process_does_without_srun() {
    let site = site("command = ['sh', '-c', 'echo step=${SLURM_STEP_ID:-none} rank=${RANK:-none}']");
    let ran = site.run(&["run", "train", "--on", "euler"]);
    assert!(ran.stdout.contains("step=none rank=none"), "{ran:?}");
}

#[test]
fn a_run_that_has_to_leave_its_nodes_may_save_first() {
    let slurm = Slurm::start(Options { nodes: 2, kill_wait: 6, ..Options::default() });
    let file = "[jobs.train]\ncommand = ['python3', 'worker.py', 'save']\nnodes = 2\ngrace = '5s'\n";
    let site = Site::new(&slurm, file, "");
    site.write("worker.py", WORKER);
    assert_eq!(site.run(&["run", "train", "--on", "euler", "--detach"]).exit, 0);
    let logs = || site.run(&["logs", "train"]).stdout;
    eventually("both to be up", || (logs().matches("up\n").count() == 2).then_some(()));
    slurm.preempt(&["n1", "n2"]);
    eventually("the end of the attempt", || site.show("train")["attempts"][0]["ended"].is_string().then_some(()));
    let logs = logs();
    assert!(logs.contains("saved 0") && logs.contains("saved 1"), "{logs}\n{}", slurm.log());
}
