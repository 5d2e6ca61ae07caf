//! `yard export` to and from a real MLflow server from PyPI. `./test tracking` installs what is needed.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::process::Stdio;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::Value;
use trainyard_engine::tracking::{Mlflow, MlflowSettings, RunStatus, ServerRun};
use trainyard_testkit::mlflow::{self, Store};
use trainyard_testkit::{Yard, ports, within};

const PATIENCE: Duration = Duration::from_secs(180);

static SERVER: LazyLock<mlflow::Mlflow> = LazyLock::new(|| mlflow::Mlflow::start(Store::Sqlite, None));

/// Three points, an output, and two points more once the gate is open.
const FILE: &str = r#"
[jobs.train]
shell = """
for i in 1 2 3; do echo "{\\"step\\": $i, \\"reward\\": $i.5}" >> "$YARD_METRICS"; done
mkdir -p logs; echo weights > logs/model.pt
until [ -e GATE ]; do sleep 0.05; done
for i in 4 5; do echo "{\\"step\\": $i, \\"reward\\": $i.5}" >> "$YARD_METRICS"; done
# "$@"
"""
params = { lr = 0.1 }
seeds = [7]
outputs = ["logs/"]
metrics = "report"

[jobs.long]
command = ["python3", "-c", '''
import json, os
with open(os.environ["YARD_METRICS"], "a") as metrics:
    for step in range(12000):
        print(json.dumps(dict(step=step, reward=step / 4)), file=metrics)
''']
metrics = "report"

[jobs.quick]
command = ["sh", "-c", 'echo "reward ${0#--x=}"']
metrics.stdout = 'reward (?<reward>\S+)'

[sweeps.tune]
job = "quick"
metric = "reward"
goal = "maximize"
trials = 4
repeats = 1
[sweeps.tune.space]
x = { uniform = [0.0, 1.0] }
"#;

fn yard() -> Yard {
    let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), "");
    yard.write("trainyard.toml", &FILE.replace("GATE", &yard.root().join("gate").to_string_lossy()));
    yard.set("MLFLOW_TRACKING_URI", &SERVER.url());
    yard
}

fn open_gate(yard: &Yard) {
    std::fs::write(yard.root().join("gate"), "").unwrap();
}

fn server() -> Mlflow {
    Mlflow::new(&MlflowSettings::from_environment(Some(&SERVER.url()), None, |_| None).unwrap()).unwrap()
}

fn runs_in(experiment: &str) -> Vec<ServerRun> {
    let server = server();
    let Some(found) = server.experiment(experiment).unwrap() else { return Vec::new() };
    server.runs(&found).unwrap()
}

/// Steps and values of a metric at the server, by step.
fn history(run: &ServerRun, metric: &str) -> Vec<(i64, f64)> {
    let mut points: Vec<_> =
        server().history(&run.run_id, metric).unwrap().into_iter().map(|point| (point.step, point.value)).collect();
    points.sort_by_key(|point| point.0);
    points
}

#[test]
fn a_run_is_followed_to_its_end_and_sent_once() {
    let yard = yard();
    assert_eq!(yard.run(&["run", "train", "--detach"]).exit, 0);
    let words = ["--output", "json", "export", "mlflow", "train", "--experiment", "followed", "--watch", "--artifacts"];
    let mut export = yard.command(&words).stdout(Stdio::piped()).spawn().unwrap();
    within(PATIENCE, "the points so far", || {
        let runs = runs_in("followed");
        runs.first().filter(|run| history(run, "reward").len() == 3).map(drop)
    });
    let early = runs_in("followed").remove(0);
    assert_eq!((early.status, early.ended), (RunStatus::Running, None));
    open_gate(&yard);
    let status = within(PATIENCE, "the end of the export", || export.try_wait().unwrap());
    let said: Value = serde_json::from_reader(export.stdout.take().unwrap()).unwrap();
    assert!(status.success() && said["points"] == 5, "{said}");

    let [run] = <[ServerRun; 1]>::try_from(runs_in("followed")).unwrap();
    let row = yard.show("train-s7");
    assert_eq!((run.name.as_str(), run.status.clone()), ("train-s7", RunStatus::Finished));
    assert_eq!((run.params["lr"].as_str(), run.params["seed"].as_str()), ("0.1", "7"));
    assert_eq!(run.tags["trainyard.run"], row["id"].as_str().unwrap());
    assert_eq!((run.tags["trainyard.job"].as_str(), run.tags["trainyard.target"].as_str()), ("train", "local"));
    let all: Vec<(i64, f64)> = (1..=5).map(|step| (step, step as f64 + 0.5)).collect();
    assert_eq!(history(&run, "reward"), all);
    let files = server().artifacts(&run).unwrap();
    assert!(files.iter().any(|file| file.name == "logs/model.pt" && file.size == 8), "{files:?}");

    let again = yard.json(&["export", "mlflow", "train", "--experiment", "followed", "--artifacts"]);
    assert_eq!((&again["runs"], &again["points"], &again["artifacts"]), (&1.into(), &0.into(), &0.into()), "{again}");
    assert_eq!(history(&runs_in("followed").remove(0), "reward"), all);
}

