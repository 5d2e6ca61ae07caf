//! An agent that has an allocation: it takes the runs of its group through their attempts, as many at a time as share
//! the allocation, and sees to it that they go on when it ends.
//!
//! Each program has an agent of its own (see [`crate::lane`]), so that everything below that agent belongs to it.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use trainyard_core::id::Token;
use trainyard_core::run::{Effect, Event, State};
use trainyard_core::spec::Setting;
use trainyard_core::time::Span;

use crate::depot::Depot;
use crate::disk::now;
use crate::lane::{Down, Up};
use crate::lessor::Lessor;
use crate::order::{Lease, Secrets, Stop};
use crate::parcel::{Parcel, Scheduler};
use crate::ray::Ray;
use crate::site::SiteRun;
use crate::slurm::Slurm;
use crate::sys;

/// Wishes to cancel are files; they are looked for this often.
const LOOK: Duration = Duration::from_secs(1);
/// A turn that would be shorter than this, or than a quarter of the allocation, is left to the next allocation.
const WORTH_STARTING: Span = Span::seconds(60);

/// Returns the exit code for the scheduler: 0 when all runs succeeded or go on elsewhere.
pub fn serve(depot: &Depot, parcel: &str, group: u32) -> io::Result<i32> {
    let parcel = Parcel::read(depot, parcel)?;
    let mut lessor = lessor(depot, &parcel, group)?;
    let members = parcel.group(group);
    let runs = members.iter().map(|member| SiteRun::take_up(depot, &parcel, member)).collect::<io::Result<Vec<_>>>()?;
    if runs.iter().all(SiteRun::has_ended) {
        lessor.finish()?;
        return Ok(0);
    }
    // Runs that could not go on after a dead machine still can now.
    let begun = lessor.begin();
    let mut allocation = Allocation::new(depot, &parcel, runs, lessor)?;
    allocation.note(begun);
    allocation.work()?;
    allocation.end()
}

fn lessor(depot: &Depot, parcel: &Parcel, group: u32) -> io::Result<Box<dyn Lessor>> {
    match &parcel.scheduler {
        Scheduler::Slurm { name, by, limit, notice, script } => Ok(Box::new(Slurm {
            name: name.clone(),
            by: *by,
            limit: *limit,
            notice: *notice,
            folder: depot.parcel(&parcel.id),
            script: script.clone(),
            group,
            began: now(),
        })),
        Scheduler::Ray { notice } => Ok(Box::new(Ray::new(*notice, parcel))),
        Scheduler::Host { .. } => Err(io::Error::other("this parcel is not for an allocation")),
    }
}

struct Allocation<'a> {
    depot: &'a Depot,
    parcel: &'a Parcel,
    lessor: Box<dyn Lessor>,
    runs: Vec<SiteRun<'a>>,
    lanes: Vec<Lane>,
    lease: Lease,
    devices: Option<Vec<String>>,
    secrets: Secrets,
    /// What an allocation is long, to tell what is worth starting at its end.
    long: Option<Span>,
    signals: OwnedFd,
    heard: Receiver<(usize, Option<Up>)>,
    tell: Sender<(usize, Option<Up>)>,
    /// The scheduler wants the machine back.
    leaving: bool,
}

/// An agent with one program at a time.
struct Lane {
    child: Child,
    input: ChildStdin,
    /// The run it is busy with.
    busy: Option<usize>,
    alive: bool,
}

impl<'a> Allocation<'a> {
    fn new(depot: &'a Depot, parcel: &'a Parcel, runs: Vec<SiteRun<'a>>, lessor: Box<dyn Lessor>) -> io::Result<Self> {
        let (tell, heard) = channel();
        let lease = lessor.lease();
        Ok(Self {
            depot,
            parcel,
            runs,
            lanes: Vec::new(),
            long: lease.ends.map(|ends| ends.since(now())),
            devices: lessor.devices(),
            secrets: secrets(parcel),
            lessor,
            lease,
            signals: sys::stop_signals()?,
            heard,
            tell,
            leaving: false,
        })
    }

