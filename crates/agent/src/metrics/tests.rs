#![expect(clippy::unwrap_used, reason = "tests")]
use std::io::Write;
use std::path::PathBuf;

use trainyard_core::id::RunId;
use trainyard_core::spec::{Layer, load};
use trainyard_tfevents::{FileWriter, Overlap, Run, Stamp};

use super::*;
use crate::depot::Depot;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        fs_err::create_dir_all(place.attempt().path()).unwrap();
        place
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn attempt(&self) -> AttemptFolder {
        Depot::new(self.folder.path().join("depot"))
            .run("01980000-0000-7000-8000-000000000001".parse::<RunId>().unwrap())
            .attempt(1)
    }

    fn reader(&self, metrics: &[MetricSource], objective: Option<&str>) -> MetricReader {
        MetricReader::new(&job(metrics, objective), &self.work(), &self.attempt()).unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.work().join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// What was written down, as somebody else reads it.
    fn recorded(&self, name: &str) -> Vec<(i64, f64)> {
        let mut run = Run::with_overlap(self.attempt().path(), Overlap::Newest);
        run.poll().unwrap();
        let series = run.series(name).map(|series| series.iter().map(|point| (point.step, point.value)).collect());
        series.unwrap_or_default()
    }
}

fn job(metrics: &[MetricSource], objective: Option<&str>) -> JobSpec {
    let text = "[jobs.train]\ncommand = [\"true\"]\n";
    let layer = Layer { name: "trainyard.toml".to_owned(), text: text.to_owned() };
    let mut job = load(&[layer], &[], "project").unwrap().config.jobs.remove("train").unwrap();
    job.metrics = metrics.to_vec();
    job.objective = objective.map(str::to_owned);
    job
}

fn last(reader: &MetricReader, name: &str) -> Option<(i64, Option<f64>)> {
    reader.latest().get(name).map(|point| (point.step, point.value))
}

fn stdout(pattern: &str) -> MetricSource {
    MetricSource::Stdout(pattern.to_owned())
}

#[test]
fn log_lines_are_matched_across_reads() {
    let place = Place::new();
    let mut reader = place.reader(&[stdout(r"it (?<step>\d+) reward (?<reward>\S+)")], None);
    reader.feed(b"noise\nit 7 rew");
    reader.feed(b"ard 1.5\rit 8 reward nan\nit 9 rewa");
    assert_eq!(last(&reader, "reward"), Some((8, None)));
    assert!(!reader.latest().contains_key("step"));
    assert!(reader.has_changed() && !reader.has_changed());
}

#[test]
fn event_files_are_followed_while_they_grow() {
    let place = Place::new();
    let mut reader = place.reader(&[MetricSource::Tensorboard("logs/".to_owned())], None);
    reader.poll();
    let (mut writer, _) = FileWriter::create(place.work().join("logs/run1")).unwrap();
    for step in [10, 20] {
        writer.scalar("Train/mean_reward", Stamp { step, wall_time: 1.0 }, step as f32 * 2.0).unwrap();
        writer.flush().unwrap();
        reader.finish(&job(&[], None));
        assert_eq!(last(&reader, "Train/mean_reward"), Some((step, Some(step as f64 * 2.0))));
    }
    assert_eq!(place.recorded("Train/mean_reward"), [(10, 20.0), (20, 40.0)]);
}

#[test]
fn what_lay_there_before_belongs_to_others() {
    let place = Place::new();
    let (mut writer, _) = FileWriter::create(place.work().join("logs/old")).unwrap();
    writer.scalar("reward", Stamp { step: 100, wall_time: 1.0 }, 1.0).unwrap();
    writer.flush().unwrap();
    place.write("m.jsonl", "{\"step\":5,\"loss\":1}\n");
    place.write("m.csv", "step,accuracy\n5,0.5\n");
    let sources = [
        MetricSource::Tensorboard("logs/".to_owned()),
        MetricSource::Jsonl("m.jsonl".to_owned()),
        MetricSource::Csv("*.csv".to_owned()),
    ];
    let mut reader = place.reader(&sources, None);
    reader.finish(&job(&[], None));
    assert!(reader.latest().is_empty(), "{:?}", reader.latest());
    let (mut writer, _) = FileWriter::create(place.work().join("logs/new")).unwrap();
    writer.scalar("reward", Stamp { step: 50, wall_time: 2.0 }, 2.0).unwrap();
    writer.flush().unwrap();
    place.write("m.jsonl", "{\"step\":6,\"loss\":2}\n");
    place.write("m.csv", "6,0.75\n");
    reader.finish(&job(&[], None));
    assert_eq!(last(&reader, "reward"), Some((50, Some(2.0))));
    assert_eq!(last(&reader, "loss"), Some((6, Some(2.0))));
    assert_eq!(last(&reader, "accuracy"), Some((6, Some(0.75))));
}

