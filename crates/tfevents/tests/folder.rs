//! Runs of several files and folders of several runs, as trainings leave them and while they grow.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

use trainyard_tfevents::{Folder, Kind, Overlap, Run, Stamp, State, Writer};

/// An event file with one scalar at these steps; the value is the step plus `shift`.
fn file(tag: &str, steps: impl IntoIterator<Item = i64>, shift: f32) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), 0.0).unwrap();
    for step in steps {
        writer.scalar(tag, Stamp { step, wall_time: step as f64 }, step as f32 + shift).unwrap();
    }
    writer.into_inner()
}

fn put(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
    fs::write(folder.join(name), content).unwrap();
}

fn steps(run: &Run, tag: &str) -> Vec<i64> {
    run.series(tag).map(|series| series.iter().map(|point| point.step).collect()).unwrap_or_default()
}

#[test]
fn several_files_are_one_run_in_the_order_of_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = Run::new(folder.path().join("later"));
    assert_eq!(run.poll().unwrap().events, 0, "a folder that is not there yet");
    put(folder.path(), "later/events.out.tfevents.1700000020.host", file("a", 20..30, 0.0));
    put(folder.path(), "later/events.out.tfevents.1700000010.host", file("a", 0..20, 0.0));
    put(folder.path(), "later/.events.out.tfevents.1700000010.host.Xk3", file("a", 0..20, 0.0));
    put(folder.path(), "later/model_0.pt", b"no event file");
    run.poll().unwrap();
    assert_eq!(steps(&run, "a"), (0..30).collect::<Vec<_>>());
    put(folder.path(), "later/events.out.tfevents.1700000030.host", file("a", 30..40, 0.0));
    assert_eq!(run.poll().unwrap().points, 10);
    assert_eq!(steps(&run, "a"), (0..40).collect::<Vec<_>>());
    assert_eq!(run.files().count(), 3);
}

#[test]
fn the_three_ways_with_overlap() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(Vec::new(), 0.0).unwrap();
    writer.session_start(Stamp { step: 6, wall_time: 0.0 }).unwrap();
    for step in [7, 8, 8] {
        writer.scalar("a", Stamp { step, wall_time: 0.0 }, 0.0).unwrap();
    }
    put(folder.path(), "tfevents.1", [file("a", 0..10, 0.0), file("b", 0..10, 0.0)].concat());
    put(folder.path(), "tfevents.2", writer.into_inner());
    let read = |overlap| {
        let mut run = Run::with_overlap(folder.path(), overlap);
        run.poll().unwrap();
        let dropped = run.series("a").unwrap().dropped();
        (steps(&run, "a"), steps(&run, "b"), dropped)
    };
    let all: Vec<i64> = (0..10).collect();
    assert_eq!(read(Overlap::Keep), ([&all[..], &[7, 8, 8]].concat(), all.clone(), 0));
    assert_eq!(read(Overlap::Declared), ([&all[..6], &[7, 8, 8]].concat(), all[..6].to_vec(), 4));
    assert_eq!(read(Overlap::Newest), ([&all[..7], &[7, 8]].concat(), all.clone(), 4));
}

#[test]
fn a_file_that_becomes_shorter_starts_the_run_over() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "tfevents.1", file("a", 0..10, 0.0));
    put(folder.path(), "tfevents.2", file("a", 10..20, 0.0));
    let mut run = Run::new(folder.path());
    run.poll().unwrap();
    put(folder.path(), "tfevents.2", file("a", 10..13, 0.5));
    run.poll().unwrap();
    assert_eq!(steps(&run, "a"), (0..13).collect::<Vec<_>>());
    assert_eq!(run.series("a").unwrap().last().unwrap().value, 12.5);
    assert_eq!(run.started_over(), 1);
}

