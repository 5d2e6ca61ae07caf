//! One of the processes that `srun` starts for a run, on whatever node: says who it is, as torch and its like expect,
//! runs the program, and ends what the program left behind.
//!
//! Signals come from SLURM to all processes of the step, so this one only has to survive them.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::metrics::of_rank;
use crate::process::descendants;
use crate::step::{first_to_fail, write_down};
use crate::sys::{self, Ended, Reap};

/// How long what a program left behind has to end.
const GRACE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// Returns the program's exit code; does not return if the program was killed by a signal, but ends in the same way.
pub fn run(step: &Path, argv: &[OsString]) -> io::Result<i32> {
    let number = |name: &str| std::env::var(name).unwrap_or_else(|_| "0".to_owned());
    let rank = number("SLURM_PROCID");
    if rank == "0" {
        write_down(step, &number("SLURM_JOB_ID"), &number("SLURM_STEP_ID"))?;
    }
    let [program, arguments @ ..] = argv else { return Err(io::Error::other("no program")) };
    let mut command = Command::new(program);
    command.args(arguments);
    command.env("RANK", rank).env("LOCAL_RANK", number("SLURM_LOCALID")).env("NODE_RANK", number("SLURM_NODEID"));
    if let (Some(first), Ok(rank)) = (std::env::var_os("YARD_METRICS"), number("SLURM_PROCID").parse()) {
        command.env("YARD_METRICS", of_rank(Path::new(&first), rank));
    }
    sys::adopt_orphans()?;
    sys::stay(&mut command)?;
    let child = match command.spawn() {
        Ok(child) => child.id(),
        Err(error) => return Ok(not_started(step, program, &error)),
    };
    let ended = wait_for(i32::try_from(child).unwrap_or(i32::MAX))?;
    first_to_fail(step, ended);
    end_leftovers();
    match ended {
        Ended::Exited(code) => Ok(code),
        Ended::Killed(signal) => {
            sys::die_by(signal);
            // A signal that ends nobody; said as a shell says it.
            Ok(ExitStatus::from_raw(signal).code().unwrap_or(128 + signal))
        }
    }
}

/// Says so in the run's log, as a shell says it, and tells the exit code.
pub(crate) fn not_started(step: &Path, program: &OsStr, error: &io::Error) -> i32 {
    drop(writeln!(io::stderr(), "yard: cannot start `{}`: {error}", program.display()));
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    first_to_fail(step, Ended::Exited(code));
    code
}

fn wait_for(child: i32) -> io::Result<Ended> {
    loop {
        match sys::reap_next()? {
            Reap::Child(reaped) if reaped.pid == child => return Ok(reaped.ending),
            Reap::Child(_) | Reap::Busy => {}
            Reap::NoChildren => return Err(io::Error::other("the program is gone and nobody knows how it ended")),
        }
    }
}

pub(crate) fn end_leftovers() {
    let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    let began = Instant::now();
    let mut signal = Signal::TERM;
    loop {
        while matches!(sys::reap(), Ok(Reap::Child(_))) {}
        let left = descendants(own);
        if left.is_empty() || began.elapsed() > GRACE * 2 {
            return;
        }
        for pid in left.into_iter().filter_map(Pid::from_raw) {
            // Gone already is what was wanted.
            let _ = kill_process(pid, signal);
        }
        signal = if began.elapsed() > GRACE { Signal::KILL } else { Signal::CONT };
        std::thread::sleep(LOOK);
    }
}