    /// Until no run of the group can go on here.
    fn work(&mut self) -> io::Result<()> {
        loop {
            self.place()?;
            if self.lanes.iter().all(|lane| lane.busy.is_none()) && !self.has_more() {
                return Ok(());
            }
            let heard = self.heard.recv_timeout(LOOK);
            // Before what came of it.
            self.heed_signals()?;
            self.heed_wishes()?;
            match heard {
                Ok((lane, Some(up))) => self.hear(lane, up)?,
                Ok((lane, None)) => self.lane_gone(lane)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
    }

    /// Something waits only for its back-off, and there is time for it.
    fn has_more(&self) -> bool {
        self.has_time() && self.runs.iter().any(|run| matches!(run.state.run.state, State::Queued { .. }))
    }

    fn has_time(&self) -> bool {
        let (Some(ends), Some(long)) = (self.lease.ends, self.long) else { return !self.leaving };
        !self.leaving && ends.since(now()) > WORTH_STARTING.min(Span(long.0 / 4))
    }

    fn place(&mut self) -> io::Result<()> {
        while self.has_time()
            && self.lanes.iter().filter(|lane| lane.busy.is_some()).count() < self.parcel.lanes.max(1) as usize
        {
            let Some(index) = self.runs.iter().position(|run| run.is_due(now())) else { return Ok(()) };
            let lane = self.free_lane()?;
            let Some(run) = self.runs.get_mut(index) else { return Ok(()) };
            run.state.ends = self.lease.ends;
            for effect in run.happen(&Event::Placed)? {
                let Effect::Submit { attempt } = effect else { continue };
                let devices = self.devices.clone().unwrap_or_default();
                let order = self.parcel.order(self.depot, run.member, attempt, devices, self.lease.clone());
                let down = Down::Run { order: Box::new(order), secrets: self.secrets.clone() };
                if let Some(lane) = self.lanes.get_mut(lane) {
                    lane.busy = Some(index);
                    lane.say(&down);
                }
            }
        }
        Ok(())
    }

    fn free_lane(&mut self) -> io::Result<usize> {
        if let Some(free) = self.lanes.iter().position(|lane| lane.alive && lane.busy.is_none()) {
            return Ok(free);
        }
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["agent", "lane"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let missing = || io::Error::other("an agent without a pipe");
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        let (index, tell) = (self.lanes.len(), self.tell.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Ok(up) = serde_json::from_str::<Up>(&line) {
                    drop(tell.send((index, Some(up))));
                }
            }
            drop(tell.send((index, None)));
        });
        self.lanes.push(Lane { child, input, busy: None, alive: true });
        Ok(index)
    }

    fn hear(&mut self, lane: usize, up: Up) -> io::Result<()> {
        let (token, event) = match up {
            Up::Started { token, .. } => {
                let attempt = token.parts().map_or(0, |(_, attempt)| attempt);
                (token, Some(Event::Started { attempt }))
            }
            Up::Beat { .. } => return Ok(()),
            Up::Ended { result } => {
                let attempt = result.token.parts().map_or(0, |(_, attempt)| attempt);
                self.free(lane);
                (result.token.clone(), Some(Event::Ended { attempt, ending: result.ending() }))
            }
            Up::Claimed { token } | Up::NotTaken { token, .. } => {
                self.free(lane);
                (token, None)
            }
        };
        let parcel = self.parcel;
        let Some(run) = self.run_of(&token) else { return Ok(()) };
        match event {
            Some(event) => run.happen(&event).map(drop),
            None => run.find_out(parcel, token.parts().map_or(0, |(_, attempt)| attempt)),
        }
    }

    fn run_of(&mut self, token: &Token) -> Option<&mut SiteRun<'a>> {
        let (id, _) = token.parts()?;
        self.runs.iter_mut().find(|run| run.member.id == id)
    }