#[test]
fn a_dead_or_deleted_file_does_not_stop_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let sound = file("a", 0..10, 0.0);
    put(folder.path(), "tfevents.1", [&sound[..], &[7; 40]].concat());
    put(folder.path(), "tfevents.2", file("b", 0..10, 0.0));
    let mut run = Run::new(folder.path());
    run.poll().unwrap();
    put(folder.path(), "tfevents.1", [&sound[..], &[7; 40], &sound].concat());
    fs::remove_file(folder.path().join("tfevents.2")).unwrap();
    put(folder.path(), "tfevents.3", file("c", 0..10, 0.0));
    assert_eq!(run.poll().unwrap().points, 10);
    assert_eq!((steps(&run, "a").len(), steps(&run, "b").len(), steps(&run, "c").len()), (10, 10, 10));
    let files: Vec<_> = run.files().map(|(_, file)| file).collect();
    assert_eq!(files[0].reader().state(), State::Damaged { at: sound.len() as u64 });
    assert_eq!(files[1].trouble().unwrap().source.kind(), std::io::ErrorKind::NotFound);
    assert!(files[2].trouble().is_none());
}

#[test]
fn folders_are_runs_named_by_their_path() {
    let folder = tempfile::tempdir().unwrap();
    let mut logs = Folder::new(folder.path());
    logs.poll();
    assert_eq!(logs.runs().count(), 0);
    put(folder.path(), "tfevents.1", file("a", 0..1, 0.0));
    put(folder.path(), "2026-01-01/train/tfevents.1", file("a", 0..2, 0.0));
    logs.poll();
    put(folder.path(), "2026-01-01/eval/tfevents.1", file("a", 0..3, 0.0));
    let (gain, troubles) = logs.poll();
    assert_eq!((gain.points, troubles.len()), (3, 0));
    assert_eq!(logs.runs().map(|(name, _)| name).collect::<Vec<_>>(), [".", "2026-01-01/eval", "2026-01-01/train"]);
    let names: Vec<_> = logs.tags().map(|(name, tag)| (name, tag.count())).collect();
    let expected = [("a", 1), ("2026-01-01/eval/a", 3), ("2026-01-01/train/a", 2)];
    assert_eq!(names, expected.map(|(name, count)| (name.to_owned(), count)));
}

#[cfg(unix)]
#[test]
fn links_out_of_the_tree_are_followed_once() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let (logs, elsewhere) = (folder.path().join("logs"), folder.path().join("elsewhere"));
    put(&logs, "run/tfevents.1", file("a", 0..1, 0.0));
    put(&elsewhere, "far/tfevents.1", file("a", 0..2, 0.0));
    symlink("run", logs.join("latest")).unwrap();
    symlink(".", logs.join("self")).unwrap();
    symlink(folder.path(), logs.join("up")).unwrap();
    symlink(&elsewhere, logs.join("scratch")).unwrap();
    symlink(&elsewhere, logs.join("run/again")).unwrap();
    symlink(&logs, elsewhere.join("back")).unwrap();
    symlink(elsewhere.join("far/tfevents.1"), logs.join("tfevents.linked")).unwrap();
    let mut logs = Folder::new(logs);
    assert!(logs.poll().1.is_empty());
    let names = |logs: &Folder| logs.runs().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&logs), [".", "run", "run/again/far"]);
    // A link that would come first, were it not too late.
    symlink(&elsewhere, folder.path().join("logs/another")).unwrap();
    put(&elsewhere, "new/tfevents.1", file("a", 0..2, 0.0));
    logs.poll();
    assert_eq!(names(&logs), [".", "run", "run/again/far", "run/again/new"]);
}

#[test]
fn kinds_by_tag() {
    let folder = tempfile::tempdir().unwrap();
    let stamp = Stamp { step: 1, wall_time: 2.0 };
    let mut writer = Writer::new(Vec::new(), 0.0).unwrap();
    writer.scalar("simple", stamp, 1.0).unwrap();
    writer.tensor_scalar("tensor", stamp, 2.0).unwrap();
    writer.text("text", stamp, "words").unwrap();
    writer.text("text", Stamp { step: 2, ..stamp }, "words").unwrap();
    put(folder.path(), "tfevents.1", writer.into_inner());
    let mut run = Run::new(folder.path());
    run.poll().unwrap();
    let kinds: Vec<_> = run.tags().map(|tag| (tag.name(), tag.kind().clone(), tag.count(), tag.last_seen())).collect();
    let expected = [
        ("simple", Kind::Scalar, 1, (1, 2.0)),
        ("tensor", Kind::Scalar, 1, (1, 2.0)),
        ("text", Kind::Text, 2, (2, 2.0)),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(run.series("tensor").unwrap().last().unwrap().value, 2.0);
    assert!(run.series("text").is_none());
}
