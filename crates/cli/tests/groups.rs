//! Groups on this machine, and files of other tools that become groups.
#![expect(clippy::unwrap_used, reason = "tests")]

use trainyard_testkit::{Yard, processes};

const PROGRAM: &str = env!("CARGO_BIN_EXE_yard");

/// Jobs that write their names into the file `order`, beside the project.
fn yard(more: &str) -> Yard {
    let yard = Yard::new(PROGRAM, "");
    let order = yard.root().join("order");
    let (order, gate) = (order.display(), yard.root().join("go"));
    let gate = gate.display();
    let text = format!(
        "
[jobs.first]
command = ['sh', '-c', 'until [ -e {gate} ]; do sleep 0.02; done; echo first >> {order}']
[jobs.second]
command = ['sh', '-c', 'echo second$YARD_SEED >> {order}']
seeds = [1, 2]
[jobs.third]
command = ['sh', '-c', 'echo third >> {order}']
[jobs.fails]
command = ['false']
[groups.steps]
jobs = ['first', 'second', 'third']
start = 'in-order'
[groups.broken]
jobs = ['fails', 'third']
start = 'in-order'
[targets.local]
kind = 'local'
cpus = 2
{more}"
    );
    yard.write("trainyard.toml", &text);
    yard
}

fn order(yard: &Yard) -> Vec<String> {
    let text = std::fs::read_to_string(yard.root().join("order")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn in_order_survives_the_yardmaster() {
    let yard = yard("");
    let sent = yard.run(&["run", "steps", "--detach"]);
    assert_eq!(sent.exit, 0, "{sent:?}");
    yard.wait_for("first", "running");
    assert_eq!(yard.show("third")["note"], "waits for `first` and 2 more to succeed");
    yard.yardmasters().into_iter().for_each(processes::kill);
    std::fs::write(yard.root().join("go"), "").unwrap();
    assert_eq!(yard.run(&["wait", "steps", "--timeout", "60s"]).exit, 0);
    let order = order(&yard);
    assert_eq!((order.len(), order[0].as_str(), order[3].as_str()), (4, "first", "third"), "{order:?}");
}

#[test]
fn what_comes_after_a_failure_is_not_begun_and_can_be_retried() {
    let yard = yard("");
    let ran = yard.run(&["run", "broken"]);
    assert_eq!(ran.exit, 1, "{ran:?}");
    let third = yard.show("third");
    assert_eq!((&third["state"], &third["reason"]), (&"cancelled".into(), &"not begun: `fails` failed".into()));
    assert_eq!(third["group"], "broken");
    // Both again, and in order again.
    assert_eq!(yard.run(&["retry", "broken"]).exit, 1);
    assert_eq!(yard.show("third")["state"], "cancelled");
    // By itself it waits for nobody.
    assert_eq!(yard.run(&["retry", "third"]).exit, 0);
    assert_eq!(order(&yard), ["third"]);
    assert!(yard.run(&["ps"]).stdout.contains("broken"));
}

#[test]
fn cancelling_the_first_ends_the_rest() {
    let yard = yard("");
    yard.run(&["run", "steps", "--detach"]);
    yard.wait_for("first", "running");
    assert_eq!(yard.run(&["cancel", "first"]).exit, 0);
    yard.wait_for("third", "cancelled");
    assert_eq!(yard.show("second-s1")["reason"], "not begun: `first` was cancelled");
    assert_eq!(order(&yard), Vec::<String>::new());
}

/// Each ends well only if the other runs at the same time.
const PAIRS: &str = "
[jobs.a1]
command = ['sh', '-c', 'touch ROOT/a1; until [ -e ROOT/a2 ]; do sleep 0.02; done']
[jobs.a2]
command = ['sh', '-c', 'touch ROOT/a2; until [ -e ROOT/a1 ]; do sleep 0.02; done']
[jobs.b1]
command = ['sh', '-c', 'touch ROOT/b1; until [ -e ROOT/b2 ]; do sleep 0.02; done']
[jobs.b2]
command = ['sh', '-c', 'touch ROOT/b2; until [ -e ROOT/b1 ]; do sleep 0.02; done']
[groups.a]
jobs = ['a1', 'a2']
start = 'together'
[groups.b]
jobs = ['b1', 'b2']
start = 'together'
[groups.wide]
jobs = ['a1', 'a2', 'b1']
start = 'together'
";

#[test]
fn groups_that_start_together_do_not_block_each_other() {
    let yard = yard("");
    let file = std::fs::read_to_string(yard.project().join("trainyard.toml")).unwrap();
    let pairs = PAIRS.replace("ROOT", yard.root().to_str().unwrap());
    yard.write("trainyard.toml", &format!("{file}{pairs}"));
    // One of two cores is taken: neither group may take the other.
    yard.run(&["run", "first", "--detach"]);
    yard.wait_for("first", "running");
    for group in ["a", "b"] {
        assert_eq!(yard.run(&["run", group, "--detach"]).exit, 0);
    }
    for run in ["a1", "a2", "b1", "b2"] {
        assert_eq!(yard.show(run)["state"], "queued");
    }
    assert!(!yard.root().join("a1").exists() && !yard.root().join("b1").exists());
    std::fs::write(yard.root().join("go"), "").unwrap();
    for group in ["a", "b"] {
        assert_eq!(yard.run(&["wait", group, "--timeout", "60s"]).exit, 0, "{}", yard.run(&["ps", "-l"]).stdout);
    }
    let refused = yard.run(&["run", "wide"]);
    assert_eq!(refused.exit, 5, "{refused:?}");
    assert!(refused.stdout.contains("the 3 runs need 3 CPUs at once, this machine has 2"), "{refused:?}");
}

#[test]
fn a_dry_run_tells_the_whole_group() {
    let yard = yard("");
    let plan = yard.json(&["run", "steps", "--dry-run"]);
    assert_eq!((&plan["group"], &plan["start"]), (&"steps".into(), &"in-order".into()));
    let names = |index: usize| plan["plans"][index]["runs"][0]["name"].as_str().unwrap().to_owned();
    assert_eq!([names(0), names(1), names(2)], ["first", "second-s1", "third"]);
    assert!(yard.runs().is_empty());
    let extra = yard.run(&["run", "steps", "--", "--x"]);
    assert_eq!(extra.exit, 2, "{extra:?}");
}

#[test]
fn nodes_mean_nothing_on_one_machine() {
    let yard =
        yard("[jobs.pinned]\ncommand = ['true']\nnode = 'gpu-3'\n[jobs.parts]\ncommand = ['true']\nper-node = 2");
    for (job, says) in
        [("pinned", "wants the node `gpu-3`, and this is one machine"), ("parts", "on Ray clusters only")]
    {
        let refused = yard.run(&["run", job]);
        assert_eq!(refused.exit, 5, "{refused:?}");
        assert!(refused.stderr.contains(says), "{refused:?}");
    }
}

#[test]
fn imported_text_is_printed_or_written_once() {
    let yard = yard("");
    yard.write("tasks.yaml", "concurrent: true\nfoo: 1\ntasks:\n- name: t\n  py_args: a.py --x\n  num_gpus: 1\n");
    let printed = yard.run(&["import", "tasks.yaml"]);
    assert_eq!(printed.exit, 0, "{printed:?}");
    assert!(printed.stdout.contains("command = [\"python\", \"a.py\", \"--x\"]"), "{printed:?}");
    assert!(printed.stderr.contains("tasks.yaml: line 2: the key `foo` is not known, and was left out"), "{printed:?}");
    let written = yard.run(&["import", "tasks.yaml", "--to", "new.toml"]);
    assert_eq!(written.exit, 0, "{written:?}");
    assert_eq!(std::fs::read_to_string(yard.project().join("new.toml")).unwrap(), printed.stdout);
    let again = yard.run(&["import", "tasks.yaml", "--to", "new.toml"]);
    assert_eq!(again.exit, 3, "{again:?}");
    assert!(again.stderr.contains("is there already"), "{again:?}");
    yard.write("tasks.yaml", "a: &a [x]\ntasks: [*a]\n");
    let bad = yard.run(&["import", "tasks.yaml"]);
    assert_eq!(bad.exit, 3, "{bad:?}");
    assert!(bad.stderr.contains("tasks.yaml: line 2: aliases"), "{bad:?}");
    assert!(yard.yardmasters().is_empty(), "nothing was begun for that");
}
