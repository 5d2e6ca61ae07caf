//! Processes as `/proc` shows them: who is alive, who descends from whom, and who belongs to an attempt.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use trainyard_core::id::RunId;

/// One certain process: a pid alone is given to others after its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub pid: i32,
    /// Clock ticks after boot, from `/proc/<pid>/stat`.
    pub started: u64,
    /// Which boot that was.
    pub boot: String,
}

impl Identity {
    pub fn mine() -> io::Result<Self> {
        static MINE: std::sync::OnceLock<Identity> = std::sync::OnceLock::new();
        if let Some(mine) = MINE.get() {
            return Ok(mine.clone());
        }
        let mine = Self::of(i32::try_from(std::process::id()).unwrap_or(i32::MAX))?;
        Ok(MINE.get_or_init(|| mine).clone())
    }

    pub fn of(pid: i32) -> io::Result<Self> {
        let gone = || io::Error::new(io::ErrorKind::NotFound, format!("no process {pid}"));
        Ok(Self { pid, started: stat(pid).ok_or_else(gone)?.started, boot: boot_id()? })
    }

    /// A zombie is not alive: it does nothing more.
    pub fn is_alive(&self) -> bool {
        boot_id().is_ok_and(|boot| boot == self.boot)
            && stat(self.pid).is_some_and(|stat| stat.started == self.started && !stat.zombie)
    }

    /// Blocks until the process has ended.
    pub fn wait(&self) {
        use rustix::event::{PollFd, PollFlags, poll};
        let open = |pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok();
        let Some(pidfd) = Pid::from_raw(self.pid).and_then(open) else { return };
        // Asked after opening: the pid may have been given to another process before.
        while self.is_alive() {
            let _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], None);
        }
    }

    /// Sends a signal, unless the process is gone.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid)
            && self.is_alive()
        {
            // Gone in between is as good as told.
            let _ = kill_process(pid, signal);
        }
    }
}

fn boot_id() -> io::Result<String> {
    Ok(fs_err::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

struct Stat {
    parent: i32,
    started: u64,
    zombie: bool,
    resident: u64,
}

fn stat(pid: i32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold spaces and parentheses itself.
    let rest = text.rsplit_once(')')?.1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Stat {
        zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
        resident: fields.get(21)?.parse::<u64>().ok()? * rustix::param::page_size() as u64,
    })
}

fn all() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// All living descendants of a process, itself not included.
pub(crate) fn descendants(root: i32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for pid in all() {
        if let Some(stat) = stat(pid).filter(|stat| !stat.zombie) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut look = vec![root];
    while let Some(pid) = look.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        found.extend(&below);
        look.extend(below);
    }
    found
}

/// Resident bytes of all descendants together.
pub(crate) fn memory_below(root: i32) -> u64 {
    descendants(root).into_iter().filter_map(stat).map(|stat| stat.resident).sum()
}

/// The files these processes have open for writing.
pub(crate) fn open_for_writing(pids: &[i32]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for pid in pids {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        for entry in std::fs::read_dir(folder.join("fd")).into_iter().flatten().flatten() {
            let writes = std::fs::read_to_string(folder.join("fdinfo").join(entry.file_name()))
                .is_ok_and(|info| is_writable(&info));
            if writes && let Ok(target) = std::fs::read_link(entry.path()) {
                found.push(target);
            }
        }
    }
    found
}

/// The last octal digit of `flags` is the access mode: 0 reads, 1 writes, 2 does both.
fn is_writable(fdinfo: &str) -> bool {
    let flags = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.is_some_and(|flags| matches!(flags.trim().bytes().last(), Some(b'1' | b'2')))
}

/// Ends every process that carries this attempt's name in its environment, wherever it has got to. For attempts
/// whose agent is gone: with the agent alive, it knows its own.
pub fn kill_strays(run: RunId, attempt: u32) -> usize {
    let marks = [format!("YARD_RUN={run}"), format!("YARD_ATTEMPT={attempt}")];
    let mut killed = 0;
    // A process may fork while the list is read; the next look finds the child. One that the kernel holds (a dead
    // network disk) cannot be waited for.
    for _ in 0..500 {
        let strays: Vec<i32> = all().filter(|pid| carries(*pid, &marks)).collect();
        if strays.is_empty() {
            break;
        }
        killed = killed.max(strays.len());
        for pid in strays.into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    killed
}

fn carries(pid: i32, marks: &[String; 2]) -> bool {
    let Ok(environ) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
    let has = |mark: &String| environ.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes());
    marks.iter().all(has) && stat(pid).is_some_and(|stat| !stat.zombie)
}
