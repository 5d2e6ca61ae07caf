//! How a program comes to its end: asked, warned, out of time, or by itself.

use std::time::{Duration, Instant as Clock};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use trainyard_core::run::Outcome;
use trainyard_core::spec;
use trainyard_core::time::{Instant, Span};

use super::{Watch, own_pid};
use crate::disk::now;
use crate::order::{Lease, Stop, Told};
use crate::overseer::Overseer;
use crate::process::{descendants, open_for_writing};
use crate::step::Step;
use crate::sys::Ended;

/// A process that survives SIGKILL this long is held by the kernel, not by us.
const HOPELESS: Span = Span::seconds(30);
/// A signal this close to the end of a lease is the end of the lease: schedulers look at their clocks twice a minute.
const ABOUT_TO_END: Span = Span::seconds(90);
/// A program that fell by SIGTERM was told by somebody; one that failed may have been.
const LATE: Duration = Duration::from_secs(5);
const SOON: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(100);
const BREATH: Duration = Duration::from_millis(10);

/// How far the ending of the program has got.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Phase {
    Running,
    /// SIGTERM was sent; SIGKILL follows. Without a reason only what the program left behind is ended.
    Ending {
        why: Option<Outcome>,
        kill_at: Instant,
    },
    Killed {
        why: Option<Outcome>,
        at: Instant,
    },
}

impl Phase {
    pub(super) fn why(&self) -> Option<&Outcome> {
        match self {
            Phase::Running => None,
            Phase::Ending { why, .. } | Phase::Killed { why, .. } => why.as_ref(),
        }
    }
}

impl Watch<'_> {
    pub(super) fn hear(&mut self, now: Instant, overseer: &mut dyn Overseer) {
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
    pub(super) fn hear_late(&mut self, overseer: &mut dyn Overseer) {
        if self.task.order.lease.is_none() {
            return;
        }
        let patience = match self.exit {
            Some(Ended::Exited(0)) => Duration::ZERO,
            _ if self.fell_by_term() => LATE,
            _ => SOON,
        };
        // Others may be heard meanwhile, so one look is not enough.
        let until = Clock::now() + patience;
        while self.phase.why().is_none() && Clock::now() < until {
            let mut fds: Vec<PollFd<'_>> =
                overseer.listen().into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            let _ = rustix::event::poll(&mut fds, Timespec::try_from(LOOK).ok().as_ref());
            self.hear(now(), overseer);
            std::thread::sleep(BREATH);
        }
        self.hear(now(), overseer);
    }

    fn fell_by_term(&self) -> bool {
        matches!(self.exit, Some(Ended::Killed(15) | Ended::Exited(143)))
    }

    fn why_taken_back(&self, lease: &Lease, now: Instant) -> Outcome {
        let order = self.task.order;
        if lease.told == Told::ToStop || order.depot.run(order.run).cancel().exists() {
            Outcome::Stopped
        } else if lease.told == Told::Abandoned {
            Outcome::Lost { why: "what held the places of its group is gone".to_owned() }
        } else if lease.ends.is_some_and(|ends| ends.since(now) < ABOUT_TO_END) {
            Outcome::TimeLimit
        } else {
            Outcome::Preempted
        }
    }

    pub(super) fn is_hopeless(&self, now: Instant) -> bool {
        matches!(self.phase, Phase::Killed { at, .. } if now.since(at) > HOPELESS)
    }

    /// The program has ended but something it started has not.
    pub(super) fn end_leftovers(&mut self) {
        if self.exit.is_none() || self.phase != Phase::Running {
            return;
        }
        let left = descendants(own_pid());
        if left.is_empty() {
            return;
        }
        if !self.step.as_ref().is_some_and(Step::ends_by_itself) {
            self.notes.push(format!("processes left behind were ended: {}", left.len()));
            send(&left, Signal::TERM);
        }
        self.phase = Phase::Ending { why: None, kill_at: now() + self.task.order.job.grace };
    }

    /// Once it is ending, its grace may be cut but is not begun anew. The signal that ended the program may reach what
    /// it left behind later, and us last of all: then that is the reason.
    pub(super) fn stop(&mut self, now: Instant, reason: Outcome, grace: Span) {
        let is_late = self.task.order.lease.is_some() && self.fell_by_term();
        let kill_by = now + grace;
        if self.phase == Phase::Running {
            self.tell(Signal::TERM);
        }
        self.phase = match std::mem::replace(&mut self.phase, Phase::Running) {
            Phase::Running => Phase::Ending { why: Some(reason), kill_at: kill_by },
            Phase::Ending { why, kill_at } => {
                Phase::Ending { why: why.or(is_late.then_some(reason)), kill_at: kill_at.min(kill_by) }
            }
            Phase::Killed { why, at } => Phase::Killed { why: why.or(is_late.then_some(reason)), at },
        };
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
            self.phase = Phase::Killed { why: self.phase.why().cloned(), at: now };
        }
    }

    pub(super) fn keep_time(&mut self, now: Instant) {
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

    pub(super) fn warn_at(&self) -> Option<Instant> {
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

    pub(super) fn natural_outcome(&self) -> Outcome {
        match self.exit {
            Some(Ended::Exited(0)) => Outcome::Exited { code: 0 },
            // It was warned of the deadline and made an end by itself.
            Some(_) if self.warned => Outcome::TimeLimit,
            Some(Ended::Exited(code)) => Outcome::Exited { code },
            Some(Ended::Killed(signal)) => Outcome::Killed { signal },
            None => Outcome::Lost { why: "the program is gone and nobody knows how it ended".to_owned() },
        }
    }
}

pub(super) fn send(pids: &[i32], signal: Signal) {
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
