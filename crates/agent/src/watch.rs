//! The watch over a running program: one loop around `poll`, from its start until everything it started is gone.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group};
use trainyard_core::run::Outcome;
use trainyard_core::spec;
use trainyard_core::time::{Instant, Span};

use crate::checkpoint::{Doubt, Finder};
use crate::depot::AttemptFolder;
use crate::disk::{Durability, now, replace_json};
use crate::launch::Launched;
use crate::log::LogWriter;
use crate::metrics::MetricReader;
use crate::order::{Lease, Metrics, Order, Status, Stop};
use crate::overseer::Overseer;
use crate::process::{descendants, memory_below, open_for_writing};
use crate::scratch::Keeper;
use crate::step::Step;
use crate::sys::{self, Ended, Reap};

/// A program that lives longer than this is announced as started; a shorter one is only announced as ended.
const SHORT: Span = Span(10);
const METRICS_EVERY: Span = Span(250);
const BEAT_EVERY: Span = Span::seconds(5);
/// A process that survives SIGKILL this long is held by the kernel, not by us.
const HOPELESS: Span = Span::seconds(30);
/// A signal this close to the end of a lease is the end of the lease: schedulers look at their clocks twice a minute.
const ABOUT_TO_END: Span = Span::seconds(90);
const LATE: Duration = Duration::from_secs(5);

/// Everything an attempt needs while its program runs.
pub(crate) struct Task<'a> {
    pub(crate) order: &'a Order,
    pub(crate) folder: &'a AttemptFolder,
    pub(crate) started: Instant,
    pub(crate) deadline: Option<Instant>,
    pub(crate) finder: Option<&'a Finder>,
    pub(crate) log: LogWriter,
    pub(crate) metrics: MetricReader,
    /// Brings results back from scratch.
    pub(crate) keeper: Option<&'a Keeper>,
}

/// What was seen.
pub(crate) struct Watched {
    pub(crate) outcome: Outcome,
    pub(crate) doubt: Doubt,
    pub(crate) peak_memory: u64,
    pub(crate) metrics: Metrics,
    pub(crate) notes: Vec<String>,
}

/// How far the ending of the program has got.
#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Running,
    /// SIGTERM was sent for this reason; SIGKILL follows.
    Ending {
        why: Outcome,
        kill_at: Instant,
    },
    Killed {
        why: Option<Outcome>,
        at: Instant,
    },
}

struct Watch<'a> {
    task: Task<'a>,
    pid: i32,
    output: OwnedFd,
    output_open: bool,
    step: Option<Step>,
    exit: Option<Ended>,
    phase: Phase,
    warned: bool,
    announced: bool,
    next_metrics: Instant,
    next_beat: Instant,
    peak_memory: u64,
    doubt: Doubt,
    notes: Vec<String>,
}

impl<'a> Task<'a> {
    pub(crate) fn watch(self, launched: Launched, overseer: &mut dyn Overseer) -> Watched {
        let started = self.started;
        let mut watch = Watch {
            task: self,
            pid: launched.pid,
            output: launched.output,
            output_open: true,
            step: launched.step,
            exit: None,
            phase: Phase::Running,
            warned: false,
            announced: false,
            next_metrics: started + METRICS_EVERY,
            next_beat: started + Span::seconds(1),
            peak_memory: 0,
            doubt: Doubt::default(),
            notes: Vec::new(),
        };
        watch.until_gone(overseer);
        watch.finish()
    }
}

