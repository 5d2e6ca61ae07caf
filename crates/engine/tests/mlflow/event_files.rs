//! An experiment as event files, read by us and by TensorBoard itself.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use trainyard_engine::tracking::{Exporter, RunStatus, TrackingError, tensorboard};
use trainyard_tfevents::{Folder, Kind};

use super::{START, points, run, shared};

/// Step and bits of wall time and value, of one metric.
fn series(folder: &Path, run: &str, tag: &str) -> Vec<(i64, u64, u64)> {
    let mut logs = Folder::new(folder);
    let (_, troubles) = logs.poll();
    assert!(troubles.is_empty(), "{troubles:?}");
    let series = logs.run(run).unwrap().series(tag).unwrap_or_else(|| panic!("no {tag}"));
    series.iter().map(|point| (point.step, point.wall_time.to_bits(), point.value.to_bits())).collect()
}

fn expected(count: i64) -> Vec<(i64, u64, u64)> {
    let bits = |number: f64| number.to_bits();
    let one = |step: i64| (step, bits((START + 7 * step) as f64 / 1000.0), bits(f64::from((step as f64 / 3.0) as f32)));
    (0..count).map(one).collect()
}

#[test]
fn runs_become_event_files_and_are_refreshed() {
    let mlflow = shared();
    let mut exporter = Exporter::new(mlflow.clone(), "event files").unwrap();
    let mut going = run("going");
    going.metrics = vec![("Loss (max)".to_owned(), points(20)), ("reward".to_owned(), points(5))];
    going.params = [("net(0)".to_owned(), "größe\n\"🤖\"".to_owned())].into();
    going.tags = [("job".to_owned(), "train".to_owned())].into();
    let mut ended = run("ended");
    ended.status = RunStatus::Finished;
    ended.metrics = vec![("reward".to_owned(), points(3))];
    let names = [&going, &ended].map(|run| format!("run_{}", exporter.export(run).unwrap().run_id));

    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("tensorboard");
    let told = Mutex::new(Vec::new());
    let report = |done: usize, all: usize| told.lock().unwrap().push((done, all));
    let experiment = exporter.experiment().clone();
    let write = || tensorboard::write(&mlflow, &experiment, folder.path(), &report).unwrap();
    let written = write();
    assert_eq!((written.written.len(), written.unchanged, written.failed.len()), (2, 0, 0), "{written:?}");
    assert_eq!(*told.lock().unwrap(), [(1, 2), (2, 2)]);
    assert_eq!(series(&root, &names[0], "metrics/Loss (max)"), expected(20));
    assert_eq!(series(&root, &names[1], "metrics/reward"), expected(3));
    let mut logs = Folder::new(&root);
    logs.poll();
    let texts: Vec<_> = logs.run(&names[0]).unwrap().tags().filter(|tag| *tag.kind() == Kind::Text).collect();
    let texts: Vec<_> = texts.iter().map(|tag| tag.name()).collect();
    assert!(texts.contains(&"params/net(0)") && texts.contains(&"tags/job"), "{texts:?}");
    assert!(!texts.iter().any(|name| name.contains("trainyard.metric")), "{texts:?}");
    assert_eq!(as_tensorboard_reads(&root.join(&names[0])), "20 5 größe\\n\"🤖\" train");

    let written = write();
    assert_eq!((written.written.len(), written.unchanged), (0, 2), "{written:?}");

    // One goes on. What somebody put beside the file stays.
    std::fs::write(root.join(&names[0]).join("notes.txt"), "mine").unwrap();
    going.metrics[0].1 = points(30);
    exporter.export(&going).unwrap();
    let written = write();
    assert_eq!((written.written, written.unchanged), (vec![root.join(&names[0])], 1));
    assert_eq!(series(&root, &names[0], "metrics/Loss (max)"), expected(30));
    assert_eq!(std::fs::read_to_string(root.join(&names[0]).join("notes.txt")).unwrap(), "mine");
    let events = |name: &str| {
        let files = std::fs::read_dir(root.join(name)).unwrap().flatten();
        files.filter(|file| file.file_name().to_string_lossy().contains("tfevents")).count()
    };
    assert_eq!(events(&names[0]), 1);

    // Killed while one file was to take another's place: both are there, and the note says so.
    let note = root.join(&names[1]).join(".trainyard.json");
    let text = std::fs::read_to_string(&note).unwrap();
    let mut broken: serde_json::Value = serde_json::from_str(&text).unwrap();
    broken["made_from"] = serde_json::Value::Null;
    broken["files"].as_array_mut().unwrap().push("events.out.tfevents.9.mlflow.2".into());
    std::fs::write(&note, broken.to_string()).unwrap();
    std::fs::write(root.join(&names[1]).join("events.out.tfevents.9.mlflow.2"), "torn").unwrap();
    assert_eq!(write().written, [root.join(&names[1])]);
    assert_eq!((events(&names[1]), series(&root, &names[1], "metrics/reward")), (1, expected(3)));

    // What another tool made is not ours to replace.
    std::fs::write(root.join(&names[1]).join("events.out.tfevents.1.other"), "").unwrap();
    assert_eq!(write().foreign, [root.join(&names[1])]);

    let lock = std::fs::File::open(root.join(".trainyard.lock")).unwrap();
    lock.lock().unwrap();
    let busy = tensorboard::write(&mlflow, &experiment, folder.path(), &report).unwrap_err();
    assert!(matches!(busy, TrackingError::Busy { .. }), "{busy}");
}

/// Numbers of points, and texts, as TensorBoard's own reader finds them.
fn as_tensorboard_reads(folder: &Path) -> String {
    let script = "
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={'scalars': 0, 'tensors': 0})
events.Reload()
text = lambda tag: events.Tensors(tag)[0].tensor_proto.string_val[0].decode().replace('\\n', '\\\\n')
print(len(events.Scalars('metrics/Loss (max)')), len(events.Scalars('metrics/reward')), text('params/net(0)'), text('tags/job'))
";
    let python = std::env::var_os("YARD_TEST_PYTHON").unwrap();
    let output = Command::new(python).args(["-c", script]).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