/// Nothing is remembered here, so it does not matter when an export ends: the next one asks the server.
#[test]
fn an_export_that_is_killed_again_and_again_doubles_nothing() {
    let yard = yard();
    let done = yard.run(&["run", "long"]);
    assert_eq!(done.exit, 0, "{done:?}");
    let words = ["export", "mlflow", "long", "--experiment", "killed"];
    let at_server = || runs_in("killed").first().map_or(0, |run| history(run, "reward").len());
    let mut killed = 0;
    for _ in 0..5 {
        let before = at_server();
        let mut export = yard.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        within(PATIENCE, "some points to arrive", || {
            let is_over = export.try_wait().unwrap().is_some();
            (is_over || at_server() > before).then_some(())
        });
        killed += usize::from(export.try_wait().unwrap().is_none());
        export.kill().unwrap();
        export.wait().unwrap();
    }
    assert!(killed >= 2, "killed in the midst of it {killed} times");
    let ended = yard.json(&words);
    assert_eq!(ended["failed"].as_u64().unwrap_or(0), 0, "{ended}");
    let [run] = <[ServerRun; 1]>::try_from(runs_in("killed")).unwrap();
    let all: Vec<(i64, f64)> = (0..12_000).map(|step| (step, step as f64 / 4.0)).collect();
    assert_eq!(history(&run, "reward"), all);
    assert_eq!(run.status, RunStatus::Finished);
}

#[test]
fn trials_lie_below_their_sweep_and_come_back_as_event_files() {
    let yard = yard();
    let done = yard.run(&["sweep", "tune"]);
    assert_eq!(done.exit, 0, "{done:?}");
    let sent = yard.json(&["export", "mlflow", "tune", "--experiment", "nested"]);
    assert_eq!((&sent["runs"], &sent["points"]), (&5.into(), &4.into()), "{sent}");
    let runs = runs_in("nested");
    let parent = runs.iter().find(|run| run.name == "tune").unwrap();
    let best = yard.json(&["sweep", "best", "tune"]);
    assert_eq!(parent.tags["trainyard.best.x"].parse().ok(), best["params"]["x"].as_f64());
    let trials: Vec<_> = runs.iter().filter(|run| run.run_id != parent.run_id).collect();
    assert_eq!(trials.len(), 4);
    for trial in trials {
        assert_eq!((&trial.tags["mlflow.parentRunId"], &trial.status), (&parent.run_id, &RunStatus::Finished));
        assert_eq!(history(trial, "reward")[0].1, trial.params["x"].parse::<f64>().unwrap());
    }

    let url = SERVER.url();
    let back = ["export", "tensorboard", "--mlflow", &url, "--experiment", "nested", "board"];
    let written = yard.json(&back);
    assert_eq!((written["written"].as_array().unwrap().len(), &written["failed"]), (5, &0.into()), "{written}");
    let again = yard.json(&back);
    assert_eq!((&again["written"], &again["unchanged"]), (&Value::Array(Vec::new()), &5.into()), "{again}");
}

#[test]
fn a_server_that_cannot_be_reached_is_named() {
    let yard = yard();
    open_gate(&yard);
    assert_eq!(yard.run(&["run", "train"]).exit, 0);
    let nowhere = format!("http://127.0.0.1:{}", ports::free());
    let failed = yard.run(&["export", "mlflow", "train", "--uri", &nowhere]);
    assert_eq!(failed.exit, 4, "{failed:?}");
    assert!(failed.stderr.contains(&nowhere), "{failed:?}");
    let no_experiment = ["export", "tensorboard", "--mlflow", &SERVER.url(), "--experiment", "nobody's", "board"];
    let failed = yard.run(&no_experiment);
    assert!(failed.exit != 0 && failed.stderr.contains("nobody's"), "{failed:?}");
}
