//! How long scanning and storing a project takes: `cargo run --release --example scan -- [FILES] [BYTES EACH]`.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program to be read by people")]

use std::path::Path;
use std::time::Instant;

use trainyard_agent::depot::Depot;
use trainyard_engine::snapshot::{Rules, scan, store};

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>().unwrap());
    let (files, bytes) = (numbers.next().unwrap_or(10_000), numbers.next().unwrap_or(20_000));
    let root = tempfile::tempdir().unwrap();
    let project = root.path().join("project");
    fill(&project, files, bytes);
    let (cache, depot) = (root.path().join("cache"), Depot::new(root.path().join("depot")));
    let rules = Rules::default();
    let look = |what: &str| timed(what, || scan(&project, &rules, &cache).unwrap());
    let snapshot = look("first scan");
    timed("first store", || store(&snapshot, &depot).unwrap());
    timed("second store", || store(&snapshot, &depot).unwrap());
    std::thread::sleep(std::time::Duration::from_millis(200));
    look("scan, nothing remembered");
    for _ in 0..3 {
        look("scan, nothing changed");
    }
    timed("only looking at each file", || (0..files).filter(|n| path(&project, *n).symlink_metadata().is_ok()).count());
}

fn path(project: &Path, n: usize) -> std::path::PathBuf {
    project.join(format!("package{}/module{}/file{n}.py", n % 20, n % 100))
}

fn fill(project: &Path, files: usize, bytes: usize) {
    for n in 0..files {
        let path = path(project, n);
        if n < 100 {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        }
        let line = format!("{n}\n");
        std::fs::write(path, line.repeat(bytes / line.len())).unwrap();
    }
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (began, used) = (Instant::now(), cpu());
    let answer = work();
    println!("{what:28}{:8.1} ms, {:8.1} ms of CPU", began.elapsed().as_secs_f64() * 1e3, cpu() - used);
    answer
}

/// Milliseconds of all threads.
fn cpu() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
}