#[test]
fn a_training_that_goes_back_voids_what_it_had() {
    let place = Place::new();
    let mut reader = place.reader(&[stdout(r"(?<step>\d+)=(?<reward>\S+)")], Some("reward"));
    reader.feed(b"1=1\n2=2\n3=3\n2=2.1\n4=0.1\n");
    assert_eq!(reader.course().iter().map(|point| point.step).collect::<Vec<_>>(), [1, 2, 4]);
    reader.finish(&job(&[], None));
    assert_eq!(place.recorded("reward"), [(1, 1.0), (2, 2.1), (4, 0.1)]);
}

#[test]
fn the_lowest_rank_counts() {
    let place = Place::new();
    let mut job = job(&[], Some("reward"));
    (job.nodes, job.gpus) = (2, trainyard_core::spec::Gpus::Whole(1));
    let mut reader = MetricReader::new(&job, &place.work(), &place.attempt()).unwrap();
    let first = place.attempt().reported();
    let mut report = |rank: u32, step: i64| {
        let line = format!("{{\"step\":{step},\"reward\":{rank}.5}}\n");
        let file = fs_err::OpenOptions::new().create(true).append(true).open(of_rank(&first, rank));
        file.unwrap().write_all(line.as_bytes()).unwrap();
        reader.finish(&job);
    };
    for (rank, step) in [(1, 1), (1, 2), (0, 1), (1, 3), (0, 2)] {
        report(rank, step);
    }
    assert_eq!(place.recorded("reward"), [(1, 0.5), (2, 0.5)]);
}

#[test]
fn folders_beside_each_other_are_told_apart() {
    let place = Place::new();
    let mut reader = place.reader(&[MetricSource::Tensorboard("logs/".to_owned())], None);
    for folder in ["logs/a/train", "logs/a/validation", "logs/b", "logs/b/loss_sum"] {
        let (mut writer, _) = FileWriter::create(place.work().join(folder)).unwrap();
        writer.scalar("loss", Stamp { step: 1, wall_time: 1.0 }, 1.0).unwrap();
        writer.flush().unwrap();
    }
    reader.finish(&job(&[], None));
    let names: Vec<_> = reader.latest().keys().cloned().collect();
    assert_eq!(names, ["loss", "loss_sum/loss", "train/loss", "validation/loss"]);
}

#[test]
fn who_finds_nothing_is_told_what_was_looked_for() {
    let place = Place::new();
    let sources = [
        MetricSource::Tensorboard("logs/".to_owned()),
        MetricSource::Csv("m.csv".to_owned()),
        stdout("(?<a>x)"),
        MetricSource::Report,
    ];
    let notes = place.reader(&sources, Some("reward")).finish(&job(&sources, Some("reward")));
    assert_eq!(
        notes,
        ["no metrics were seen: nothing was said with `yard report`, no event files in `logs/`, no lines of numbers \
          below a header in `m.csv`, no line of the log matches `(?<a>x)`"]
    );
    let mut reader = place.reader(&[stdout("(?<a>\\d)")], Some("reward"));
    reader.feed(b"1\n");
    let notes = reader.finish(&job(&[stdout("")], Some("reward")));
    assert_eq!(notes, ["the metric `reward` was never seen; there were `a`"]);
    assert!(place.reader(&[], None).finish(&job(&[], None)).is_empty());
}

#[test]
fn a_poll_reads_no_more_than_its_budget() {
    let place = Place::new();
    let mut reader = place.reader(&[MetricSource::Jsonl("m.jsonl".to_owned())], None);
    let line = format!("{{\"step\":1,\"reward\":2,\"text\":\"{}\"}}\n", "x".repeat(10_000));
    place.write("m.jsonl", &line.repeat(1_000));
    let mut polls = 1;
    while reader.poll() {
        polls += 1;
    }
    assert_eq!(polls, (line.len() as u64 * 1_000).div_ceil(BUDGET));
}

#[test]
fn names_without_end_are_not_kept() {
    let place = Place::new();
    let mut reader = place.reader(&[MetricSource::Jsonl("m.jsonl".to_owned())], None);
    let lines: String = (0..MOST + 10).map(|name| format!("{{\"m{name}\":1}}\n")).collect();
    place.write("m.jsonl", &lines);
    let notes = reader.finish(&job(&[], None));
    assert_eq!((reader.latest().len(), notes.len()), (MOST, 1), "{notes:?}");
}
