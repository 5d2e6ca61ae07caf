#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

fn remarks(imported: &Imported) -> Vec<String> {
    imported.remarks.iter().map(Remark::to_string).collect()
}

#[test]
fn a_list_of_tasks_is_a_group() {
    let text = r#"
pip: ["xformers"]
py_modules: []
concurrent: true
owner: me
tasks:
  - name: "Isaac-Cartpole v0"
    py_args: -m torch.distributed.run --nnodes=1 train.py --task=Isaac-Cartpole-v0 +env.x=1 'a b' agent={lr}
    num_gpus: 0.5
    num_cpus: 1.5
    memory: "10*1024*1024*1024"
    node:
      specific: hostname
      hostname: gpu-3
  - name: second
    py_args: eval.py --out $HOME/x
    gpus: 2
  - name: broken
  - name: odd
    py_args: x.py
    num_gpus: __import__('os')
"#;
    let imported = import(text).unwrap();
    insta::assert_snapshot!(imported.text, @r#"
    [jobs.Isaac-Cartpole-v0]
    command = ["python", "-m", "torch.distributed.run", "--nnodes=1", "train.py", "--task=Isaac-Cartpole-v0", "+env.x=1", "a b", "agent={{lr}}"]
    image = "none"
    gpus = 0.5
    cpus = 2
    memory = "10GiB"
    node = "gpu-3"

    [jobs.second]
    shell = "exec python eval.py --out $HOME/x"
    image = "none"

    [groups.tasks]
    jobs = ["Isaac-Cartpole-v0", "second"]
    start = "together"
    target = "ray"

    [targets.ray]
    kind = "ray"
    address = "http://127.0.0.1:8265"  # of your cluster's dashboard
    pip = ["xformers"]
    "#);
    insta::assert_debug_snapshot!(remarks(&imported), @r#"
    [
        "line 5: the key `owner` is not known, and was left out",
        "line 7: the task `Isaac-Cartpole v0` is called `Isaac-Cartpole-v0`",
        "line 10: `num_cpus` was 1.5, and is 2 now: yard counts whole cores",
        "line 17: the key `gpus` is not known, and was left out",
        "line 18: `py_args` is missing; the task was left out",
        "line 21: `num_gpus`: a number is missing at `__import__('os')`; the task was left out",
    ]
    "#);
}

#[test]
fn clusters_with_blank_and_broken_lines() {
    let text = "name: a address: http://10.0.0.1:8265\n\nError: Could not find RAY_ADDRESS for cluster b\n  name:  c   address:  https://c/ray/  \nname: d address: 10.0.0.4:8265\nname: a address: http://10.0.0.1:8265\n";
    let imported = import(text).unwrap();
    insta::assert_snapshot!(imported.text, @r#"
    # One target for all of them: a run goes to the one with the most room.
    [targets.ray]
    kind = "ray"
    address = [
        "http://10.0.0.1:8265",  # a
        "https://c/ray/",  # c
    ]
    "#);
    insta::assert_debug_snapshot!(remarks(&imported), @r#"
    [
        "line 3: this is not `name: NAME address: URL`, so it was passed over: Error: Could not find RAY_ADDRESS for cluster b",
        "line 5: the address is no `http://` or `https://` one, so it was passed over: name: d address: 10.0.0.4:8265",
        "line 6: http://10.0.0.1:8265 is named above already",
    ]
    "#);
}

#[test]
fn jobs_that_were_joined_are_taken_apart_at_words() {
    let text = r#"
# train both
python submit_job.py --config_file ~/.cluster_config \
    --aggregate_jobs train.py --task A +env.x=1 'a * b' \* train.py --task B
./isaaclab.sh -p wrap_resources.py --num_workers 4 --sub_jobs a.py --x + b.py +y=2
wrap_resources.py --gpu_per_worker 1 2 --cpu_per_worker 3 --ram_gb_per_worker 8 --speed 9 --sub_jobs "c.py + d.py"
echo done
"#;
    let imported = import(text).unwrap();
    insta::assert_snapshot!(imported.text, @r#"
    [jobs.train]
    command = ["/workspace/isaaclab/isaaclab.sh", "-p", "train.py", "--task", "A", "+env.x=1", "a * b"]
    image = "none"

    [jobs.train-2]
    command = ["/workspace/isaaclab/isaaclab.sh", "-p", "train.py", "--task", "B"]
    image = "none"

    [jobs.a]
    command = ["a.py", "--x"]
    image = "none"
    per-node = 4

    [jobs.b]
    command = ["b.py", "+y=2"]
    image = "none"
    per-node = 4

    [jobs.c]
    command = ["c.py"]
    image = "none"
    gpus = 1
    cpus = 3
    memory = "8GB"

    [jobs.d]
    command = ["d.py"]
    image = "none"
    gpus = 2
    cpus = 3
    memory = "8GB"

    [groups.tasks]
    jobs = ["train", "train-2", "a", "b", "c", "d"]
    start = "when-free"
    target = "ray"

    [targets.ray]
    kind = "ray"
    address = "http://127.0.0.1:8265"  # of your cluster's dashboard
    "#);
    insta::assert_debug_snapshot!(remarks(&imported), @r#"
    [
        "line 3: `--config_file ~/.cluster_config` was left out: name the cluster in the target",
        "line 6: `--speed` is not known, and was left out",
        "line 7: this holds no jobs, and was left out",
    ]
    "#);
}

#[test]
fn hostile_yaml_is_an_error_with_a_line() {
    let deep = format!("tasks: {}", "[".repeat(200_000));
    let bomb = "a: &a [x]\nb: &b [*a, *a, *a]\ntasks: [*b, *b]\n";
    let cases = [
        ("tasks:\n\t- name: x\n", "line 2"),
        (bomb, "line 2: aliases"),
        (deep.as_str(), "line 1: recursion limit exceeded"),
        ("tasks: [\n", "line "),
        ("tasks: 3\n", "line 1: `tasks` is to be a list"),
        ("tasks: []\ntasks: []\n", "line 2: `tasks` stands here twice"),
        ("tasks:\n- name: x\n  ? [a]\n  : b\n", "line 3: a key is to be plain text"),
        ("", "none of the files"),
        ("hello", "none of the files"),
        ("\u{0}\u{1}", ""),
    ];
    for (text, says) in cases {
        let error = import(text).unwrap_err().to_string();
        assert!(error.contains(says), "{:?}: {error}", &text[..text.len().min(40)]);
    }
}

#[test]
fn numbers_are_counted_as_they_were() {
    let cases = [
        ("10*1024*1024*1024", 10_737_418_240.0),
        ("2**3**2", 512.0),
        ("-2**2", -4.0),
        ("7//2 + 7%4", 6.0),
        ("-7//2", -4.0),
        ("(1 + 2) * 3", 9.0),
        ("1e3", 1000.0),
        ("8_000", 8000.0),
        ("0.25", 0.25),
    ];
    for (text, value) in cases {
        assert_eq!(arithmetic::evaluate(text), Ok(value), "{text}");
    }
    let deep = "(".repeat(100_000);
    for text in ["", "1/0", "1+", "a", "__import__('os')", "(1", "9**9**9", deep.as_str(), "1..2"] {
        assert!(arithmetic::evaluate(text).is_err(), "{}", &text[..text.len().min(20)]);
    }
}
