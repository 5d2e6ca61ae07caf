//! Event files that libFuzzer makes, led by which code they reach. The first byte says how the rest is meant: as a file,
//! or as records that get their lengths and checksums here, since nobody guesses a checksum.
//!
//! Each is read at once and, in pieces, while it grows. Both must see the same, read no more than there is, and hold no
//! more than the file's size allows.
#![no_main]

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use libfuzzer_sys::fuzz_target;
use trainyard_tfevents::{Folder, Overlap, Run, Tag};

thread_local! {
    /// In memory, one for each process.
    static FOLDER: RefCell<PathBuf> = RefCell::new({
        let folder = PathBuf::from(format!("/dev/shm/fuzz-events-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("memory");
        folder
    });
}

fuzz_target!(|data: &[u8]| {
    let [how, rest @ ..] = data else { return };
    let overlap = [Overlap::Keep, Overlap::Declared, Overlap::Newest][usize::from(how >> 2) % 3];
    let file = match how % 4 {
        0 => rest.to_vec(),
        _ => records(rest),
    };
    FOLDER.with_borrow(|folder| check(&file, folder, overlap, 1 + usize::from(how >> 4) * 7));
});

/// Every byte pair is a length, and what follows a payload of that length.
fn records(mut rest: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    while let [low, high, after @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (payload, after) = after.split_at(length);
        let length = (length as u64).to_le_bytes();
        file.extend([&length[..], &masked(&length), payload, &masked(payload)].concat());
        rest = after;
    }
    file
}

fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

fn check(file: &[u8], folder: &Path, overlap: Overlap, piece: usize) {
    let path = folder.join("events.out.tfevents.1");
    fs::write(&path, file).expect("memory");
    let mut at_once = Folder::with_overlap(folder, overlap);
    let (gain, _) = at_once.poll();
    assert!(gain.bytes <= file.len() as u64, "read {} of {} bytes", gain.bytes, file.len());
    let mut growing = Run::with_overlap(folder, overlap);
    fs::write(&path, []).expect("memory");
    let piece = piece.max(file.len() / 8);
    for end in (0..file.len()).step_by(piece).map(|begin| (begin + piece).min(file.len())) {
        fs::write(&path, &file[..end]).expect("memory");
        growing.poll().expect("memory");
    }
    let whole: Vec<_> = at_once.run(".").map(|run| run.tags().map(seen).collect()).unwrap_or_default();
    assert_eq!(whole, growing.tags().map(seen).collect::<Vec<_>>());
    let held: usize = whole.iter().map(|(name, _, points)| name.len() + points.len() * 24).sum();
    assert!(held <= 64 * file.len(), "{held} bytes from {}", file.len());
}

/// Bit by bit, as NaN is not itself.
fn seen(tag: &Tag) -> (String, u64, Vec<[u64; 3]>) {
    let bits = tag.series().iter().map(|at| [at.step.cast_unsigned(), at.wall_time.to_bits(), at.value.to_bits()]);
    (tag.name().to_owned(), tag.count(), bits.collect())
}
