//! What arrives when receipts are lost and servers die. A server that keeps files keeps every point it is sent, so one that
//! is sent twice shows.

use std::sync::atomic::Ordering;
use std::time::Duration;

use trainyard_engine::tracking::{Exporter, RunStatus};
use trainyard_testkit::mlflow::{Mlflow, Store};
use trainyard_testkit::within;

use super::{assert_history, client, cutter, found, points, run};

fn long_run(id: &str, count: i64) -> trainyard_engine::tracking::TrackedRun {
    let mut long = run(id);
    long.metrics =
        vec![("a".to_owned(), points(count)), ("b(0)".to_owned(), points(count)), ("c".to_owned(), points(10))];
    long.params = [("lr".to_owned(), "0.1".to_owned())].into();
    long.status = RunStatus::Finished;
    long
}

#[test]
fn lost_receipts_double_nothing() {
    let server = Mlflow::start(Store::Files, None);
    let direct = client(&server.url());
    for (what, every) in [("POST /api/2.0/mlflow/runs/log-batch", 3), ("POST /api/2.0/mlflow/runs/create", 1)] {
        let (port, losses) = cutter::start(server.port(), what, every);
        let name = format!("lost {every}");
        let mut exporter = Exporter::new(client(&format!("http://127.0.0.1:{port}")), &name).unwrap();
        let mut long = long_run("lossy", 1500);
        if every == 1 {
            // The receipt of a run's making is always lost; the run is found all the same.
            long.metrics.clear();
        }
        exporter.export(&long).unwrap();
        assert!(losses.load(Ordering::SeqCst) >= 1);
        let there = found(&direct, &exporter, "lossy");
        for (key, name) in [("a", "a"), ("b_0_", "b(0)"), ("c", "c")] {
            let expected = long.metrics.iter().find(|(metric, _)| metric == name).map(|(_, points)| points.as_slice());
            assert_history(&direct, &there, key, expected.unwrap_or_default());
        }
        assert_eq!(there.status, RunStatus::Finished);
        // It goes on, and receipts go on being lost.
        if every > 1 {
            for (_, points) in &mut long.metrics {
                *points = super::points(2500);
            }
            exporter.export(&long).unwrap();
            for key in ["a", "b_0_", "c"] {
                assert_history(&direct, &there, key, &points(2500));
            }
        }
    }
    killed_in_mid_export(server);
}

#[test]
fn a_server_that_is_killed_loses_and_doubles_nothing() {
    killed_in_mid_export(Mlflow::start(Store::Sqlite, None));
}

fn killed_in_mid_export(mut server: Mlflow) {
    let long = long_run("killed", 6_000);
    let mlflow = client(&server.url());
    let exporter = Exporter::new(mlflow.clone(), "killed").unwrap();
    let mut exporter = exporter.with_patience(Duration::from_secs(300));
    let batches = |server: &Mlflow| server.log().matches("log-batch HTTP/1.1\" 200").count();
    let first = batches(&server);
    std::thread::scope(|scope| {
        let export = scope.spawn(|| exporter.export(&long));
        for round in 1..=3 {
            within(Duration::from_secs(300), "some batches", || (batches(&server) >= first + round * 2).then_some(()));
            assert!(!export.is_finished(), "the export was done before the server was killed");
            server.kill();
            server.resume();
        }
        let done = export.join().unwrap().unwrap();
        assert!(done.requests > 12, "{done:?}");
    });
    let there = found(&mlflow, &exporter, "killed");
    for key in ["a", "b_0_"] {
        assert_history(&mlflow, &there, key, &points(6_000));
    }
    assert_eq!(there.status, RunStatus::Finished);

    // Away for longer than one waits: an error, and the next one goes on from what is there.
    server.kill();
    let mut more = long;
    more.metrics[0].1 = points(6_500);
    let mut hasty = exporter.with_patience(Duration::from_millis(10));
    let away = hasty.export(&more).unwrap_err();
    assert!(away.to_string().contains("nobody listens"), "{away}");
    server.resume();
    assert_eq!(hasty.export(&more).unwrap().points, 500);
    assert_history(&mlflow, &there, "a", &points(6_500));
}
