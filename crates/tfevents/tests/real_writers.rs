//! What the real writers write we read as TensorBoard reads it, and what we write TensorBoard reads as it was meant.
//! Needs a Python with `tensorboard`, `tensorboardX` and `numpy`, named by `YARD_TEST_PYTHON` (an absolute path); the
//! project's `./test` sets it.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use trainyard_tfevents::{Datum, Ending, FileWriter, Folder, Hparam, Kind, Overlap, Reader, Run, Stamp, State, What};

/// A point as `real_writers.py` prints it: run, tag, step, and the bits of wall time and value.
type Printed = (String, String, i64, String, String);

/// The interpreter, or `None` after saying why the test is skipped.
fn python() -> Option<OsString> {
    let python = std::env::var_os("YARD_TEST_PYTHON");
    if python.is_none() {
        let reason = "`YARD_TEST_PYTHON` names no Python with tensorboard and tensorboardX; `./test` sets it up";
        assert!(std::env::var_os("CI").is_none(), "not skipped in CI: {reason}");
        // Past the harness, which hides what a passing test prints.
        std::io::stderr().write_all(format!("skipped: {reason}\n").as_bytes()).unwrap();
    }
    python
}

fn script(python: &OsString, verb: &str, folder: &Path) -> Command {
    let mut command = Command::new(python);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real_writers.py")).arg(verb).arg(folder);
    command
}

