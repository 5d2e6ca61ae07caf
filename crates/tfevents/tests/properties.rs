//! Properties that hold for every file: arbitrary bytes do no harm, growth in any steps ends the same, and what was
//! written comes back.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use trainyard_tfevents::{Buffer, Datum, Event, Lost, Overlap, Point, Reader, Run, Stamp, State, What, Writer};

/// The sums as the format wants them, written here a second time.
fn framed(payload: &[u8]) -> Vec<u8> {
    let masked = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let length = (payload.len() as u64).to_le_bytes();
    [&length[..], &masked(&length), payload, &masked(payload)].concat()
}

fn written(points: &[(String, i64, f64, f32)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), 0.0).unwrap();
    for (tag, step, wall_time, value) in points {
        writer.scalar(tag, Stamp { step: *step, wall_time: *wall_time }, *value).unwrap();
    }
    writer.into_inner()
}

fn points() -> impl Strategy<Value = Vec<(String, i64, f64, f32)>> {
    vec(("[a-d]|.{0,20}", any::<i64>(), any::<f64>(), any::<f32>()), 0..40)
}

/// Sound records, records with a wrong sum, records of nonsense, lengths beyond reason, zeros and plain garbage.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let flip = |(mut record, at, bit): (Vec<u8>, prop::sample::Index, u8)| {
        let at = at.index(record.len());
        record[at] ^= 1 << bit;
        record
    };
    let sound = points().prop_map(|points| written(&points)).boxed();
    prop_oneof![
        4 => sound.clone(),
        2 => (sound, any::<prop::sample::Index>(), 0..8_u8).prop_map(flip),
        2 => vec(any::<u8>(), 0..200).prop_map(|payload| framed(&payload)),
        1 => any::<u64>().prop_map(|length| {
            let length = length.to_le_bytes();
            let sum = crc32c::crc32c(&length).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
            [&length[..], &sum].concat()
        }),
        1 => (0..100_usize).prop_map(|count| vec![0; count]),
        1 => vec(any::<u8>(), 0..100),
    ]
}

fn any_file() -> impl Strategy<Value = Vec<u8>> {
    vec(piece(), 0..5).prop_map(|pieces| pieces.concat())
}

/// Looks at everything an event has.
fn look_at(event: Event<'_>) -> String {
    let mut seen = format!("{event:?}");
    if let What::Summary(summary) = event.what {
        for value in summary.values() {
            seen += &format!("{value:?}");
            if let Ok(value) = value {
                seen += &format!("{:?}", value.metadata());
                if let Datum::Tensor(tensor) = value.datum {
                    seen += &format!("{:?} {:?}", tensor.number(), tensor.strings());
                }
            }
        }
    }
    seen
}

#[derive(Debug, PartialEq)]
struct Outcome {
    events: Vec<String>,
    offset: u64,
    state: State,
    lost: Lost,
}

