//! Torn, cut, flipped and replaced files: what was sound is read, nothing else is, and nothing is read twice.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;

use trainyard_tfevents::{Lost, Polled, Reader, Stamp, State, Writer};

fn stamp(step: i64) -> Stamp {
    Stamp { step, wall_time: 1.75e9 + step as f64 }
}

/// A small file with records of several kinds.
fn small_file() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), 1.75e9).unwrap();
    writer.scalar("loss", stamp(0), 0.5).unwrap();
    writer.tensor_scalar("reward", stamp(1), 1.5).unwrap();
    writer.text("notes", stamp(2), "some words").unwrap();
    writer.session_start(stamp(3)).unwrap();
    writer.scalars(stamp(300), [("loss", 0.25), ("reward", 2.5)]).unwrap();
    writer.scalar("loss", stamp(-1), 0.125).unwrap();
    writer.into_inner()
}

/// Where each record stands.
fn records(file: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < file.len() {
        let length = u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
        found.push(at..at + length + 16);
        at += length + 16;
    }
    found
}

/// Appends, as a writer does.
fn grow(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

/// A new file in the place of an old one.
fn replace(path: &Path, bytes: &[u8]) {
    let _ = fs::remove_file(path);
    grow(path, bytes);
}

fn poll(reader: &mut Reader, events: &mut Vec<String>) -> Polled {
    reader.poll(|event| events.push(format!("{event:?}"))).unwrap()
}

fn read_all(path: &Path) -> (Vec<String>, Reader) {
    let mut reader = Reader::new(path);
    let mut events = Vec::new();
    poll(&mut reader, &mut events);
    (events, reader)
}

#[test]
fn cut_at_every_byte_and_continued() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.out.tfevents.1");
    let file = small_file();
    fs::write(&path, &file).unwrap();
    let (expected, _) = read_all(&path);
    let records = records(&file);
    assert_eq!(expected.len(), records.len());
    for cut in 0..=file.len() {
        replace(&path, &file[..cut]);
        let (mut events, mut reader) = read_all(&path);
        let whole = records.iter().filter(|record| record.end <= cut).count();
        assert_eq!(events, expected[..whole], "cut at {cut}");
        let is_between = cut == 0 || records.iter().any(|record| record.end == cut);
        assert_eq!(reader.state(), if is_between { State::Whole } else { State::Torn }, "cut at {cut}");

        grow(&path, &file[cut..]);
        let polled = poll(&mut reader, &mut events);
        assert_eq!(events, expected, "cut at {cut}");
        assert_eq!((polled.state, reader.lost()), (State::Whole, Lost::default()), "cut at {cut}");
        assert!(polled.bytes <= file.len() as u64 - records.get(whole).map_or(cut, |record| record.start) as u64);
    }
}

#[test]
fn grown_byte_by_byte_no_byte_is_read_twice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.out.tfevents.1");
    let file = small_file();
    let mut reader = Reader::new(&path);
    let mut events = Vec::new();
    let mut bytes = 0;
    grow(&path, b"");
    for length in 1..=file.len() {
        grow(&path, &file[length - 1..length]);
        bytes += poll(&mut reader, &mut events).bytes;
        let complete = records(&file).iter().filter(|record| record.end <= length).count();
        assert_eq!(events.len(), complete, "at length {length}");
    }
    assert_eq!(bytes, file.len() as u64);
}

#[test]
fn flipped_at_every_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.out.tfevents.1");
    let file = small_file();
    fs::write(&path, &file).unwrap();
    let (sound, _) = read_all(&path);
    let records = records(&file);
    for bit in 0..file.len() * 8 {
        let mut flipped = file.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        replace(&path, &flipped);
        let (events, reader) = read_all(&path);
        let hit = records.iter().position(|record| record.contains(&(bit / 8))).unwrap();
        let at = records[hit].start as u64;
        if bit / 8 < records[hit].start + 12 {
            assert_eq!((reader.state(), events), (State::Damaged { at }, sound[..hit].to_vec()), "bit {bit}");
        } else {
            let mut others = sound.clone();
            others.remove(hit);
            assert_eq!(events, others, "bit {bit}");
            assert_eq!(reader.lost(), Lost { damaged: 1, first_at: Some(at), ..Lost::default() }, "bit {bit}");
            assert_eq!(reader.state(), State::Whole, "bit {bit}");
        }
    }
}

