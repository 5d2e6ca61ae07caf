//! Watching a submission until it has ended.

use std::time::{Duration, Instant as Clock};

use trainyard_agent::disk::now;
use trainyard_core::id::RunId;
use trainyard_engine::ledger::{Ledger, Request, RunRow};
use trainyard_engine::pipe::Pipe;
use trainyard_engine::yardmaster::Caller;

use super::run::refused;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::interrupt;
use crate::report::{Live, RunTable, Silences, note};
use crate::tail;

/// A log line is seen this soon; the eye does not need it sooner.
const GLANCE: Duration = Duration::from_millis(20);
/// Many runs, or a long one, need no such haste.
const LOOK: Duration = Duration::from_millis(120);
/// With many runs something changes all the time; looking at each change would be work for nothing.
const CROWD: Duration = Duration::from_millis(50);
/// Whether sites answer is looked at this often.
const LISTEN: Duration = Duration::from_secs(1);
const HASTE: Duration = Duration::from_secs(5);
/// More rows than this are told as numbers, with the failures by name.
const MOST_ROWS: usize = 40;

/// Shows a submission until it has ended or the watcher leaves; the exit code tells what became of it. `pipe` leads to
/// the site, if there is one.
pub(super) fn follow(
    context: &Context,
    ledger: &Ledger,
    caller: Caller,
    ids: &[RunId],
    pipe: Option<Pipe>,
) -> Result<Exit, CommandError> {
    interrupt::count();
    let mut watcher = Watcher::new(context, ledger, caller, ids, pipe)?;
    let left = watcher.watch()?;
    watcher.live.clear();
    if let Some(exit) = left {
        return Ok(exit);
    }
    let rows = watcher.rows()?;
    show_result(context, ledger, &rows)?;
    Ok(exit_of(&rows))
}

/// 0 when all succeeded, 5 when the target would not have one, else 1.
pub(super) fn exit_of(rows: &[RunRow]) -> Exit {
    if rows.iter().all(|row| row.state == "succeeded") { Exit::Done } else { refused(rows).unwrap_or(Exit::RunFailed) }
}

struct Watcher<'a> {
    context: &'a Context,
    ledger: &'a Ledger,
    caller: Caller,
    ids: &'a [RunId],
    live: Live,
    logs: Option<LogTail>,
    since: Clock,
    silences: Silences,
    looked: Clock,
    /// Why the run waits, as it was last told.
    note: Option<String>,
}

impl<'a> Watcher<'a> {
    fn new(
        context: &'a Context,
        ledger: &'a Ledger,
        caller: Caller,
        ids: &'a [RunId],
        pipe: Option<Pipe>,
    ) -> Result<Self, CommandError> {
        let alone = if let ([id], false) = (ids, context.printer.is_json()) { ledger.run(*id)? } else { None };
        let logs = match alone {
            Some(row) => {
                let logs = tail::Logs::of(context.reach()?, ledger, &row, pipe)?;
                Some(LogTail { logs, attempt: 0, is_all: false })
            }
            None => None,
        };
        let (live, since) = (Live::new(context.printer), Clock::now());
        let silences = Silences::default();
        Ok(Self { context, ledger, caller, ids, live, logs, since, silences, looked: since, note: None })
    }

    /// `Some` when the watcher left before the end.
    fn watch(&mut self) -> Result<Option<Exit>, CommandError> {
        loop {
            if self.glance()? {
                return Ok(None);
            }
            if interrupt::take() > 0
                && let Some(exit) = self.interrupted()?
            {
                return Ok(Some(exit));
            }
            self.listen()?;
            let pause = if self.logs.is_some() && self.since.elapsed() < HASTE { GLANCE } else { LOOK };
            self.pause(pause)?;
        }
    }

    /// Says when a site falls silent: what is shown is then from before.
    fn listen(&mut self) -> Result<(), CommandError> {
        if self.looked.elapsed() < LISTEN {
            return Ok(());
        }
        self.looked = Clock::now();
        let sites = self.ledger.sites()?;
        if sites.is_empty() {
            return Ok(());
        }
        // All of them are at one target.
        let open = self.ledger.still_open(self.ids)?;
        let one = open.first().map_or(Ok(None), |id| self.ledger.run(*id))?;
        let news = self.silences.news(&sites, one.as_slice());
        if !news.is_empty() {
            self.live.clear();
            news.iter().for_each(|line| self.context.printer.say(line));
        }
        Ok(())
    }