/// Lets a file grow to each of these lengths and polls in between.
fn read_in_steps(path: &Path, file: &[u8], lengths: &[usize]) -> (Outcome, u64) {
    let _ = fs::remove_file(path);
    let mut grown = File::create(path).unwrap();
    let mut reader = Reader::new(path);
    let mut buffer = Buffer::default();
    let (mut events, mut bytes) = (Vec::new(), 0);
    let mut before = 0;
    for length in lengths {
        grown.write_all(&file[before..*length]).unwrap();
        before = *length;
        bytes += reader.poll_with(&mut buffer, |event| events.push(look_at(event))).unwrap().bytes;
        assert!(buffer.capacity() <= *length, "{} bytes for a file of {length}", buffer.capacity());
    }
    (Outcome { events, offset: reader.offset(), state: reader.state(), lost: reader.lost() }, bytes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_messages_do_no_harm(payload in vec(any::<u8>(), 0..400)) {
        if let Ok(event) = Event::parse(&payload) {
            look_at(event);
        }
    }

    #[test]
    fn almost_sound_messages_do_no_harm(
        text in ".{0,10}",
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut writer = Writer::new(Vec::new(), 0.0).unwrap();
        let stamp = Stamp { step: 7, wall_time: 1.0 };
        writer.text(&text, stamp, &text).unwrap();
        writer.tensor_scalar(&text, stamp, 1.0).unwrap();
        let file = writer.into_inner();
        let mut payload = file[file.len() / 3..].to_vec();
        for start in 0..payload.len() {
            let index = start + at.index(payload.len() - start);
            payload[index] = byte;
            if let Ok(event) = Event::parse(&payload[start..]) {
                look_at(event);
            }
        }
    }

    #[test]
    fn growth_in_any_steps_ends_the_same(file in any_file(), cuts in vec(any::<prop::sample::Index>(), 0..8)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tfevents");
        let mut lengths: Vec<_> = cuts.iter().map(|cut| cut.index(file.len() + 1)).collect();
        lengths.sort_unstable();
        lengths.push(file.len());
        let (at_once, _) = read_in_steps(&path, &file, &[file.len()]);
        let (in_steps, _) = read_in_steps(&path, &file, &lengths);
        prop_assert_eq!(at_once, in_steps);
    }

    #[test]
    fn a_sound_file_is_read_once(points in points(), cuts in vec(any::<prop::sample::Index>(), 0..20)) {
        let folder = tempfile::tempdir().unwrap();
        let file = written(&points);
        let mut lengths: Vec<_> = cuts.iter().map(|cut| cut.index(file.len() + 1)).collect();
        lengths.sort_unstable();
        lengths.push(file.len());
        let (outcome, bytes) = read_in_steps(&folder.path().join("tfevents"), &file, &lengths);
        prop_assert_eq!((outcome.events.len(), outcome.offset), (points.len() + 1, file.len() as u64));
        prop_assert_eq!(bytes, file.len() as u64);
    }

    #[test]
    fn what_is_written_comes_back(points in points(), as_tensor in any::<bool>()) {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::new(Vec::new(), 0.0).unwrap();
        for (tag, step, wall_time, value) in &points {
            let stamp = Stamp { step: *step, wall_time: *wall_time };
            if as_tensor { writer.tensor_scalar(tag, stamp, *value) } else { writer.scalar(tag, stamp, *value) }.unwrap();
        }
        fs::write(folder.path().join("tfevents"), writer.into_inner()).unwrap();
        let mut run = Run::with_overlap(folder.path(), Overlap::Keep);
        prop_assert_eq!(run.poll().unwrap().points, points.len() as u64);
        for tag in run.tags() {
            let expected: Vec<_> = points.iter().filter(|(name, ..)| name == tag.name()).collect();
            let same = |(found, (_, step, wall_time, value)): (Point, &&(String, i64, f64, f32))| {
                let is_value = found.value == f64::from(*value) || (found.value.is_nan() && value.is_nan());
                found.step == *step && found.wall_time.to_bits() == wall_time.to_bits() && is_value
            };
            prop_assert_eq!(tag.series().len(), expected.len());
            prop_assert!(tag.series().iter().zip(&expected).all(same), "{:?} {:?}", tag, expected);
        }
    }

    #[test]
    fn arbitrary_folders_do_no_harm(files in vec(any_file(), 0..3)) {
        let folder = tempfile::tempdir().unwrap();
        for overlap in [Overlap::Keep, Overlap::Declared, Overlap::Newest] {
            let mut run = Run::with_overlap(folder.path(), overlap);
            for (at, file) in files.iter().enumerate() {
                fs::write(folder.path().join(format!("tfevents.{at}")), file).unwrap();
                run.poll().unwrap();
            }
            if overlap == Overlap::Newest {
                for tag in run.tags() {
                    let steps: Vec<_> = tag.series().iter().map(|point| point.step).collect();
                    prop_assert!(steps.is_sorted_by(|a, b| a < b), "{:?}", steps);
                }
            }
        }
    }
}
