//! The one module with `unsafe`: a child is prepared between fork and exec, children are reaped with their
//! resource use, and SIGTERM becomes a readable descriptor. None of the three has a safe form in std or rustix.
#![expect(unsafe_code, reason = "fork hooks, wait4 and signalfd have no safe wrapper")]

mod overlay;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

pub(crate) use overlay::Overlay;
use rustix::process::Pid;

/// The real-time signals after it belong to the C library, or to nobody.
const LAST_SIGNAL: i32 = 31;

/// The child leads its own session, has no signal blocked or ignored, and dies with the agent: the kernel sends
/// SIGKILL when the agent's thread ends. With an overlay, it and all it starts see that over the working folder.
pub(crate) fn detach(command: &mut Command, overlay: Option<Overlay>) {
    let agent = rustix::process::getpid();
    // SAFETY: the hook runs between fork and exec; it makes a few system calls and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
            heed_all();
            rustix::process::setsid()?;
            if let Some(overlay) = &overlay {
                overlay.enter()?;
            }
            // After the overlay: a change of credentials clears this signal.
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            // An agent that was killed before this line sends no such signal.
            if rustix::process::getppid() != Some(agent) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            Ok(())
        });
    }
}

/// Whoever started yard may have ignored signals (`nohup`, shells without job control), and that is handed on; our own Rust
/// ignores SIGPIPE.
///
/// # Safety
/// For a process that is about to become another program.
unsafe fn heed_all() {
    for signal in 1..=LAST_SIGNAL {
        // SAFETY: of the two that cannot be changed the kernel refuses to.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// The child stays in this session and dies with this process, which from here on survives every signal that can be
/// survived; the child gets them as they were.
pub(crate) fn stay(command: &mut Command) -> io::Result<()> {
    let parent = rustix::process::getpid();
    // SAFETY: the sets are initialised before use; the hook makes a few system calls and allocates nothing.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        let mut before: libc::sigset_t = std::mem::zeroed();
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const all, &raw mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        command.pre_exec(move || {
            libc::sigprocmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            if rustix::process::getppid() != Some(parent) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            Ok(())
        });
    }
    Ok(())
}

/// Ends this process by the signal that ended another; returns if the signal ends nobody.
pub(crate) fn die_by(signal: i32) {
    // SAFETY: plain system calls on an initialised set.
    unsafe {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// A child that ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reaped {
    pub(crate) pid: i32,
    pub(crate) ending: Ended,
    /// Bytes, of the largest process among it and the children it waited for.
    pub(crate) peak_memory: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Exited(i32),
    Killed(i32),
}

#[derive(Debug)]
pub(crate) enum Reap {
    Child(Reaped),
    /// Children there are, but none has ended.
    Busy,
    NoChildren,
}

/// Takes one ended child, whichever it is, without waiting.
pub(crate) fn reap() -> io::Result<Reap> {
    wait(libc::WNOHANG)
}

/// The same, but waits until there is one.
pub(crate) fn reap_next() -> io::Result<Reap> {
    wait(0)
}

fn wait(flags: libc::c_int) -> io::Result<Reap> {
    let mut status: libc::c_int = 0;
    // SAFETY: rusage is plain data for which all zeroes is a value, and both pointers outlive the call.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let pid = unsafe { libc::wait4(-1, &raw mut status, flags, &raw mut usage) };
    match pid {
        0 => Ok(Reap::Busy),
        -1 => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ECHILD) => Ok(Reap::NoChildren),
            error => Err(error),
        },
        pid => {
            let ending = if libc::WIFSIGNALED(status) {
                Ended::Killed(libc::WTERMSIG(status))
            } else {
                Ended::Exited(libc::WEXITSTATUS(status))
            };
            let peak_memory = u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024;
            Ok(Reap::Child(Reaped { pid, ending, peak_memory }))
        }
    }
}

/// From here on SIGTERM and SIGINT do not end this process but can be read from the descriptor.
pub(crate) fn stop_signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by sigemptyset before use.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        libc::sigaddset(&raw mut set, libc::SIGINT);
        readable(&set)
    }
}

/// The same for all that can be.
pub(crate) fn all_signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by sigfillset before use.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        readable(&set)
    }
}

fn readable(set: &libc::sigset_t) -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by whoever calls; the descriptor returned is ours alone.
    unsafe {
        if libc::sigprocmask(libc::SIG_BLOCK, set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = libc::signalfd(-1, set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Orphans among our descendants become our children, so that none escapes by forking twice.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(Into::into)
}

pub(crate) fn pid(raw: i32) -> Option<Pid> {
    Pid::from_raw(raw)
}
