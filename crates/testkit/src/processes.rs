//! Processes as `/proc` shows them, to see that none is left.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// Living processes (zombies do not count) whose environment has this entry, such as `YARD_RUN=…`.
pub fn with_environment(entry: &str) -> Vec<i32> {
    all()
        .filter(|pid| environment(*pid).is_some_and(|env| env.iter().any(|found| found == entry)) && is_alive(*pid))
        .collect()
}

/// Living processes whose arguments start like this.
pub fn with_arguments(arguments: &[&str]) -> Vec<i32> {
    let matches = |pid: &i32| {
        let found = lines(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        found.len() >= arguments.len() && found.iter().zip(arguments).all(|(found, wanted)| found == wanted)
    };
    all().filter(|pid| matches(pid) && is_alive(*pid)).collect()
}

/// Living processes that have this text in one of their arguments.
pub fn mentioning(text: &str) -> Vec<i32> {
    let matches = |pid: &i32| {
        let found = lines(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        found.iter().any(|found| found.contains(text))
    };
    all().filter(|pid| matches(pid) && is_alive(*pid)).collect()
}

pub fn is_alive(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
}

/// Ends a process the hard way; one that is gone is fine.
pub fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// As Ctrl-C does.
pub fn interrupt(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::INT);
    }
}

pub fn environment(pid: i32) -> Option<Vec<String>> {
    lines(format!("/proc/{pid}/environ"))
}

fn lines(path: impl AsRef<Path>) -> Option<Vec<String>> {
    let bytes = std::fs::read(path).ok()?;
    let parts = bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    Some(parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect())
}

fn all() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
