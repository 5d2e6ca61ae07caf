//! What is asked about jobs, and the answers: one `squeue` and one `sacct` for all runs of a target.

mod cancel;
#[cfg(test)]
mod tests;

pub use cancel::{cancel, cancel_tasks};

use serde::{Deserialize, Serialize};

use super::moment;
use super::state::SlurmState;
use crate::time::Instant;

/// Personal settings that change what the commands print, or hide jobs; without them a job would look gone.
const UNSET: [&str; 6] =
    ["SQUEUE_ACCOUNT", "SQUEUE_LICENSES", "SQUEUE_NAMES", "SQUEUE_PARTITION", "SQUEUE_QOS", "SQUEUE_SORT"];
/// Times without a zone, and lists of tasks that are not cut off.
const SET: [&str; 3] = ["TZ=UTC0", "SLURM_TIME_FORMAT=%s", "SLURM_BITSTR_LEN=0"];

/// The name is last, since it alone may hold the delimiter.
const QUEUE_FORMAT: &str = "%F|%K|%A|%T|%r|%V|%S|%e|%N|%j";
const ACCOUNTING_FORMAT: &str = "JobID,JobIDRaw,State,ExitCode,Submit,Start,End,NodeList,JobName";

/// The largest array any site can allow: `MaxArraySize` ends at 4,000,001.
const MOST_TASKS: u32 = 4_000_001;

/// A job or one task of a job array. The number alone names nothing for long: SLURM gives numbers out again, so
/// every row is matched by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Task {
    /// The array's number, or the job's.
    pub job: u32,
    pub index: Option<u32>,
}

impl std::fmt::Display for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.index {
            Some(index) => write!(f, "{}_{index}", self.job),
            None => self.job.fmt(f),
        }
    }
}

/// One job or array task that the controller still remembers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRow {
    /// A cancelled row of an array without an index is all that was still waiting of it.
    pub task: Task,
    /// What the job itself sees as `SLURM_JOB_ID`.
    pub raw: u32,
    pub name: String,
    pub state: SlurmState,
    /// Why it waits, in SLURM's word; `None` where there is nothing to say.
    pub reason: Option<String>,
    pub submitted: Option<Instant>,
    /// When it started; of a waiting job, SLURM's estimate.
    pub start: Option<Instant>,
    /// When it ended; of a running one, its limit.
    pub end: Option<Instant>,
    /// As SLURM writes lists, `n[1-4]`; empty while it waits.
    pub nodes: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queue {
    pub rows: Vec<QueueRow>,
    /// Lines that were no rows, as they came. A job that is in one of them must not count as gone.
    pub unread: Vec<String>,
}

/// Asks for all jobs of the user that the controller remembers, ended ones too.
pub fn queue() -> Vec<String> {
    argv(&["squeue", "--me", "-h", "-r", "-t", "all", "-o", QUEUE_FORMAT], &[])
}

pub fn parse_queue(text: &str) -> Queue {
    let mut queue = Queue::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match queue_line(line) {
            Some((tasks, row)) => {
                queue.rows.extend(tasks.into_iter().map(|index| {
                    let task = Task { job: row.task.job, index };
                    QueueRow { task, ..row.clone() }
                }));
            }
            None => queue.unread.push(line.to_owned()),
        }
    }
    queue
}

fn queue_line(line: &str) -> Option<(Vec<Option<u32>>, QueueRow)> {
    let fields: Vec<&str> = line.splitn(10, '|').collect();
    let [job, tasks, raw, state, reason, submitted, start, end, nodes, name] = fields[..] else { return None };
    let is_word = !state.is_empty() && state.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    let reason = reason.trim();
    let row = QueueRow {
        task: Task { job: job.parse().ok()?, index: None },
        raw: raw.parse().ok()?,
        name: name.to_owned(),
        state: is_word.then(|| SlurmState::parse(state))?,
        reason: (!["", "None", "(null)"].contains(&reason)).then(|| reason.to_owned()),
        submitted: moment::instant(submitted),
        start: moment::instant(start),
        end: moment::instant(end),
        nodes: if nodes == "(null)" { String::new() } else { nodes.to_owned() },
    };
    Some((indices(tasks)?, row))
}