impl Watch<'_> {
    fn until_gone(&mut self, overseer: &mut dyn Overseer) {
        let program = sys::pid(self.pid).and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
        loop {
            let wake = self.next_wake(now());
            self.wait(program.as_ref(), wake, overseer);
            self.drain();
            if self.reap_all() {
                self.hear_late(overseer);
                return;
            }
            let now = now();
            self.hear(now, overseer);
            self.keep_time(now);
            if self.is_hopeless(now) {
                self.notes.push("a process could not be killed: the kernel holds it".to_owned());
                return;
            }
            self.tend(now, overseer);
        }
    }

    fn hear(&mut self, now: Instant, overseer: &mut dyn Overseer) {
        let Some(wish) = overseer.wants_stop(&self.task.order.token) else { return };
        let lease = self.task.order.lease.as_ref().filter(|_| wish.by_signal);
        let grace = self.task.order.job.grace;
        match lease {
            // A little is left for writing down how it ended.
            Some(lease) => {
                self.stop(now, self.why_taken_back(lease, now), grace.min(Span(lease.notice.0 / 10 * 7)));
            }
            None => self.stop(now, Outcome::Stopped, grace),
        }
        if wish.how == Stop::Now {
            self.kill(now);
        }
    }

    /// A scheduler tells the program and us at the same time, so the program may be gone before we have heard why.
    fn hear_late(&mut self, overseer: &mut dyn Overseer) {
        let by_term = matches!(self.exit, Some(Ended::Killed(15) | Ended::Exited(143)));
        if self.task.order.lease.is_none() || self.phase != Phase::Running {
            return;
        }
        if by_term {
            let mut fds: Vec<PollFd<'_>> =
                overseer.listen().into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            let timeout = Timespec::try_from(LATE).ok();
            let _ = rustix::event::poll(&mut fds, timeout.as_ref());
        }
        self.hear(now(), overseer);
    }

    fn why_taken_back(&self, lease: &Lease, now: Instant) -> Outcome {
        let order = self.task.order;
        if order.depot.run(order.run).cancel().exists() {
            Outcome::Stopped
        } else if lease.ends.is_some_and(|ends| ends.since(now) < ABOUT_TO_END) {
            Outcome::TimeLimit
        } else {
            Outcome::Preempted
        }
    }

    /// The scheduler took this machine for dead and began the next attempt elsewhere.
    fn is_superseded(&self) -> bool {
        let order = self.task.order;
        order.lease.is_some() && order.depot.run(order.run).attempt(order.attempt + 1).claim().exists()
    }

    fn is_hopeless(&self, now: Instant) -> bool {
        matches!(self.phase, Phase::Killed { at, .. } if now.since(at) > HOPELESS)
    }

    /// Sleeps until the program writes or ends, somebody wants something, or it is time.
    fn wait(&self, program: Option<&OwnedFd>, wake: Span, overseer: &dyn Overseer) {
        let output = self.output_open.then(|| self.output.as_fd());
        let program = program.filter(|_| self.exit.is_none()).map(AsFd::as_fd);
        let fds = output.into_iter().chain(program).chain(overseer.listen());
        let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout = Timespec::try_from(Duration::from_millis(wake.0)).ok();
        // Interrupted or not, the loop looks at everything anew.
        let _ = rustix::event::poll(&mut fds, timeout.as_ref());
    }

    fn next_wake(&self, now: Instant) -> Span {
        let mut times = vec![self.next_metrics, self.next_beat];
        if !self.announced {
            times.push(self.task.started + SHORT);
        }
        match &self.phase {
            Phase::Running => times.extend(self.warn_at().into_iter().chain(self.task.deadline)),
            Phase::Ending { kill_at, .. } => times.push(*kill_at),
            Phase::Killed { .. } => times.push(now + Span(5)),
        }
        if self.exit.is_some() {
            // Only processes left behind are waited for; they send no notice.
            times.push(now + Span(5));
        }
        let earliest = times.into_iter().min().unwrap_or(now);
        Span(earliest.since(now).0.max(1))
    }

    /// Everything the program has written so far, in its order.
    fn drain(&mut self) {
        // On the stack, and small: every page touched after a fork is copied.
        let mut buffer = [0; 1 << 13];
        while self.output_open {
            match rustix::io::read(&self.output, &mut buffer) {
                Ok(0) => self.output_open = false,
                Ok(count) => {
                    let bytes = buffer.get(..count).unwrap_or_default();
                    self.task.log.write(bytes);
                    self.task.metrics.feed(bytes);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    /// True when no process of the run is left.
    fn reap_all(&mut self) -> bool {
        loop {
            match sys::reap() {
                Ok(Reap::Child(child)) => {
                    self.peak_memory = self.peak_memory.max(child.peak_memory);
                    if child.pid == self.pid {
                        self.exit = Some(self.how_it_ended(child.ending));
                        self.drain();
                    }
                }
                Ok(Reap::Busy) => {
                    self.end_leftovers();
                    return false;
                }
                Ok(Reap::NoChildren) | Err(_) => return true,
            }
        }
    }

    fn how_it_ended(&self, ending: Ended) -> Ended {
        let failed = self.step.as_ref().filter(|_| ending != Ended::Exited(0)).and_then(Step::failure);
        failed.unwrap_or(ending)
    }

    /// The program has ended but something it started has not.
    fn end_leftovers(&mut self) {
        if self.exit.is_none() || self.phase != Phase::Running {
            return;
        }
        let left = descendants(own_pid());
        if left.is_empty() {
            return;
        }
        self.notes.push(format!("processes left behind were ended: {}", left.len()));
        send(&left, Signal::TERM);
        let kill_at = now() + self.task.order.job.grace;
        let why = self.natural_outcome();
        self.phase = Phase::Ending { why, kill_at };
    }

    /// Once it is ending, its grace is neither cut nor begun anew.
    fn stop(&mut self, now: Instant, why: Outcome, grace: Span) {
        if self.phase != Phase::Running {
            return;
        }
        self.tell(Signal::TERM);
        self.phase = Phase::Ending { why, kill_at: now + grace };
    }

    /// The whole group: a shell and its child then end together, as with Ctrl-C.
    fn tell(&self, signal: Signal) {
        if let Some(keeper) = self.task.keeper {
            keeper.hurry();
        }
        let told = self.step.as_ref().is_some_and(|step| step.signal(signal));
        // A step that has not begun has nobody to be told but `srun`, which a warning would end.
        let is_for_srun = self.step.is_none() || signal == Signal::TERM;
        if let Some(group) = Pid::from_raw(self.pid).filter(|_| !told && is_for_srun) {
            let _ = kill_process_group(group, signal);
        }
    }

    fn kill(&mut self, now: Instant) {
        let all = descendants(own_pid());
        let first = !matches!(self.phase, Phase::Killed { .. });
        if first && self.exit.is_none() && self.task.finder.is_some() {
            send(&all, Signal::STOP);
            self.doubt.torn = open_for_writing(&all);
        }
        if first && let Some(step) = &self.step {
            step.signal(Signal::KILL);
        }
        send(&all, Signal::KILL);
        if first {
            let why = match &self.phase {
                Phase::Ending { why, .. } => Some(why.clone()),
                Phase::Running | Phase::Killed { .. } => None,
            };
            self.phase = Phase::Killed { why, at: now };
        }
    }

    fn keep_time(&mut self, now: Instant) {
        match &self.phase {
            Phase::Running if self.task.deadline.is_some_and(|deadline| now >= deadline) => {
                self.stop(now, Outcome::TimeLimit, self.task.order.job.grace);
            }
            Phase::Running if !self.warned && self.warn_at().is_some_and(|at| now >= at) => self.warn(),
            Phase::Ending { kill_at, .. } if now >= *kill_at => self.kill(now),
            Phase::Killed { .. } => self.kill(now),
            Phase::Running | Phase::Ending { .. } => {}
        }
    }

    fn warn_at(&self) -> Option<Instant> {
        let warn = self.task.order.job.resume.warn.filter(|_| !self.warned)?;
        let deadline = self.task.deadline?;
        Some(Instant(deadline.0.saturating_sub_unsigned(warn.before.0)))
    }

    fn warn(&mut self) {
        self.warned = true;
        if let Some(warn) = self.task.order.job.resume.warn {
            self.tell(number(warn.signal));
        }
    }

    /// Announcement, metrics and heartbeat, each in its own time.
    fn tend(&mut self, now: Instant, overseer: &mut dyn Overseer) {
        let token = &self.task.order.token;
        if !self.announced && now >= self.task.started + SHORT {
            self.announced = true;
            overseer.started(token, self.task.started);
        }
        if now >= self.next_metrics {
            self.next_metrics = now + METRICS_EVERY;
            let before = self.task.metrics.latest.clone();
            self.task.metrics.poll();
            if before != self.task.metrics.latest {
                overseer.beat(token, &self.status(now));
            }
        }
        if now >= self.next_beat {
            self.next_beat = now + BEAT_EVERY;
            if self.is_superseded() {
                let why = "the next attempt began elsewhere".to_owned();
                self.stop(now, Outcome::Lost { why }, Span(0));
            }
            self.peak_memory = self.peak_memory.max(memory_below(own_pid()));
            let status = self.status(now);
            // The next beat tries again.
            drop(replace_json(&self.task.folder.status(), &status, Durability::Cached));
            overseer.beat(&self.task.order.token, &status);
        }
    }

    fn status(&self, now: Instant) -> Status {
        let metrics = self.task.metrics.latest.clone();
        Status { at: now, started: self.task.started, metrics, memory: self.peak_memory, checkpoint: None }
    }

    fn natural_outcome(&self) -> Outcome {
        match self.exit {
            Some(Ended::Exited(0)) => Outcome::Exited { code: 0 },
            // It was warned of the deadline and made an end by itself.
            Some(_) if self.warned => Outcome::TimeLimit,
            Some(Ended::Exited(code)) => Outcome::Exited { code },
            Some(Ended::Killed(signal)) => Outcome::Killed { signal },
            None => Outcome::Lost { why: "the program is gone and nobody knows how it ended".to_owned() },
        }
    }

    fn finish(mut self) -> Watched {
        self.drain();
        if let (Some(step), Some(Ended::Killed(_))) = (&self.step, self.exit) {
            // Whoever killed `srun` left its processes to themselves.
            step.signal(Signal::KILL);
        }
        self.task.metrics.poll();
        let outcome = match &self.phase {
            Phase::Ending { why, .. } | Phase::Killed { why: Some(why), .. } => why.clone(),
            Phase::Running | Phase::Killed { why: None, .. } => self.natural_outcome(),
        };
        if matches!(self.exit, Some(Ended::Killed(_))) && self.phase == Phase::Running {
            self.doubt.cut_off = Some(SystemTime::now());
        }
        self.notes.extend(self.task.log.note());
        Watched {
            outcome,
            doubt: self.doubt,
            peak_memory: self.peak_memory,
            metrics: self.task.metrics.latest,
            notes: self.notes,
        }
    }
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(i32::MAX)
}

fn send(pids: &[i32], signal: Signal) {
    for pid in pids.iter().copied().filter_map(Pid::from_raw) {
        // Gone already is what was wanted.
        let _ = kill_process(pid, signal);
    }
}

fn number(signal: spec::Signal) -> Signal {
    match signal {
        spec::Signal::Usr1 => Signal::USR1,
        spec::Signal::Usr2 => Signal::USR2,
        spec::Signal::Term => Signal::TERM,
        spec::Signal::Int => Signal::INT,
        spec::Signal::Hup => Signal::HUP,
    }
}
