//! What arrives at a server that is well.

use trainyard_engine::tracking::{Artifact, Exporter, Point, RunStatus, TrackingError};

use super::{START, assert_history, found, points, run, shared};

#[test]
fn all_of_a_run_arrives_and_nothing_twice() {
    let mlflow = shared();
    let files = tempfile::tempdir().unwrap();
    let text = files.path().join("text");
    std::fs::write(&text, "hello").unwrap();
    let mut one = run("one");
    one.parent = Some("sweep".to_owned());
    one.params =
        [("lr", "0.1"), ("net(0)", "[64, 64]"), ("empty", "")].map(|(key, value)| (key.into(), value.into())).into();
    one.params.insert("long".to_owned(), "ä".repeat(9000));
    one.tags = [("job", "train"), ("host[1]", "größe 🤖")].map(|(key, value)| (key.into(), value.into())).into();
    one.metrics = vec![
        ("Train/mean_reward".to_owned(), points(2500)),
        ("Reward / Total reward (max)".to_owned(), points(3)),
        ("Reward / Total reward [max]".to_owned(), points(2)),
        (
            "odd".to_owned(),
            [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-320, -5.0]
                .into_iter()
                .zip(-2..)
                .map(|(value, step)| Point { step, time: START + step, value })
                .collect(),
        ),
        ("none yet".to_owned(), Vec::new()),
    ];
    one.artifacts = vec![Artifact { name: "a b/c#d.txt".to_owned(), path: text }];

    let mut exporter = Exporter::new(mlflow.clone(), "all of a run").unwrap();
    let done = exporter.export(&one).unwrap();
    assert_eq!((done.points, done.artifacts), (2510, 1));
    assert!(done.requests <= 5, "{done:?}");
    let there = mlflow.run(&found(&mlflow, &exporter, "one").run_id).unwrap();
    assert_eq!(there.run_id, done.run_id);
    assert_eq!((there.name.as_str(), there.status.clone(), there.started), ("name of one", RunStatus::Running, START));
    assert_eq!(there.params["lr"], "0.1");
    assert_eq!(
        (there.params["net_0_"].as_str(), there.tags["trainyard.param.net_0_"].as_str()),
        ("[64, 64]", "net(0)")
    );
    assert_eq!(there.params["long"].chars().count(), 6000);
    assert_eq!((there.tags["job"].as_str(), there.tags["host_1_"].as_str()), ("train", "größe 🤖"));
    assert_eq!(there.tags["mlflow.parentRunId"], found(&mlflow, &exporter, "sweep").run_id);
    assert_history(&mlflow, &there, "Train/mean_reward", &points(2500));
    for (name, count) in [("Reward / Total reward (max)", 3), ("Reward / Total reward [max]", 2)] {
        let tag = there.tags.iter().find(|(_, original)| *original == name).unwrap().0;
        let key = tag.strip_prefix("trainyard.metric.").unwrap();
        assert_history(&mlflow, &there, key, &points(count));
    }
    let odd: Vec<f64> = mlflow.history(&there.run_id, "odd").unwrap().iter().map(|point| point.value).collect();
    assert!(odd.len() == 5 && odd[0].is_nan() && odd[3].to_bits() == 1e-320f64.to_bits(), "{odd:?}");

    let listed = mlflow.artifacts(&there).unwrap();
    assert_eq!((listed[0].name.as_str(), listed[0].size, listed.len()), ("a b/c_d.txt", 5, 1));
    let to = tempfile::tempdir().unwrap();
    mlflow.download(&there, &listed[0].name, to.path()).unwrap();
    assert_eq!(std::fs::read_to_string(to.path().join("a b/c_d.txt")).unwrap(), "hello");

    // Again, by the same and by one that knows nothing.
    let again = exporter.export(&one).unwrap();
    assert_eq!((again.points, again.requests, again.artifacts), (0, 0, 0));
    let mut stranger = Exporter::new(mlflow.clone(), "all of a run").unwrap();
    let again = stranger.export(&one).unwrap();
    assert_eq!((again.points, again.requests, again.artifacts), (0, 0, 0));

    // It goes on, and ends.
    one.metrics[0].1 = points(2600);
    one.metrics[4].1 = points(1);
    one.status = RunStatus::Failed;
    one.ended = Some(START + 99);
    let more = exporter.export(&one).unwrap();
    assert_eq!((more.points, more.requests), (101, 1));
    let there = found(&mlflow, &exporter, "one");
    assert_eq!((there.status.clone(), there.ended), (RunStatus::Failed, Some(START + 99)));
    assert_history(&mlflow, &there, "Train/mean_reward", &points(2600));

    // The parent was made for its child's sake, and is itself when its turn comes.
    let sweep = run("sweep");
    exporter.export(&sweep).unwrap();
    assert_eq!(found(&mlflow, &exporter, "sweep").tags["mlflow.runName"], "name of sweep");
}

#[test]
fn experiments_are_found_made_and_missed() {
    let mlflow = shared();
    assert_eq!(mlflow.version().unwrap().split('.').count(), 3);
    let name = "größe / 'quoted' \"x\" & ?";
    assert_eq!(mlflow.experiment(name).unwrap(), None);
    let made = mlflow.experiment_or_new(name).unwrap();
    assert_eq!(mlflow.experiment_or_new(name).unwrap(), made);
    assert_eq!(mlflow.experiment(name).unwrap(), Some(made.clone()));
    let mut exporter = Exporter::new(mlflow.clone(), name).unwrap();
    exporter.export(&run("it's \\ \"quoted\"")).unwrap();
    exporter.export(&run("it's \\ \"quoted\"")).unwrap();
    found(&mlflow, &exporter, "it's \\ \"quoted\"");

    let order = serde_json::json!({ "experiment_id": made.id });
    let settings = trainyard_web::Settings::new(&mlflow.address()).unwrap();
    let raw = trainyard_web::Client::new(settings).unwrap();
    raw.post("api/2.0/mlflow/experiments/delete").send_json::<serde_json::Value>(&order).unwrap();
    let deleted = mlflow.experiment_or_new(name).unwrap_err();
    assert!(matches!(&deleted, TrackingError::Deleted { .. }), "{deleted}");
    assert!(deleted.to_string().contains("restore"), "{deleted}");
}

#[test]
fn more_pages_than_one_are_read() {
    let mlflow = shared();
    let mut one = run("many");
    one.metrics = vec![("reward".to_owned(), points(26_000))];
    let mut exporter = Exporter::new(mlflow.clone(), "pages").unwrap();
    let done = exporter.export(&one).unwrap();
    assert_eq!((done.points, done.requests), (26_000, 26));
    let there = found(&mlflow, &exporter, "many");
    assert_history(&mlflow, &there, "reward", &points(26_000));
    assert_eq!(Exporter::new(mlflow, "pages").unwrap().export(&one).unwrap().points, 0);
}

#[test]
fn what_is_no_mlflow_is_told() {
    let mlflow = super::client(&format!("{}/elsewhere", super::SERVER.url()));
    let error = Exporter::new(mlflow, "x").unwrap_err();
    assert!(error.to_string().contains("404"), "{error}");
}