/// `N/A`, `3`, or tasks that are folded into one row: `1-5%1`, `[1,4-6]`. A list that SLURM cut off is refused.
fn indices(text: &str) -> Option<Vec<Option<u32>>> {
    if text == "N/A" {
        return Some(vec![None]);
    }
    let list = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let list = list.split_once('%').map_or(list, |(list, _at_most)| list);
    let mut found = Vec::new();
    for part in list.split(',') {
        let (range, step) = match part.split_once(':') {
            Some((range, step)) => (range, step.parse::<u32>().ok().filter(|step| *step > 0)?),
            None => (part, 1),
        };
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        let fits = first <= last && last <= MOST_TASKS && found.len() <= MOST_TASKS as usize;
        if !fits {
            return None;
        }
        found.extend((first..=last).step_by(step as usize).map(Some));
    }
    Some(found)
}

/// One life of a job or array task: a requeued one has several rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountingRow {
    pub task: Task,
    pub name: String,
    pub state: SlurmState,
    pub exit: Exit,
    pub submitted: Option<Instant>,
    pub start: Option<Instant>,
    pub end: Option<Instant>,
    pub nodes: String,
}

/// `3:0` is exit code 3, `0:9` the end by signal 9.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub code: u32,
    pub signal: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accounting {
    pub rows: Vec<AccountingRow>,
    pub unread: Vec<String>,
}

/// Asks what became of the jobs with these names. Held jobs are missing in the answer, and others come seconds late:
/// a name that is not in it says nothing.
pub fn accounting(names: &[String], since: Instant) -> Vec<String> {
    let since = format!("--starttime={}", moment::utc(since));
    let names = format!("--name={}", names.join(","));
    argv(&["sacct", "-D", "-X", "-P", "-n", "-o", ACCOUNTING_FORMAT], &[since, names])
}

pub fn parse_accounting(text: &str) -> Accounting {
    let mut accounting = Accounting::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match accounting_line(line) {
            Some((tasks, row)) => {
                accounting.rows.extend(tasks.into_iter().map(|index| {
                    let task = Task { job: row.task.job, index };
                    AccountingRow { task, ..row.clone() }
                }));
            }
            None => accounting.unread.push(line.to_owned()),
        }
    }
    accounting
}

fn accounting_line(line: &str) -> Option<(Vec<Option<u32>>, AccountingRow)> {
    let fields: Vec<&str> = line.splitn(9, '|').collect();
    let [id, raw, state, exit, submitted, start, end, nodes, name] = fields[..] else { return None };
    let (job, tasks) = match (id.split_once('_'), id.split_once('+')) {
        (Some((job, tasks)), _) => (job, indices(tasks)?),
        // A component of a heterogeneous job has a number of its own.
        (None, Some(_)) => (raw, vec![None]),
        (None, None) => (id, vec![None]),
    };
    let (code, signal) = exit.split_once(':')?;
    let row = AccountingRow {
        task: Task { job: job.parse().ok()?, index: None },
        name: name.to_owned(),
        state: SlurmState::parse(state),
        exit: Exit { code: code.parse().ok()?, signal: signal.parse().ok()? },
        submitted: moment::instant(submitted),
        start: moment::instant(start),
        end: moment::instant(end),
        nodes: if nodes == "None assigned" { String::new() } else { nodes.to_owned() },
    };
    Some((tasks, row))
}

/// The number in the answer of `sbatch --parsable`: `15` or `15;cluster` on a line of its own, whatever a site
/// prints around it. Two different numbers are no answer.
pub fn parse_submitted(text: &str) -> Option<u32> {
    let number = |line: &str| {
        let line = line.trim();
        let (id, cluster) = line.split_once(';').unwrap_or((line, ""));
        let is_plain = id.bytes().all(|byte| byte.is_ascii_digit()) && !cluster.contains(char::is_whitespace);
        if is_plain { id.parse().ok().filter(|id: &u32| *id > 0) } else { None }
    };
    let mut numbers = text.lines().filter_map(number);
    let first = numbers.next()?;
    numbers.all(|other| other == first).then_some(first)
}

fn argv(words: &[&str], more: &[String]) -> Vec<String> {
    let unset = UNSET.iter().flat_map(|name| ["-u", name]);
    let words = std::iter::once("env").chain(unset).chain(SET).chain(words.iter().copied());
    words.map(str::to_owned).chain(more.iter().cloned()).collect()
}
