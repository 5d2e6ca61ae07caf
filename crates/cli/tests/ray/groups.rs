//! Groups on a cluster: together on several nodes, in order, on certain nodes.

use trainyard_testkit::{Yard, eventually};

use crate::clusters;

#[test]
fn the_members_of_a_gang_are_runs_like_any_other() {
    let ray = clusters::newest();
    let text = "[project]\nname = 'p'\n
        [jobs.good]\ncommand = ['sh', '-c', 'echo hello; mkdir out; echo 1 > out/x']\ngpus = 1\noutputs = ['out/']
        [jobs.bad]\ncommand = ['sh', '-c', 'echo oh; exit 7']\ngpus = 1
        [jobs.long]\ncommand = ['sh', '-c', 'sleep 4001 & sleep 4002']\ngpus = 1\ngrace = '1s'
        [jobs.wide]\ncommand = ['true']\ngpus = 1
        [groups.g]\njobs = ['good', 'bad']\nstart = 'together'
        [groups.longs]\njobs = ['long', 'good']\nstart = 'together'
        [groups.wides]\njobs = ['good', 'bad', 'wide']\nstart = 'together'\n";
    let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), &format!("{text}\n{}", ray.target("r")));
    yard.set("YARD_PACE", "300");

    let ran = yard.run(&["run", "g", "--on", "r"]);
    assert_eq!(ran.exit, 1, "{ran:?}");
    assert_eq!(yard.show("good")["state"], "succeeded");
    assert_eq!(yard.show("bad")["exit_code"], 7);
    assert_eq!(yard.run(&["logs", "good"]).stdout, "hello\n");
    let to = yard.root().join("home-again");
    let pulled = yard.run(&["pull", "good", "--to", to.to_str().unwrap()]);
    assert_eq!(pulled.exit, 0, "{pulled:?}");

    // What never fits at once is said before anything runs.
    let refused = yard.run(&["run", "wides", "--on", "r", "--detach"]);
    assert_eq!(refused.exit, 5, "{refused:?}");
    assert!(refused.stdout.contains("together they need 3 GPUs, and all nodes have 2 GPUs"), "{refused:?}");

    // Cancelling ends everything on the nodes.
    assert_eq!(yard.run(&["run", "longs", "--on", "r", "--detach"]).exit, 0);
    yard.wait_for("long", "running");
    let id = yard.show("long")["id"].as_str().unwrap().to_owned();
    let alive = || trainyard_testkit::processes::with_environment(&format!("YARD_RUN={id}"));
    eventually("its processes", || (alive().len() >= 3).then_some(()));
    assert_eq!(yard.run(&["cancel", "longs"]).exit, 0);
    yard.wait_for("long", "cancelled");
    assert_eq!(alive(), Vec::<i32>::new());
}

#[test]
fn a_node_that_dies_takes_only_its_own_members_of_a_gang() {
    let mut ray = clusters::newest();
    let shared = tempfile::tempdir_in("/tmp").unwrap();
    let go = shared.path().join("go");
    let text = format!(
        "[project]\nname = 'p'\n
        [jobs.any]\ncommand = ['sh', '-c', 'while [ ! -e $GO ]; do sleep 0.2; done']\ngpus = 1\nseeds = [1, 2]\ngrace = '1s'
        [jobs.any.env]\nGO = '{}'
        [jobs.any.resume]\nattempts = 2\non = ['node-failure']
        [groups.g]\njobs = ['any']\nstart = 'together'\n",
        go.display()
    );
    let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), &format!("{text}\n{}", ray.target("r")));
    yard.set("YARD_PACE", "300");
    assert_eq!(yard.run(&["run", "g", "--on", "r", "--detach"]).exit, 0);
    let runs = ["any-s1", "any-s2"];
    runs.iter().for_each(|run| drop(yard.wait_for(run, "running")));
    let on_second = |run: &&str| {
        let id = yard.show(run)["id"].as_str().unwrap().to_owned();
        ray.disk(2).join(format!("runs/{id}")).exists()
    };
    let (dies, stays): (Vec<&str>, Vec<&str>) = runs.into_iter().partition(on_second);
    assert_eq!((dies.len(), stays.len()), (1, 1), "one on each node");
    let attempts = |run: &str| yard.show(run)["attempts"].as_array().unwrap().clone();

    ray.kill_node(2);
    eventually("a second attempt for what ran there", || (attempts(dies[0]).len() == 2).then_some(()));
    assert_eq!(yard.show(stays[0])["state"], "running", "what runs on another node goes on");
    std::fs::write(&go, "").unwrap();
    ray.resume();
    for (run, executed) in [(stays[0], 1), (dies[0], 2)] {
        yard.wait_for(run, "succeeded");
        assert_eq!(attempts(run).len(), executed, "{run}: {}", yard.show(run));
    }
}

#[test]
fn in_order_on_certain_nodes_and_by_parts_of_a_node() {
    let ray = clusters::of_isaac_lab();
    let text = "[project]\nname = 'p'\n
        [jobs.first]\ncommand = ['true']\nnode = '127.0.0.4'
        [jobs.halves]\ncommand = ['sh', '-c', 'echo gpu $CUDA_VISIBLE_DEVICES']\nper-node = 2\nnode = '127.0.0.3'\nseeds = [1, 2]
        [jobs.fails]\ncommand = ['false']
        [jobs.never]\ncommand = ['true']
        [groups.steps]\njobs = ['first', 'halves', 'fails', 'never']\nstart = 'in-order'\n";
    let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), &format!("{text}\n{}", ray.target("r")));
    yard.set("YARD_PACE", "300");
    let ran = yard.run(&["run", "steps", "--on", "r"]);
    assert_eq!(ran.exit, 1, "{ran:?}");
    for run in ["first", "halves-s1", "halves-s2"] {
        assert_eq!(yard.show(run)["state"], "succeeded", "{}", yard.show(run));
    }
    let never = yard.show("never");
    assert_eq!((&never["state"], &never["reason"]), (&"cancelled".into(), &"not begun: `fails` failed".into()));

    let has = |node: usize, run: &str| {
        let id = yard.show(run)["id"].as_str().unwrap().to_owned();
        ray.disk(node).join(format!("runs/{id}")).exists()
    };
    assert!(has(2, "first") && !has(1, "first"));
    for run in ["halves-s1", "halves-s2"] {
        assert!(has(1, run), "{run}");
        // Half of two GPUs is one.
        let said = yard.run(&["logs", run]).stdout;
        assert!(["gpu 0\n", "gpu 1\n"].contains(&said.as_str()), "{said:?}");
    }
}
