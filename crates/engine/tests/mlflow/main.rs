//! Against real MLflow servers from PyPI. `./test tracking` installs what is needed.
#![expect(clippy::unwrap_used, reason = "tests")]

mod cutter;
mod doubt;
mod event_files;
mod export;
mod guarded;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use trainyard_engine::tracking::{Exporter, Mlflow, MlflowSettings, Point, RunStatus, ServerRun, TrackedRun};
use trainyard_testkit::mlflow::{self, Store};
use trainyard_web::Trust;

/// For all tests that leave it running.
static SERVER: LazyLock<mlflow::Mlflow> = LazyLock::new(|| mlflow::Mlflow::start(Store::Sqlite, None));

const START: i64 = 1_700_000_000_123;

fn client(url: &str) -> Mlflow {
    Mlflow::new(&MlflowSettings { uri: url.to_owned(), auth: None, trust: Trust::default() }).unwrap()
}

fn shared() -> Mlflow {
    client(&SERVER.url())
}

fn run(id: &str) -> TrackedRun {
    TrackedRun {
        id: id.to_owned(),
        name: format!("name of {id}"),
        parent: None,
        params: BTreeMap::new(),
        tags: BTreeMap::new(),
        status: RunStatus::Running,
        started: START,
        ended: None,
        metrics: Vec::new(),
        artifacts: Vec::new(),
    }
}

fn points(count: i64) -> Vec<Point> {
    (0..count).map(|step| Point { step, time: START + 7 * step, value: step as f64 / 3.0 }).collect()
}

/// The server's only run with this id of ours.
fn found(mlflow: &Mlflow, exporter: &Exporter, id: &str) -> ServerRun {
    let runs = mlflow.runs(exporter.experiment()).unwrap();
    let ours: Vec<_> =
        runs.into_iter().filter(|run| run.tags.get("trainyard.run").is_some_and(|tag| tag == id)).collect();
    let [one] = <[ServerRun; 1]>::try_from(ours).unwrap_or_else(|runs| panic!("{} runs of {id}", runs.len()));
    one
}

/// That the server has exactly these points of a metric.
fn assert_history(mlflow: &Mlflow, run: &ServerRun, metric: &str, expected: &[Point]) {
    let mut points = mlflow.history(&run.run_id, metric).unwrap();
    points.sort_by_key(|point| (point.time, point.step));
    let bits = |point: &Point| (point.step, point.time, point.value.to_bits());
    let other = points.iter().zip(expected).find(|(there, expected)| bits(there) != bits(expected));
    assert!(
        points.len() == expected.len() && other.is_none(),
        "{metric}: {} of {}, {other:?}",
        points.len(),
        expected.len()
    );
}