fn output_of(mut command: Command) -> Vec<Vec<String>> {
    let output = command.output().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

fn points_in(lines: &[Vec<String>]) -> Vec<Printed> {
    let point = |line: &Vec<String>| {
        let [run, tag, step, wall_time, value] = &line[..] else { return None };
        Some((run.clone(), tag.clone(), step.parse().unwrap(), wall_time.clone(), value.clone()))
    };
    sorted(lines.iter().filter_map(point))
}

fn kinds_in(lines: &[Vec<String>]) -> BTreeSet<[String; 3]> {
    lines.iter().filter_map(|line| <[String; 3]>::try_from(line.clone()).ok()).collect()
}

fn points_of(folder: &Folder) -> Vec<Printed> {
    let mut points = Vec::new();
    for (run, content) in folder.runs() {
        for tag in content.tags() {
            points.extend(tag.series().iter().map(|point| {
                let name = tag.name().to_owned();
                (run.to_owned(), name, point.step, bits(point.wall_time), bits(point.value))
            }));
        }
    }
    sorted(points)
}

fn kinds_of(folder: &Folder) -> BTreeSet<[String; 3]> {
    let entry = |run: &str, name: &str, kind: &Kind| [run.to_owned(), name.to_owned(), format!("{kind:?}")];
    let runs = folder.runs();
    runs.flat_map(|(run, content)| content.tags().map(move |tag| entry(run, tag.name(), tag.kind()))).collect()
}

/// By tag; the order of a tag's points stays.
fn sorted(points: impl IntoIterator<Item = Printed>) -> Vec<Printed> {
    let mut points: Vec<_> = points.into_iter().collect();
    points.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    points
}

fn bits(number: f64) -> String {
    // Python's NaN and ours may differ in the bits that say nothing.
    if number.is_nan() { "7ff8000000000000".to_owned() } else { format!("{:016x}", number.to_bits()) }
}

fn polled(path: &Path, overlap: Overlap) -> Folder {
    let mut folder = Folder::with_overlap(path, overlap);
    let (_, troubles) = folder.poll();
    assert!(troubles.is_empty(), "{troubles:?}");
    folder
}

#[test]
fn we_read_what_event_accumulator_reads() {
    let Some(python) = python() else { return };
    let path = tempfile::tempdir().unwrap();
    output_of(script(&python, "write", path.path()));
    let lines = output_of(script(&python, "read", path.path()));
    let folder = polled(path.path(), Overlap::Declared);

    let expected = points_in(&lines);
    assert_eq!(expected.len(), 300 * 4 + 4 + 60 + 60 + 60 + 160 + 1 + 5 * 20);
    assert_eq!(points_of(&folder), expected);
    // EventAccumulator keeps hyperparameters elsewhere.
    let mut kinds = kinds_of(&folder);
    kinds.retain(|[_, _, kind]| kind != "Hparams");
    assert_eq!(kinds, kinds_in(&lines));
    assert!(folder.runs().flat_map(|(_, run)| run.tags()).any(|tag| *tag.kind() == Kind::Hparams));
}

#[test]
fn we_read_what_the_web_page_shows() {
    let Some(python) = python() else { return };
    let path = tempfile::tempdir().unwrap();
    output_of(script(&python, "write", path.path()));
    let mut points = points_of(&polled(path.path(), Overlap::Newest));
    // The data server knows no tensors but of DT_FLOAT.
    points.retain(|(run, tag, ..)| run != "tensors" || tag.starts_with("float32"));
    let mut serve = script(&python, "serve", path.path());
    serve.arg(points.len().to_string());
    assert_eq!(points, points_in(&output_of(serve)));
}

#[test]
fn we_follow_a_real_writer() {
    let Some(python) = python() else { return };
    let path = tempfile::tempdir().unwrap();
    let mut writer = script(&python, "grow", path.path()).stdout(Stdio::null()).spawn().unwrap();
    let mut run = Run::new(path.path());
    let (mut bytes, mut polls_with_gain) = (0, 0);
    loop {
        let ended = writer.try_wait().unwrap();
        let gain = run.poll().unwrap();
        bytes += gain.bytes;
        polls_with_gain += usize::from(gain.points > 0);
        if let Some(status) = ended {
            assert!(status.success());
            break;
        }
        std::thread::yield_now();
    }
    let steps: Vec<_> = run.series("reward").unwrap().iter().map(|point| (point.step, point.value as f32)).collect();
    assert_eq!(steps, (0..2000).map(|step| (step, (f64::from(step as i32) / 3.0) as f32)).collect::<Vec<_>>());
    let (_, file) = run.files().next().unwrap();
    assert_eq!((bytes, file.reader().state()), (file.reader().offset(), State::Whole));
    assert!(polls_with_gain > 1, "nothing was followed");
}

#[test]
fn tensorboard_reads_what_we_write() {
    let Some(python) = python() else { return };
    let path = tempfile::tempdir().unwrap();
    let (mut writer, file) = FileWriter::create(path.path().join("a/b")).unwrap();
    let stamp = |step: i64| Stamp { step, wall_time: 1.75e9 + step as f64 / 3.0 };
    for step in -2..200 {
        writer.scalar("Loss / Policy loss (größe)", stamp(step), step as f32 / 7.0).unwrap();
        writer.tensor_scalar("tensor", stamp(step), -step as f32 / 7.0).unwrap();
        writer.exact_scalar("exact", stamp(step), step as f64 / 7.0).unwrap();
        writer.scalars(stamp(step * 1_000_000_007), [("x", f32::INFINITY), ("y", f32::NAN), ("z", -0.0)]).unwrap();
    }
    writer.text("notes", stamp(3), "**größe** 🤖").unwrap();
    let values = [("lr".to_owned(), Hparam::Number(0.1)), ("task".to_owned(), Hparam::Text("größe".to_owned()))];
    writer.hparams(stamp(0), "a group", &values).unwrap();
    writer.hparams_end(stamp(200), Ending::Success).unwrap();
    writer.sync().unwrap();
    let lines = output_of(script(&python, "read", path.path()));
    let folder = polled(path.path(), Overlap::Declared);
    let series = folder.run("a/b").unwrap().series("exact").unwrap();
    assert!(series.iter().all(|point| point.value == point.step as f64 / 7.0), "we lose nothing");
    // TensorBoard sees what single precision holds.
    let single = |(run, tag, step, time, value): Printed| {
        let value = if tag == "exact" { bits(f64::from(step as f32 / 7.0)) } else { value };
        (run, tag, step, time, value)
    };
    let seen = |folder: &Folder| points_of(folder).into_iter().map(single).collect::<Vec<_>>();
    assert_eq!(seen(&folder), points_in(&lines));
    assert_eq!(points_of(&folder).len(), 202 * 6);
    let mut kinds = kinds_of(&folder);
    kinds.retain(|[_, _, kind]| kind != "Hparams");
    assert_eq!(kinds, kinds_in(&lines));
    let told = output_of(script(&python, "hparams", path.path()));
    assert_eq!(
        told,
        [
            ["a/b", "a group", "lr", "0.1"],
            ["a/b", "a group", "task", "größe"],
            ["a/b", "status", "1", "1750000066.6666667"]
        ]
    );
    let text: String = "**größe** 🤖".bytes().map(|byte| format!("{byte:02x}")).collect();
    assert!(lines.iter().any(|line| line.last() == Some(&text)), "{lines:?}");
    assert_eq!(texts_in(&file), ["**größe** 🤖"]);

    let mut serve = script(&python, "serve", path.path());
    serve.arg("1212");
    assert_eq!(seen(&folder), points_in(&output_of(serve)));

    // A restart, declared.
    let (mut writer, _) = FileWriter::create(path.path().join("a/b")).unwrap();
    writer.session_start(stamp(100)).unwrap();
    writer.flush().unwrap();
    let lines = output_of(script(&python, "read", path.path()));
    let mut points = seen(&polled(path.path(), Overlap::Declared));
    assert!(points.iter().all(|(_, _, step, ..)| *step < 100), "{points:?}");
    // EventAccumulator leaves tensors as they are.
    points.retain(|(_, tag, ..)| tag != "tensor");
    let mut expected = points_in(&lines);
    expected.retain(|(_, tag, ..)| tag != "tensor");
    assert_eq!(points, expected);
}

fn texts_in(file: &Path) -> Vec<String> {
    let mut texts = Vec::new();
    let mut take = |datum: Datum<'_>| {
        if let Datum::Tensor(tensor) = datum {
            texts.extend(tensor.strings().unwrap().iter().map(|text| String::from_utf8_lossy(text).into_owned()));
        }
    };
    let mut reader = Reader::new(file);
    reader
        .poll(|event| {
            if let What::Summary(summary) = event.what {
                summary.values().for_each(|value| take(value.unwrap().datum));
            }
        })
        .unwrap();
    texts
}
