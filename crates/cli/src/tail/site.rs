//! Logs at a site. A thread asks for all of them in one round trip, twice a second, so that a site that does not answer
//! holds up nobody who reads.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant as Clock};

use trainyard_agent::tail::{From, Portion, Wanted};
use trainyard_core::id::RunId;
use trainyard_core::spec::TargetSpec;
use trainyard_engine::ledger::RunRow;
use trainyard_engine::pipe::{Pipe, PipeError};
use trainyard_engine::site::Reach;

use super::{LogSource, Look, Until};
use crate::error::CommandError;

const LOOK: Duration = Duration::from_millis(500);
/// Nothing has come for a while: the run waits, or computes in silence.
const QUIET: Duration = Duration::from_secs(2);
const QUIET_AFTER: Duration = Duration::from_secs(60);
/// Between two tries to connect anew, at most.
const LONGEST: Duration = Duration::from_secs(15);
/// The end of a log is waited for this long when its run is known to have ended.
const PATIENCE: Duration = Duration::from_secs(20);
/// In one answer, for all runs together.
const MOST: u64 = 8 << 20;
/// Answers that nobody has taken yet.
const WAITING: usize = 16;

/// What the ledger has heard of a run.
struct Known {
    run: RunId,
    newest: u32,
    ended: bool,
}

enum Heard {
    Some { run: RunId, portions: Vec<Portion>, is_all: bool },
    Lost { why: String },
    Back,
    Failed(PipeError),
}

pub(super) struct SiteLogs {
    name: String,
    until: Until,
    tell: Sender<Known>,
    heard: Receiver<Heard>,
    told: HashMap<RunId, (u32, bool)>,
    portions: HashMap<RunId, Vec<Portion>>,
    whole: HashSet<RunId>,
    talk: Option<String>,
    /// When a run was seen to have ended, or its log to grow after that.
    waiting_since: HashMap<RunId, Clock>,
}

impl SiteLogs {
    pub(super) fn start(
        reach: Reach,
        target: TargetSpec,
        pipe: Option<Pipe>,
        wanted: Vec<Wanted>,
        until: Until,
    ) -> Self {
        let (tell, told) = channel();
        let (say, heard) = sync_channel(WAITING);
        let name = target.name.clone();
        let wanted =
            wanted.into_iter().map(|wanted| Reader { wanted, last: until == Until::Now, is_whole: false }).collect();
        let mut thread = Thread { reach, target, pipe, readers: wanted, until, say };
        std::thread::spawn(move || thread.read(&told));
        Self {
            name,
            until,
            tell,
            heard,
            told: HashMap::new(),
            portions: HashMap::new(),
            whole: HashSet::new(),
            talk: None,
            waiting_since: HashMap::new(),
        }
    }

