//! The faults of Isaac Lab's `submit_job.py`, `wrap_resources.py` and `task_runner.py`, each by its number in the list of
//! them, and what happens here instead.

use std::net::TcpListener;

use trainyard_testkit::ray::Ray;
use trainyard_testkit::{Yard, eventually};

use crate::clusters;

fn yard(ray: &Ray, jobs: &str) -> Yard {
    let mut yard =
        Yard::new(env!("CARGO_BIN_EXE_yard"), &format!("[project]\nname = 'p'\n{jobs}\n{}", ray.target("r")));
    yard.set("YARD_PACE", "300");
    yard
}

/// There, any amount that was given raised an error, and so did two jobs on one node.
#[test]
fn fault_1_every_job_gets_the_resources_it_names() {
    let text = "
[jobs.one]
command = ['sh', '-c', 'echo $CUDA_VISIBLE_DEVICES']
gpus = 0.5
memory = '100MB'
node = '127.0.0.3'
[jobs.two]
command = ['sh', '-c', 'echo $CUDA_VISIBLE_DEVICES']
gpus = 0.5
cpus = 1
node = '127.0.0.3'
[jobs.part]
command = ['sh', '-c', 'echo $CUDA_VISIBLE_DEVICES']
per-node = 2
[groups.g]
jobs = ['one', 'two', 'part']";
    let ray = clusters::newest();
    let yard = yard(&ray, text);
    let ran = yard.run(&["run", "g", "--on", "r"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    for run in ["one", "two", "part"] {
        assert_eq!(yard.run(&["logs", run]).stdout, "0\n", "{run} has a part of the node's one GPU");
    }
}

/// There, `+env.x=1` was a second job, and quotes were lost when words were joined.
#[test]
fn fault_2_plus_and_star_are_letters_like_any_other() {
    let text = r#"
[jobs.hydra]
command = ["python3", "-c", "import json, sys; print(json.dumps(sys.argv[1:]))", "+env.x=1", "a + b", "*", "c * d", "'q'", "k={a:[1,2]}"]"#;
    let ray = clusters::of_isaac_lab();
    let yard = yard(&ray, text);
    let ran = yard.run(&["run", "hydra", "--on", "r", "--", "+more=2", "x  y"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    let said: Vec<String> = serde_json::from_str(&yard.run(&["logs", "hydra"]).stdout).unwrap();
    assert_eq!(said, ["+env.x=1", "a + b", "*", "c * d", "'q'", "k={a:[1,2]}", "+more=2", "x  y"]);

    yard.write("jobs.txt", "wrap_resources.py --sub_jobs a.py +env.x=1 + b.py '+y=2 3'");
    let imported = yard.run(&["import", "jobs.txt"]);
    assert_eq!(imported.exit, 0, "{imported:?}");
    assert!(imported.stdout.contains(r#"command = ["a.py", "+env.x=1"]"#), "{imported:?}");
    assert!(imported.stdout.contains(r#"command = ["b.py", "+y=2 3"]"#), "{imported:?}");
}

/// There, jobs that failed were "completed", their errors were dropped, and the exit code was 0.
#[test]
fn fault_5_exit_status_and_errors_arrive() {
    let text = "
[jobs.good]
command = ['true']
[jobs.bad]
command = ['sh', '-c', 'echo why >&2; exit 3']
[groups.g]
jobs = ['good', 'bad']";
    let ray = clusters::of_isaac_lab();
    let yard = yard(&ray, text);
    let ran = yard.run(&["run", "g", "--on", "r"]);
    assert_eq!(ran.exit, 1, "{ran:?}");
    assert_eq!((&yard.show("good")["state"], &yard.show("bad")["exit_code"]), (&"succeeded".into(), &3.into()));
    assert_eq!(yard.run(&["logs", "bad"]).stdout, "why\n");
}

/// There, processes on other nodes than the driver's were not found, and kept their GPUs.
#[test]
fn fault_7_what_runs_on_another_node_ends_with_its_run() {
    let text = "
[jobs.away]
command = ['sh', '-c', 'setsid sleep 4011 & sleep 4012']
node = '127.0.0.4'
grace = '1s'";
    let ray = clusters::of_isaac_lab();
    let yard = yard(&ray, text);
    assert_eq!(yard.run(&["run", "away", "--on", "r", "--detach"]).exit, 0);
    yard.wait_for("away", "running");
    let id = yard.show("away")["id"].as_str().unwrap().to_owned();
    let alive = || trainyard_testkit::processes::with_environment(&format!("YARD_RUN={id}"));
    eventually("its processes", || (alive().len() >= 3).then_some(()));
    assert_eq!(yard.run(&["cancel", "away"]).exit, 0);
    yard.wait_for("away", "cancelled");
    assert_eq!(alive(), Vec::<i32>::new());
}

/// There, a blank line ended the tool, an error that was written into the file was taken for a cluster, and jobs were dealt
/// out in turn, to dead clusters too.
#[test]
fn fault_10_a_list_with_blank_broken_and_dead_clusters() {
    let ray = clusters::of_isaac_lab();
    // One that refuses, and one that takes connections and says nothing.
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let text = format!(
        "[project]\nname = 'p'\n[jobs.quick]\ncommand = ['echo', 'hi']\nseeds = [1, 2, 3]\n[targets.all]\nkind = 'ray'\n\
         clusters = 'clusters.txt'\ndepot = '{}'",
        ray.depot().display()
    );
    let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), &text);
    yard.set("YARD_PACE", "300");
    let list = format!(
        "name: dead address: http://{dead}\n\nError: Could not find RAY_ADDRESS for cluster b\n\
         name: silent address: http://{}\nname: live address: {}\n",
        silent.local_addr().unwrap(),
        ray.address()
    );
    yard.write("clusters.txt", &list);
    for _ in 0..2 {
        let ran = yard.run(&["run", "quick", "--on", "all"]);
        assert_eq!(ran.exit, 0, "{ran:?}");
        assert!(ran.stderr.contains("clusters.txt: line 3: this is not `name: NAME address: URL`"), "{ran:?}");
    }
    let shown = yard.run(&["show", "quick-s1"]);
    assert!(shown.stdout.contains(&format!("http://{dead} was passed over")), "{shown:?}");
    assert!(shown.stdout.contains("has not answered for 5 seconds"), "{shown:?}");
    assert_eq!(yard.run(&["logs", "quick-s1"]).stdout, "hi\n");

    // A list that names none is no list.
    yard.write("clusters.txt", "\n\nfoo\n");
    let refused = yard.run(&["run", "quick", "--on", "all"]);
    assert_eq!(refused.exit, 3, "{refused:?}");
    assert!(refused.stderr.contains("no line of clusters.txt names a cluster"), "{refused:?}");
}

/// There, runs went to clusters in turn, however full they were.
#[test]
fn runs_go_where_there_is_room() {
    let (small, large) = (clusters::newest(), clusters::of_isaac_lab());
    let text = format!(
        "[project]\nname = 'p'\n[jobs.six]\ncommand = ['true']\ncpus = 6\n\
         [targets.all]\nkind = 'ray'\naddress = ['{}', '{}']\ndepot = '{}'\ntoken = {{ file = '{}' }}",
        small.address(),
        large.address(),
        large.depot().display(),
        small.token_file().display()
    );
    let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), &text);
    yard.set("YARD_PACE", "300");
    let ran = yard.run(&["run", "six", "--on", "all"]);
    assert_eq!(ran.exit, 0, "only one of them has a node of that size: {ran:?}");
    let shown = yard.run(&["show", "six"]).stdout;
    assert!(shown.contains(&format!(" at {}; ", large.address())), "{shown}");
    assert!(shown.contains("it needs 6 CPUs, and the largest node has 4 CPUs"), "{shown}");
}

/// A program that ends well only if its partner runs at the same time.
fn meets(root: &str, own: &str, other: &str) -> String {
    format!(
        "mkdir -p {root}; echo on $CUDA_VISIBLE_DEVICES > {root}/{own}; i=0; \
         while [ ! -e {root}/{other} ]; do i=$((i+1)); [ $i -gt 600 ] && exit 9; sleep 0.1; done"
    )
}

fn jobs(root: &str) -> String {
    let mut text = "[project]\nname = 'p'\n".to_owned();
    for group in ["one", "two"] {
        for (own, other) in [("a", "b"), ("b", "a")] {
            let (own, other) = (format!("{group}-{own}"), format!("{group}-{other}"));
            text += &format!("[jobs.{own}]\nshell = '''{}'''\ngpus = 1\n", meets(root, &own, &other));
        }
        text += &format!("[groups.{group}]\njobs = ['{group}-a', '{group}-b']\nstart = 'together'\n");
    }
    text
}

fn two_batches(ray: &Ray) {
    let meeting = tempfile::tempdir_in("/tmp").unwrap();
    let text = jobs(meeting.path().to_str().unwrap());
    let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), &format!("{text}\n{}", ray.target("r")));
    yard.set("YARD_PACE", "300");
    let holders = || {
        let jobs = ray.client().jobs().unwrap().into_iter();
        jobs.filter(|job| job.id.starts_with("together.")).count()
    };
    let before = holders();
    for group in ["one", "two"] {
        let sent = yard.run(&["run", group, "--on", "r", "--detach"]);
        assert_eq!(sent.exit, 0, "{sent:?}");
    }
    for group in ["one", "two"] {
        let waited = yard.run(&["wait", group]);
        assert_eq!(waited.exit, 0, "{group}: {waited:?} {}", yard.run(&["ps", "-l"]).stdout);
    }
    assert_eq!(holders() - before, 2, "one Ray job held the places of each group");
}

#[test]
fn fault_15_two_batches_that_start_together_do_not_block_each_other() {
    two_batches(&clusters::newest());
}

#[test]
fn fault_15_on_the_ray_of_isaac_lab() {
    two_batches(&clusters::of_isaac_lab());
}
