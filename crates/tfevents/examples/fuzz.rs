//! Reads event files that somebody spoiled, until the time is over. Prints how many there were.
//!
//! ```text
//! ulimit -v 500000
//! cargo run --profile fuzz -p trainyard-tfevents --example fuzz [SECONDS] [SEED]
//! ```
//!
//! A file begins as one that our writer wrote, with scalars, tensors, texts and restarts. Then records are cut, doubled,
//! put elsewhere, given other lengths, other contents with a right sum, or messages within messages; or the bytes of
//! the file are changed as they are. Each is read at once and, in pieces, while it grows. Checked each time: nothing
//! panics, both ways see the same, no more is read than there is, and the memory held stays below what the file's size
//! allows; the limit of the shell ends it if more is asked for even for a moment. Whoever finds a mistake gets the seed and the file.

use std::error::Error;
use std::fs;
use std::io::{Write as _, stdout};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use trainyard_tfevents::{Folder, Overlap, Run, Stamp, Writer};

/// Of memory for each byte of the file: the smallest record with a point has 40 bytes and a point takes 24, but a
/// series of a few points has room for more, and each tag its name, its place in a table and its series.
const PER_BYTE: usize = 64;
/// Once for each reading: the buffers.
const ONCE: usize = 4 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds: u64 = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let seed: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    std::panic::set_hook(Box::new(|_| {}));
    let folder = tempfile::tempdir()?;
    let (began, limit) = (Instant::now(), Duration::from_secs(seconds));
    let (mut count, mut bytes, mut points) = (0_u64, 0_u64, 0_u64);
    while began.elapsed() < limit {
        let case = seed.wrapping_mul(1 << 32).wrapping_add(count);
        let file = spoiled(&mut Dice::new(case));
        let tried = catch_unwind(AssertUnwindSafe(|| check(&file, folder.path(), &mut Dice::new(!case))));
        let wrong = match tried {
            Ok(Ok(seen)) => {
                points += seen;
                None
            }
            Ok(Err(why)) => Some(why.to_string()),
            Err(panic) => Some(format!("panic: {:?}", panic.downcast_ref::<String>())),
        };
        if let Some(why) = wrong {
            let kept = PathBuf::from(format!("fuzz-{case}.tfevents"));
            fs::write(&kept, &file)?;
            return Err(format!("case {case}, kept as {}: {why}", kept.display()).into());
        }
        count += 1;
        bytes += file.len() as u64;
        if count.is_multiple_of(100_000) {
            say(count, bytes, points, began)?;
        }
    }
    say(count, bytes, points, began)
}

fn say(count: u64, bytes: u64, points: u64, began: Instant) -> Result<(), Box<dyn Error>> {
    let seconds = began.elapsed().as_secs();
    writeln!(stdout(), "{count} files, {bytes} bytes, {points} points understood, {seconds} s")?;
    Ok(())
}

fn check(file: &[u8], folder: &Path, dice: &mut Dice) -> Result<u64, Box<dyn Error>> {
    let path = folder.join("events.out.tfevents.1");
    let overlap = [Overlap::Keep, Overlap::Declared, Overlap::Newest][dice.below(3)];
    fs::write(&path, file)?;
    let before = held()?;
    let mut at_once = Folder::with_overlap(folder, overlap);
    let (gain, _) = at_once.poll();
    let memory = held()?.saturating_sub(before);
    if gain.bytes > file.len() as u64 {
        return Err(format!("read {} of {} bytes", gain.bytes, file.len()).into());
    }
    if memory > ONCE + PER_BYTE * file.len() {
        return Err(format!("{memory} bytes of memory for a file of {}", file.len()).into());
    }
    let mut growing = Run::with_overlap(folder, overlap);
    fs::write(&path, [])?;
    let longest = if dice.below(8) == 0 { 50 } else { file.len() };
    let mut end = 0;
    while end < file.len() {
        end = (end + 1 + dice.below(longest)).min(file.len());
        fs::write(&path, &file[..end])?;
        growing.poll()?;
    }
    let whole = at_once.run(".").map(digest).unwrap_or_default();
    if whole != digest(&growing) {
        return Err(format!("at once {whole:?}, in pieces {:?}", digest(&growing)).into());
    }
    fs::remove_file(&path)?;
    Ok(gain.points)
}

/// What was understood: tags, counts and points, bit by bit.
fn digest(run: &Run) -> Vec<(String, u64, usize, u64)> {
    let of = |tag: &trainyard_tfevents::Tag| {
        let mix = tag.series().iter().fold(0_u64, |sum, point| {
            let parts = [point.step.cast_unsigned(), point.wall_time.to_bits(), point.value.to_bits()];
            parts.iter().fold(sum, |sum, part| sum.rotate_left(5).wrapping_mul(31).wrapping_add(*part))
        });
        (tag.name().to_owned(), tag.count(), tag.series().len(), mix)
    };
    run.tags().map(of).collect()
}