    /// Shows what is new; true when all runs have ended.
    fn glance(&mut self) -> Result<bool, CommandError> {
        if let ([id], Some(logs)) = (self.ids, &mut self.logs) {
            let Some(row) = self.ledger.run(*id)? else { return Ok(true) };
            logs.catch_up(self.context, &row)?;
            if self.note.as_deref() != note(&row) {
                self.note = note(&row).map(str::to_owned);
                self.note.iter().for_each(|why| self.context.printer.say(&format!("{}: {why}", row.name)));
            }
            return Ok(row.ended.is_some() && logs.is_all);
        }
        if Live::shows_each(self.ids.len()) {
            let rows = self.rows()?;
            self.live.show_each(&rows, now());
            return Ok(rows.iter().all(|row| row.ended.is_some()));
        }
        let first = self.ids.first().and_then(|id| self.ledger.run(*id).transpose()).transpose()?;
        let tally = first.map_or(Ok(Vec::new()), |row| self.ledger.tally_with(row.batch))?;
        self.live.show_sum(&tally);
        Ok(tally.iter().all(|(state, _)| matches!(state.as_str(), "succeeded" | "failed" | "cancelled")))
    }

    fn rows(&self) -> Result<Vec<RunRow>, CommandError> {
        Ok(self.ids.iter().filter_map(|id| self.ledger.run(*id).transpose()).collect::<Result<_, _>>()?)
    }

    /// Until something changes.
    fn pause(&mut self, at_most: Duration) -> Result<(), CommandError> {
        if !Live::shows_each(self.ids.len()) {
            std::thread::sleep(CROWD);
        }
        if self.caller.wait(at_most).is_err() {
            // Somebody killed the yardmaster; another takes over.
            self.caller = self.context.knock(&std::collections::BTreeMap::new())?;
        }
        Ok(())
    }

    /// Ctrl-C: the runs belong to the yard, not to this terminal, so it asks.
    fn interrupted(&mut self) -> Result<Option<Exit>, CommandError> {
        let printer = self.context.printer;
        self.live.clear();
        let answer = if printer.can_ask() {
            printer.ask("\r[d]etach and let it run, [c]ancel, or [w]atch on? [d]")
        } else {
            String::new()
        };
        match answer.chars().next() {
            Some('w') => Ok(None),
            Some('c') => {
                let mut ledger = self.context.ledger()?;
                ledger.request(self.ids, Request::Cancel, now())?;
                self.caller = self.context.knock(&std::collections::BTreeMap::new())?;
                printer.say("cancelling");
                Ok(None)
            }
            _ => {
                let name = self.rows()?.first().map(|row| row.job.clone()).unwrap_or_default();
                printer.say(&format!(
                    "detached; `yard ps` shows it, `yard logs -f {name}` follows, `yard cancel {name}` ends it"
                ));
                Ok(Some(Exit::Interrupted))
            }
        }
    }
}

/// The log of a run across its attempts, as it grows.
struct LogTail {
    logs: tail::Logs,
    attempt: u32,
    is_all: bool,
}

impl LogTail {
    fn catch_up(&mut self, context: &Context, row: &RunRow) -> Result<(), CommandError> {
        loop {
            let look = self.logs.look(row)?;
            let more = !look.portions.is_empty() && !look.is_all;
            self.is_all = look.is_all;
            if let Some(talk) = look.talk {
                context.printer.say(&talk);
            }
            for portion in look.portions {
                if portion.attempt > self.attempt.max(1) {
                    context.printer.say(&format!("attempt {}", portion.attempt));
                }
                self.attempt = portion.attempt;
                context.printer.bytes(&portion.bytes);
            }
            if !more {
                return Ok(());
            }
        }
    }
}

/// The table at the end.
pub(super) fn show_result(context: &Context, ledger: &Ledger, rows: &[RunRow]) -> Result<(), CommandError> {
    let printer = context.printer;
    if rows.len() <= MOST_ROWS || printer.is_json() {
        printer.report(&RunTable { rows, now: now(), ids: Vec::new() });
    } else {
        let failed: Vec<RunRow> = rows.iter().filter(|row| row.state != "succeeded").take(MOST_ROWS).cloned().collect();
        if !failed.is_empty() {
            printer.report(&RunTable { rows: &failed, now: now(), ids: Vec::new() });
        }
        let tally = rows.first().map_or(Ok(Vec::new()), |row| ledger.tally_with(row.batch))?;
        let parts: Vec<String> = tally.iter().map(|(state, count)| format!("{count} {state}")).collect();
        printer.say(&parts.join(", "));
    }
    if let Some(row) = rows.iter().find(|row| row.state == "failed") {
        printer.say(&format!("`yard logs {}` shows what it said", row.name));
    }
    Ok(())
}
