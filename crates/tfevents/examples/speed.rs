//! How fast this crate reads here. Writes logs into a temporary folder, reads them with every checksum checked and
//! every point kept, and prints the best of several rounds:
//!
//! ```text
//! cargo run --release -p trainyard-tfevents --example speed
//! cargo run --release -p trainyard-tfevents --example speed read FOLDER [ROUNDS]
//! cargo run --release -p trainyard-tfevents --example speed write FOLDER STEPS
//! cargo run --release -p trainyard-tfevents --example speed follow FOLDER
//! ```
//!
//! The others do one part of it with the logs of a folder. `TMPDIR=/dev/shm` keeps the disk out of it.

use std::error::Error;
use std::fs;
use std::io::{Write, stdout};
use std::path::Path;
use std::time::{Duration, Instant};

use trainyard_tfevents::{Buffer, FileWriter, Folder, Gain, Reader, Run, Stamp, Tag};

const ROUNDS: usize = 7;

/// The tags of an rsl_rl training.
const TAGS: [&str; 20] = [
    "Loss/value_function",
    "Loss/surrogate",
    "Loss/entropy",
    "Loss/learning_rate",
    "Policy/mean_noise_std",
    "Perf/total_fps",
    "Perf/collection time",
    "Perf/learning_time",
    "Train/mean_reward",
    "Train/mean_episode_length",
    "Train/mean_reward/time",
    "Train/mean_episode_length/time",
    "Episode_Reward/track_lin_vel_xy_exp",
    "Episode_Reward/track_ang_vel_z_exp",
    "Episode_Reward/feet_air_time",
    "Episode_Reward/dof_torques_l2",
    "Curriculum/terrain_levels",
    "Metrics/base_velocity/error_vel_xy",
    "Episode_Termination/time_out",
    "Episode_Termination/base_contact",
];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => everything(),
        ["read", folder] => report("given folder", Path::new(folder), ROUNDS),
        ["read", folder, rounds] => report("given folder", Path::new(folder), rounds.parse()?),
        ["write", folder, steps] => write_scalars(Path::new(folder), steps.parse()?),
        ["follow", folder] => report_growth(Path::new(folder)),
        _ => Err("read FOLDER [ROUNDS], write FOLDER STEPS, or follow FOLDER".into()),
    }
}

fn everything() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let scalars = folder.path().join("scalars");
    write_scalars(&scalars, 130_000)?;
    report("scalars, one a record", &scalars, ROUNDS)?;
    let grouped = folder.path().join("grouped");
    write_grouped(&grouped, 200_000)?;
    report("scalars, 20 a record", &grouped, ROUNDS)?;
    let tensors = folder.path().join("tensors");
    write_tensors(&tensors, 100_000)?;
    report("scalars as tensors", &tensors, ROUNDS)?;
    let large = folder.path().join("large");
    write_large(&large, 3_500)?;
    report("with texts of 64 KB", &large, ROUNDS)?;
    report_growth(&scalars)
}

fn stamp(step: i64) -> Stamp {
    Stamp { step, wall_time: 1.75e9 + step as f64 * 0.731 }
}

fn value(step: i64, tag: usize) -> f32 {
    ((step as f32) * 0.01).sin() * (tag as f32 + 1.0)
}

fn write_scalars(folder: &Path, steps: i64) -> Result<(), Box<dyn Error>> {
    let (mut writer, _) = FileWriter::create(folder)?;
    for step in 0..steps {
        for (at, tag) in TAGS.iter().enumerate() {
            writer.scalar(tag, stamp(step), value(step, at))?;
        }
    }
    Ok(writer.flush()?)
}

fn write_grouped(folder: &Path, steps: i64) -> Result<(), Box<dyn Error>> {
    let (mut writer, _) = FileWriter::create(folder)?;
    for step in 0..steps {
        let values = TAGS.iter().enumerate().map(|(at, tag)| (*tag, value(step, at)));
        writer.scalars(stamp(step), values)?;
    }
    Ok(writer.flush()?)
}

fn write_tensors(folder: &Path, steps: i64) -> Result<(), Box<dyn Error>> {
    let (mut writer, _) = FileWriter::create(folder)?;
    for step in 0..steps {
        for (at, tag) in TAGS.iter().enumerate() {
            writer.tensor_scalar(tag, stamp(step), value(step, at))?;
        }
    }
    Ok(writer.flush()?)
}

fn write_large(folder: &Path, steps: i64) -> Result<(), Box<dyn Error>> {
    let (mut writer, _) = FileWriter::create(folder)?;
    let text = "trainyard".repeat(65_536 / 9);
    for step in 0..steps {
        writer.text("camera", stamp(step), &text)?;
        for (at, tag) in TAGS.iter().enumerate() {
            writer.scalar(tag, stamp(step), value(step, at))?;
        }
    }
    Ok(writer.flush()?)
}

fn report(what: &str, path: &Path, rounds: usize) -> Result<(), Box<dyn Error>> {
    let (mut best, mut best_cpu) = (Duration::MAX, Duration::MAX);
    let mut gain = Gain::default();
    let mut memory = 0;
    for _ in 0..rounds {
        let (start, start_cpu) = (Instant::now(), processor_time());
        let mut folder = Folder::new(path);
        (gain, _) = folder.poll();
        best = best.min(start.elapsed());
        best_cpu = best_cpu.min(processor_time() - start_cpu);
        memory = folder.runs().flat_map(|(_, run)| run.tags()).map(|tag: &Tag| tag.series().memory()).sum();
    }
    let per_second = |count: u64, time: Duration| count as f64 / 1e6 / time.as_secs_f64();
    writeln!(
        stdout(),
        "{what:22} {:5.1} MB: {:5.0} MB/s, {:5.0} MB per processor second; {:5.2} M events/s, {:5.2} M points/s, {:.1} bytes/point",
        gain.bytes as f64 / 1e6,
        per_second(gain.bytes, best),
        per_second(gain.bytes, best_cpu),
        per_second(gain.events, best),
        per_second(gain.points, best),
        memory as f64 / gain.points.max(1) as f64,
    )?;
    Ok(())
}

/// What this thread had of a processor; nought where Linux's `/proc` is not.
fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}

/// What it costs to follow a file that is already large: 1,000 times 20 new points.
fn report_growth(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut run = Run::new(path);
    run.poll()?;
    let (mut writer, _) = FileWriter::create(path)?;
    let mut buffer = Buffer::default();
    run.discover()?;
    run.read(&mut buffer);
    let mut total = Gain::default();
    let mut spent = Duration::ZERO;
    for step in 130_000..131_000 {
        for (at, tag) in TAGS.iter().enumerate() {
            writer.scalar(tag, stamp(step), value(step, at))?;
        }
        writer.flush()?;
        let start = Instant::now();
        let gain = run.read(&mut buffer);
        spent += start.elapsed();
        total.bytes += gain.bytes;
        total.points += gain.points;
    }
    let reader = run.files().last().map(|(_, file)| file.reader()).map_or(0, Reader::offset);
    writeln!(
        stdout(),
        "growing: 1000 polls, {} points, {} bytes read of {reader} in the file, {:.1} µs a poll",
        total.points,
        total.bytes,
        spent.as_secs_f64() * 1e3,
    )?;
    Ok(())
}