    fn take(&mut self, heard: Heard) -> Result<(), CommandError> {
        match heard {
            Heard::Some { run, portions, is_all } => {
                if let Some(since) = self.waiting_since.get_mut(&run) {
                    *since = Clock::now();
                }
                self.portions.entry(run).or_default().extend(portions);
                if is_all {
                    self.whole.insert(run);
                }
            }
            Heard::Lost { why } => self.talk = Some(format!("{}: {why}; trying again", self.name)),
            Heard::Back => self.talk = Some(format!("{}: connected again", self.name)),
            Heard::Failed(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Whether the end of an ended run's log does not come.
    fn is_in_vain(&mut self, row: &RunRow) -> bool {
        if row.ended.is_none() || self.until == Until::Now {
            return false;
        }
        self.waiting_since.entry(row.id).or_insert_with(Clock::now).elapsed() > PATIENCE
    }
}

impl LogSource for SiteLogs {
    fn look(&mut self, row: &RunRow) -> Result<Look, CommandError> {
        let known = (row.attempt, row.ended.is_some());
        if self.told.insert(row.id, known) != Some(known) {
            // A thread that has brought everything is gone.
            drop(self.tell.send(Known { run: row.id, newest: known.0, ended: known.1 }));
        }
        if self.until == Until::Now && !self.whole.contains(&row.id) {
            match self.heard.recv() {
                Ok(heard) => self.take(heard)?,
                Err(_) => drop(self.whole.insert(row.id)),
            }
        }
        while let Ok(heard) = self.heard.try_recv() {
            self.take(heard)?;
        }
        let portions = self.portions.remove(&row.id).unwrap_or_default();
        let is_whole = self.whole.contains(&row.id);
        let is_cut = !is_whole && portions.is_empty() && self.is_in_vain(row);
        if is_cut {
            self.talk = Some(format!(
                "{} does not answer, so the end of the log is missing; `yard logs {}` shows it later",
                self.name, row.name
            ));
        }
        Ok(Look { portions, is_all: is_whole || is_cut, is_cut, talk: self.talk.take() })
    }
}

struct Reader {
    wanted: Wanted,
    /// What is there at the next look is all that is wanted.
    last: bool,
    is_whole: bool,
}

struct Thread {
    reach: Reach,
    target: TargetSpec,
    pipe: Option<Pipe>,
    readers: Vec<Reader>,
    until: Until,
    say: SyncSender<Heard>,
}

/// Nobody listens any more.
struct Gone;

impl Thread {
    fn read(&mut self, told: &Receiver<Known>) {
        let (mut trouble, mut moved) = (None::<Duration>, Clock::now());
        while !self.readers.is_empty() {
            let pause = match self.look() {
                Ok(Some(progress)) => {
                    if trouble.take().is_some() && self.say.send(Heard::Back).is_err() {
                        return;
                    }
                    if progress.some {
                        moved = Clock::now();
                    }
                    match progress {
                        Progress { is_all: false, .. } => Duration::ZERO,
                        _ if moved.elapsed() < QUIET_AFTER => LOOK,
                        _ => QUIET,
                    }
                }
                Ok(None) => {
                    let pause = trouble.map_or(Duration::from_secs(1), |last| (last * 2).min(LONGEST));
                    trouble = Some(pause);
                    pause
                }
                Err(Gone) => return,
            };
            if !self.readers.is_empty() && self.hear(told, pause).is_err() {
                return;
            }
        }
    }

    /// One round trip for all runs, and nothing is read twice after a cut. `None` when the site did not answer.
    fn look(&mut self) -> Result<Option<Progress>, Gone> {
        let wanted: Vec<Wanted> = self.readers.iter().map(|reader| reader.wanted.clone()).collect();
        let most = (MOST / wanted.len().max(1) as u64).max(4 << 10);
        let had_one = self.pipe.is_some();
        let mut read = self.pipe().and_then(|pipe| pipe.logs(&wanted, most));
        if had_one && read.as_ref().is_err_and(PipeError::is_broken) {
            self.pipe = None;
            read = self.pipe().and_then(|pipe| pipe.logs(&wanted, most));
        }
        let read = match read {
            Ok(read) => read,
            Err(error) => {
                self.pipe = None;
                let news = match self.until {
                    Until::Now => Heard::Failed(error),
                    Until::Ended => Heard::Lost { why: error.to_string() },
                };
                return self.say.send(news).map(|()| None).map_err(|_| Gone);
            }
        };
        let mut progress = Progress { some: false, is_all: true };
        for (reader, reading) in self.readers.iter_mut().zip(read) {
            progress.some |= !reading.portions.is_empty();
            progress.is_all &= reading.is_all;
            reader.wanted.from = From::At(reading.next);
            let is_all = reader.last && reading.is_all;
            if is_all || !reading.portions.is_empty() {
                let news = Heard::Some { run: reader.wanted.run, portions: reading.portions, is_all };
                self.say.send(news).map_err(|_| Gone)?;
            }
            reader.is_whole = is_all;
        }
        self.readers.retain(|reader| !reader.is_whole);
        Ok(Some(progress))
    }

    fn pipe(&mut self) -> Result<&mut Pipe, PipeError> {
        let pipe = match self.pipe.take() {
            Some(pipe) => pipe,
            None => self.reach.pipe(&self.target)?,
        };
        Ok(self.pipe.insert(pipe))
    }

    /// Waits for the next look; what the ledger has heard comes sooner.
    fn hear(&mut self, told: &Receiver<Known>, pause: Duration) -> Result<(), Gone> {
        let until = Clock::now() + pause;
        loop {
            let left = until.saturating_duration_since(Clock::now());
            match told.recv_timeout(left) {
                Ok(known) => {
                    let reader = self.readers.iter_mut().find(|reader| reader.wanted.run == known.run);
                    let Some(reader) = reader else { continue };
                    reader.wanted.newest = known.newest;
                    reader.last |= known.ended;
                    if known.ended {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => return Err(Gone),
            }
        }
    }
}

struct Progress {
    some: bool,
    is_all: bool,
}
