//! The watch over a running program: one loop around `poll`, from its start until everything it started is gone.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{PidfdFlags, Signal};
use trainyard_core::run::Outcome;
use trainyard_core::time::{Instant, Span};

mod ending;

use self::ending::Phase;
use crate::checkpoint::{Doubt, Finder};
use crate::depot::AttemptFolder;
use crate::disk::{Durability, now, replace_json};
use crate::launch::Launched;
use crate::log::LogWriter;
use crate::metrics::MetricReader;
use crate::order::{Metrics, Order, Point, Status};
use crate::overseer::Overseer;
use crate::process::memory_below;
use crate::scratch::Keeper;
use crate::step::Step;
use crate::sys::{self, Ended, Reap};

/// A program that lives longer than this is announced as started; a shorter one is only announced as ended.
const SHORT: Span = Span(10);
const METRICS_EVERY: Span = Span(250);
/// Where more is there than one poll reads.
const METRICS_AGAIN: Span = Span(10);
const BEAT_EVERY: Span = Span::seconds(5);

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
    pub(crate) course: Vec<Point>,
    pub(crate) notes: Vec<String>,
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

    /// The scheduler took this machine for dead and began the next attempt elsewhere.
    fn is_superseded(&self) -> bool {
        let order = self.task.order;
        order.lease.is_some() && order.depot.run(order.run).attempt(order.attempt + 1).claim().exists()
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

    /// Announcement, metrics and heartbeat, each in its own time.
    fn tend(&mut self, now: Instant, overseer: &mut dyn Overseer) {
        let token = &self.task.order.token;
        if !self.announced && now >= self.task.started + SHORT {
            self.announced = true;
            overseer.started(token, self.task.started);
        }
        if now >= self.next_metrics {
            let more = self.task.metrics.poll();
            self.next_metrics = now + if more { METRICS_AGAIN } else { METRICS_EVERY };
            if self.task.metrics.has_changed() {
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
            self.task.metrics.flush();
            let status = self.status(now);
            // The next beat tries again.
            drop(replace_json(&self.task.folder.status(), &status, Durability::Cached));
            overseer.beat(&self.task.order.token, &status);
        }
    }

    fn status(&self, now: Instant) -> Status {
        let (metrics, course) = (self.task.metrics.latest().clone(), self.task.metrics.course());
        Status { at: now, started: self.task.started, metrics, course, memory: self.peak_memory, checkpoint: None }
    }

    fn finish(mut self) -> Watched {
        self.drain();
        if let (Some(step), Some(Ended::Killed(_))) = (&self.step, self.exit) {
            // Whoever killed `srun` left its processes to themselves.
            step.signal(Signal::KILL);
        }
        let about_metrics = self.task.metrics.finish(&self.task.order.job);
        let outcome = self.phase.why().cloned().unwrap_or_else(|| self.natural_outcome());
        if matches!(self.exit, Some(Ended::Killed(_))) && self.phase == Phase::Running {
            self.doubt.cut_off = Some(SystemTime::now());
        }
        self.notes.extend(self.task.log.note().into_iter().chain(about_metrics));
        Watched {
            outcome,
            doubt: self.doubt,
            peak_memory: self.peak_memory,
            metrics: self.task.metrics.latest().clone(),
            course: self.task.metrics.course(),
            notes: self.notes,
        }
    }
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(i32::MAX)
}