    fn free(&mut self, lane: usize) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.busy = None;
        }
    }

    fn lane_gone(&mut self, index: usize) -> io::Result<()> {
        let Some(lane) = self.lanes.get_mut(index) else { return Ok(()) };
        lane.alive = false;
        // Its end was told by the closing of its pipe; this only tidies up.
        drop(lane.child.wait());
        let Some(busy) = lane.busy.take() else { return Ok(()) };
        let parcel = self.parcel;
        let Some(run) = self.runs.get_mut(busy) else { return Ok(()) };
        match run.state.run.state.attempt() {
            Some(attempt) => run.find_out(parcel, attempt),
            None => Ok(()),
        }
    }

    /// Whether the scheduler told all of its job's processes or only this one is not known, so it is passed on.
    fn heed_signals(&mut self) -> io::Result<()> {
        let mut siginfo = [0; 128];
        while rustix::io::read(&self.signals, &mut siginfo).is_ok() {
            self.leaving = true;
            if self.lessor.is_told_to_stop() {
                self.runs.iter().filter(|run| !run.has_ended()).try_for_each(SiteRun::ask_to_cancel)?;
            }
            for lane in self.lanes.iter().filter(|lane| lane.busy.is_some()) {
                if let Some(pid) = Pid::from_raw(i32::try_from(lane.child.id()).unwrap_or(0)) {
                    let _ = kill_process(pid, Signal::TERM);
                }
            }
        }
        Ok(())
    }

    fn heed_wishes(&mut self) -> io::Result<()> {
        for index in 0..self.runs.len() {
            let Some(run) = self.runs.get_mut(index) else { continue };
            if run.has_ended() || matches!(run.state.run.state, State::Cancelling { .. }) || !run.is_cancelled() {
                continue;
            }
            for effect in run.happen(&Event::CancelAsked)? {
                if let Effect::Stop { attempt } = effect {
                    let token = Token::new(run.member.id, attempt);
                    if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.busy == Some(index)) {
                        lane.say(&Down::Stop { token, how: Stop::Gently });
                    }
                }
            }
        }
        Ok(())
    }

    /// SLURM keeps what this process says beside the script.
    fn note(&self, done: io::Result<()>) {
        if let Err(error) = done {
            drop(writeln!(io::stderr(), "yard: {error}"));
        }
    }

    fn end(mut self) -> io::Result<i32> {
        for lane in std::mem::take(&mut self.lanes) {
            let Lane { mut child, input, .. } = lane;
            drop(input);
            drop(child.wait());
        }
        if self.runs.iter().all(SiteRun::has_ended) {
            let finished = self.lessor.finish();
            self.note(finished);
            return Ok(self.runs.iter().map(|run| exit_code(&run.state.run.state)).max().unwrap_or(0));
        }
        if !self.leaving {
            let going = self.lessor.go_on();
            self.note(going);
        }
        Ok(0)
    }
}

impl Lane {
    /// An agent that is gone does not hear it; its end is told by its pipe.
    fn say(&mut self, down: &Down) {
        if let Ok(mut line) = serde_json::to_vec(down) {
            line.push(b'\n');
            drop(self.input.write_all(&line));
        }
    }
}

fn exit_code(state: &State) -> i32 {
    match state {
        State::Failed { reason, .. } => {
            reason.outcome().and_then(|outcome| outcome.exit_code()).filter(|code| *code != 0).unwrap_or(1)
        }
        State::Cancelled { .. } => 130,
        _ => 0,
    }
}

/// The scheduler carries them in the job's environment, under the names the program knows.
fn secrets(parcel: &Parcel) -> Secrets {
    let names = parcel.jobs().flat_map(|job| &job.env).filter(|(_, setting)| matches!(setting, Setting::Secret(_)));
    Secrets(names.filter_map(|(name, _)| Some((name.clone(), std::env::var(name).ok()?))).collect())
}