#[test]
fn a_damaged_file_is_not_read_further() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.out.tfevents.1");
    let file = small_file();
    let broken = [&file[..], b"this is no record, but there are enough bytes"].concat();
    fs::write(&path, &broken).unwrap();
    let (mut events, mut reader) = read_all(&path);
    let at = file.len() as u64;
    assert_eq!((events.len(), reader.state()), (records(&file).len(), State::Damaged { at }));

    grow(&path, &file);
    let unread = Polled { state: State::Damaged { at }, ..Polled::default() };
    assert_eq!(poll(&mut reader, &mut events), unread);

    fs::write(&path, &file).unwrap();
    assert_eq!(poll(&mut reader, &mut events).state, State::StartedOver);
    assert_eq!(poll(&mut reader, &mut events).events, records(&file).len() as u64);
}

/// Larger than what is read at once, with records that are larger than that too.
#[test]
fn records_across_the_edges_of_what_is_read_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.out.tfevents.1");
    let mut writer = Writer::new(Vec::new(), 0.0).unwrap();
    let text = "0123456789".repeat(90_000);
    for step in 0..60 {
        let size = (step as usize * 7_919) % 100_000 + if step % 20 == 7 { 500_000 } else { 0 };
        writer.text("text", stamp(step), &text[..size]).unwrap();
        (0..50).for_each(|_| writer.scalar("scalar", stamp(step), 1.0).unwrap());
    }
    let mut file = writer.into_inner();
    let records = records(&file);
    // Some records have a wrong sum, of zeros: of the small ones, and of those that fill the memory alone.
    let is_bad = |(at, record): &(usize, &Range<usize>)| at % 100 == 50 || record.len() > 500_000;
    let bad: Vec<_> = records.iter().enumerate().filter(is_bad).map(|(_, record)| record).collect();
    bad.iter().for_each(|record| file[record.end - 4..record.end].fill(0));
    for pace in [file.len(), 1_000_000, 262_144, 70_001] {
        replace(&path, b"");
        let (mut reader, mut events, mut bytes) = (Reader::new(&path), Vec::new(), 0);
        for piece in file.chunks(pace) {
            grow(&path, piece);
            bytes += poll(&mut reader, &mut events).bytes;
        }
        assert_eq!(events.len(), records.len() - bad.len(), "pace {pace}");
        assert_eq!((reader.state(), reader.lost().damaged), (State::Whole, bad.len() as u64), "pace {pace}");
        assert_eq!(bytes, file.len() as u64, "pace {pace}");
    }
}

#[test]
fn content_that_is_no_event_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.out.tfevents.1");
    let file = small_file();
    // A record whose sums are right and whose content is a group without end.
    let content = [0x0b_u8; 500];
    let mut record = (content.len() as u64).to_le_bytes().to_vec();
    record.extend(masked(&record.clone()));
    record.extend(content);
    record.extend(masked(&content));
    fs::write(&path, [&file[..], &record, &file].concat()).unwrap();
    let (events, reader) = read_all(&path);
    assert_eq!(events.len(), 2 * records(&file).len());
    assert_eq!(reader.lost(), Lost { undecodable: 1, first_at: Some(file.len() as u64), ..Lost::default() });
}

fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

#[test]
fn a_missing_file_is_an_error_that_passes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.out.tfevents.1");
    let mut reader = Reader::new(&path);
    let error = reader.poll(|_| {}).unwrap_err();
    assert_eq!(error.source.kind(), std::io::ErrorKind::NotFound);
    assert_eq!(error.to_string(), format!("cannot read `{}`", path.display()));
    fs::write(&path, small_file()).unwrap();
    assert_eq!(reader.poll(|_| {}).unwrap().events, 7);
}