/// The memory of this process, in bytes, that it could touch.
fn held() -> Result<usize, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/self/statm")?;
    let pages: usize = text.split(' ').next().unwrap_or_default().parse()?;
    Ok(pages * 4096)
}

fn written(dice: &mut Dice) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    let mut writer = Writer::new(Vec::new(), 1.5e9).expect("memory");
    let tags = ["a", "Train/mean_reward", "Reward / Total reward (mean)", ""];
    for step in 0..1 + dice.below(30) {
        let stamp = Stamp { step: step as i64 * dice.one_of(&[1, 100, -3]), wall_time: 1.5e9 + step as f64 };
        let tag = tags[dice.below(tags.len())];
        let done = match dice.below(6) {
            0 => writer.text(tag, stamp, "some *text*"),
            1 => writer.tensor_scalar(tag, stamp, 0.5),
            2 => writer.exact_scalar(tag, stamp, f64::from_bits(dice.next())),
            3 => writer.scalars(stamp, tags.map(|tag| (tag, step as f32))),
            4 => writer.session_start(stamp),
            _ => writer.scalar(tag, stamp, f32::from_bits(dice.next() as u32)),
        };
        done.expect("memory");
    }
    let mut rest = &writer.into_inner()[..];
    while let Some(length) = rest.first_chunk::<8>() {
        let (record, after) = rest.split_at(u64::from_le_bytes(*length) as usize + 16);
        records.push(record.to_vec());
        rest = after;
    }
    records
}

fn spoiled(dice: &mut Dice) -> Vec<u8> {
    let mut records = written(dice);
    for _ in 0..dice.below(6) {
        let at = dice.below(records.len());
        match dice.below(8) {
            0 => drop(records.remove(at)),
            1 => records.insert(at, records[dice.below(records.len())].clone()),
            2 => {
                let other = dice.below(records.len());
                records.swap(at, other);
            }
            3 => records[at] = framed(&deep(dice)),
            4 => {
                let length = dice.one_of(&[0, 1, 1 << 20, 1 << 26, 1 << 32, i64::MAX]).cast_unsigned();
                records[at].splice(..12, header(length));
            }
            5 => records[at] = framed(&(0..dice.below(200)).map(|_| dice.next() as u8).collect::<Vec<_>>()),
            _ => {
                let end = records[at].len() - 4;
                let mut payload = records[at][12..end].to_vec();
                mutate(&mut payload, dice);
                records[at] = framed(&payload);
            }
        }
        if records.is_empty() {
            break;
        }
    }
    let mut file = records.concat();
    if dice.below(3) == 0 {
        mutate(&mut file, dice);
    }
    file
}

fn mutate(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..1 + dice.below(4) {
        let (at, end) = (dice.below(bytes.len() + 1), dice.below(bytes.len() + 1));
        match dice.below(7) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, dice.next() as u8),
            2 => drop(bytes.drain(at.min(end)..at.max(end))),
            3 => bytes[at.min(end)..at.max(end)].fill(dice.one_of(&[0, 255, 127]) as u8),
            4 => {
                let part = bytes[at.min(end)..at.max(end)].to_vec();
                bytes.splice(at..at, part);
            }
            _ if !bytes.is_empty() => {
                let at = at.min(bytes.len() - 1);
                bytes[at] ^= 1 << dice.below(8);
            }
            _ => {}
        }
    }
}

/// A message within a message within a message.
fn deep(dice: &mut Dice) -> Vec<u8> {
    let mut message = Vec::new();
    for _ in 0..dice.below(2_000) {
        let mut outer = vec![dice.one_of(&[0x0a, 0x2a, 0x42, 0x4a]) as u8];
        let mut length = message.len() as u64;
        while length >= 0x80 {
            outer.push(length as u8 | 0x80);
            length >>= 7;
        }
        outer.push(length as u8);
        outer.extend(message);
        message = outer;
    }
    message
}

fn header(length: u64) -> Vec<u8> {
    [&length.to_le_bytes()[..], &masked(&length.to_le_bytes())].concat()
}

fn framed(payload: &[u8]) -> Vec<u8> {
    [&header(payload.len() as u64)[..], payload, &masked(payload)].concat()
}

fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// Numbers that come again with the same seed.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn one_of(&mut self, of: &[i64]) -> i64 {
        of[self.below(of.len())]
    }
}
