#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::spec::{Layer, RaySpec, TargetKind, load};

fn specs(job: &str, target: &str) -> (JobSpec, RaySpec) {
    let text =
        format!("[jobs.a]\ncommand = ['x']\n{job}\n[targets.r]\nkind = 'ray'\naddress = 'http://h:1'\n{target}\n");
    let config = load(&[Layer { name: "f".to_owned(), text }], &[], "p").unwrap().config;
    let TargetKind::Ray(target) = config.targets["r"].kind.clone() else { panic!("another kind") };
    (config.jobs["a"].clone(), target)
}

fn node(name: &str, cpus: f64, gpus: f64) -> Node {
    let resources = [("CPU", cpus), ("GPU", gpus), ("memory", 8e9)];
    let resources = resources.into_iter().map(|(name, amount)| (name.to_owned(), amount)).collect();
    Node { id: format!("id-{name}"), ip: format!("10.0.0.{name}"), name: name.to_owned(), is_head: false, resources }
}

#[test]
fn a_name_tells_its_place() {
    assert_eq!(place(&submission_id("my.job", "y01", 7)), Some(("y01", 7)));
    for other in ["raysubmit_abc", "a.b", "", "a.b.c"] {
        assert_eq!(place(other), None, "{other}");
    }
}

#[test]
fn what_a_job_needs_is_asked_for() {
    let (job, target) = specs("gpus = 0.5\ncpus = 3\nmemory = '1GB'\ngrace = '5s'", "");
    let need = Need::of(&job, &target, &[]).unwrap();
    let empty = Submission {
        entrypoint: "x".to_owned(),
        submission_id: "s".to_owned(),
        runtime_env: RuntimeEnv::default(),
        metadata: BTreeMap::new(),
        entrypoint_num_cpus: None,
        entrypoint_num_gpus: None,
        entrypoint_memory: None,
        entrypoint_resources: BTreeMap::new(),
    };
    let text = serde_json::to_string(&empty.with(&job, &need)).unwrap();
    assert!(
        text.contains(r#""entrypoint_num_cpus":3.0,"entrypoint_num_gpus":0.5,"entrypoint_memory":1000000000}"#),
        "{text}"
    );
    assert!(text.contains(r#""RAY_JOB_STOP_WAIT_TIME_S":"18""#) && !text.contains("null"), "{text}");
}

#[test]
fn what_no_node_can_do_is_said() {
    let nodes = [node("1", 4.0, 1.0), node("2", 16.0, 0.0)];
    let why = |job: &str| {
        let (job, target) = specs(job, "");
        refuse(&Need::of(&job, &target, &nodes).unwrap(), &nodes)
    };
    assert_eq!(why("gpus = 2").unwrap(), "it needs 2 GPUs, and the largest node has 1 GPU");
    assert_eq!(why("memory = '16GB'").unwrap(), "it needs 16 GB of memory, and the largest node has 8 GB of memory");
    assert_eq!(why("gpus = 0.5\ncpus = 8").unwrap(), "no node has 0.5 GPUs, 8 CPUs at once");
    assert_eq!(why("gpus = 1\ncpus = 4"), None);
}

#[test]
fn what_is_waited_for_is_said() {
    let nodes = [node("1", 4.0, 1.0)];
    let (job, target) = specs("gpus = 1", "");
    let need = Need::of(&job, &target, &nodes).unwrap();
    let usage = Usage(BTreeMap::from([("GPU".to_owned(), (0.5, 1.0)), ("CPU".to_owned(), (1.0, 4.0))]));
    assert_eq!(waiting(&need, &nodes, &usage).unwrap(), "waits for 1 GPU; 0.5 of 1 are free");
}

#[test]
fn a_node_is_found_by_any_of_its_names() {
    let nodes = [node("1", 4.0, 1.0), node("2", 4.0, 1.0)];
    for name in ["2", "10.0.0.2", "id-2"] {
        let (job, target) = specs("", &format!("node = '{name}'\nresources = {{ disk = 0.5 }}"));
        let need = Need::of(&job, &target, &nodes).unwrap();
        assert_eq!(need.resources, BTreeMap::from([("disk".to_owned(), 0.5), ("node:10.0.0.2".to_owned(), 0.001)]));
    }
    let (job, target) = specs("", "node = 'nope'");
    assert_eq!(Need::of(&job, &target, &nodes).unwrap_err(), "there is no node `nope`; there are `1`, `2`");
}

#[test]
fn what_ray_says_is_read() {
    let jobs = serde_json::json!([
        {"type": "DRIVER", "submission_id": null, "status": "RUNNING"},
        {"submission_id": "a.y1.0", "status": "FAILED", "message": "Job supervisor actor failed to start within 900 seconds.",
         "start_time": 5, "end_time": 7, "driver_node_id": null, "metadata": {"yard": "x"}},
        {"submission_id": "b", "status": "PAUSED", "driver_node_id": "n"},
    ]);
    let rows = parse_jobs(&jobs).unwrap();
    assert_eq!(rows.len(), 2);
    assert!(rows[0].was_given_up() && rows[0].ended == Some(7) && rows[0].metadata["yard"] == "x");
    assert_eq!(rows[1].status, JobStatus::Other("PAUSED".to_owned()));
    let nodes = serde_json::json!({"data": {"result": {"result": [
        {"node_id": "a", "node_ip": "1", "state": "ALIVE", "is_head_node": false, "resources_total": {"CPU": 2.0}},
        {"node_id": "b", "node_ip": "2", "state": "DEAD"},
        {"node_id": "c", "node_ip": "3", "state": "ALIVE", "is_head_node": true, "resources_total": {}},
    ]}}});
    assert_eq!(parse_nodes(&nodes).unwrap().iter().map(|node| node.id.as_str()).collect::<Vec<_>>(), ["c", "a"]);
    assert_eq!(parse_jobs(&serde_json::json!({})), None);
}
