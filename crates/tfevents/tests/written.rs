//! Files that torch's and TensorFlow's own writers once wrote; `written/write.py` made them and says what is in them.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use trainyard_tfevents::{Folder, Kind, Overlap, Run, State};

fn folder(name: &str) -> Folder {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/written").join(name);
    let mut folder = Folder::with_overlap(path, Overlap::Declared);
    let (gain, troubles) = folder.poll();
    assert!(troubles.is_empty() && gain.points > 0, "{troubles:?}");
    for (name, file) in folder.runs().flat_map(|(_, run)| run.files()) {
        assert_eq!(file.reader().state(), State::Whole, "{name:?}");
    }
    folder
}

fn points(run: &Run, tag: &str) -> Vec<(i64, f64)> {
    run.series(tag).unwrap().iter().map(|point| (point.step, point.value)).collect()
}

fn kind<'a>(run: &'a Run, tag: &str) -> &'a Kind {
    run.tag(tag).unwrap().kind()
}

/// As single precision holds them.
fn single(values: impl Iterator<Item = (i64, f64)>) -> Vec<(i64, f64)> {
    values.map(|(step, value)| (step, f64::from(value as f32))).collect()
}

#[test]
fn torch() {
    let folder = folder("torch-2.15.0");
    let run = folder.run(".").unwrap();
    // The second start voids what the first said from there on.
    let before = (0..40).map(|step| (step * 2048, step as f64 / 7.0));
    let after = (40..60).map(|step| (step * 2048, 1000.0 + step as f64));
    assert_eq!(points(run, "rollout/ep_rew_mean"), single(before.chain(after)));
    assert_eq!(points(run, "Loss / Value (mean)"), single((0..50).map(|step| (step, -1e-30 * step as f64))));
    let exact: Vec<(i64, f64)> = (0..50).map(|step| (step, 1.0 / (step + 1) as f64)).collect();
    assert_eq!(points(run, "exact"), exact, "in double precision");
    let times: Vec<f64> = run.series("exact").unwrap().iter().map(|point| point.wall_time).collect();
    assert_eq!(times, (0..50).map(|step| 1.7e9 + f64::from(step)).collect::<Vec<_>>());
    let odd = points(run, "odd");
    assert!(odd[0].1.is_nan() && odd[1] == (2, f64::INFINITY), "{odd:?}");
    assert_eq!(*kind(run, "notes/text_summary"), Kind::Text);
    assert_eq!(*kind(run, "weights"), Kind::Histogram);
    assert_eq!(*kind(run, "camera"), Kind::Image);
}

#[test]
fn tensorflow() {
    let folder = folder("tensorflow-2.21.0");
    let run = folder.run(".").unwrap();
    assert_eq!(points(run, "epoch_loss"), single((0..50).map(|step| (step, 1.0 / (step + 1) as f64))));
    let rates = points(run, "scope/learning rate");
    assert_eq!((rates.len(), rates[0]), (50, (0, f64::from(1e-3_f32))));
    assert_eq!(*kind(run, "notes"), Kind::Text);
    assert_eq!(*kind(run, "weights"), Kind::Histogram);
    assert_eq!(*kind(run, "camera"), Kind::Image);
    let old: Vec<(i64, f64)> = (0..20).map(|step| (step, step as f64 * 0.5)).collect();
    assert_eq!(points(folder.run("v1").unwrap(), "reward"), old);
}
