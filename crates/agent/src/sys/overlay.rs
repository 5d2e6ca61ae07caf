//! An overlay mount that only one child and its descendants see.
//!
//! Where we may not mount by ourselves, a user namespace lets us, in which everybody is who they were. All that is
//! needed is prepared before the fork; after it there are system calls only.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The layers, as names that need no quoting: options are separated by commas, layers by colons, and a depot's path
/// may hold either. They are looked up from `base`.
#[derive(Debug, Clone)]
pub(crate) struct Overlay {
    base: CString,
    /// Relative to `base`; the upper layer, and where the overlay is mounted.
    work: CString,
    options: CString,
    uid_map: CString,
    gid_map: CString,
}

impl Overlay {
    /// `work` and `spare` are folders in `base`; `lower` is found from there. `spare` is the kernel's own.
    pub(crate) fn new(base: &Path, lower: &str, work: &str, spare: &str) -> io::Result<Self> {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let options = format!("lowerdir={lower},upperdir={work},workdir={spare},userxattr");
        Ok(Self {
            base: CString::new(base.as_os_str().as_bytes())?,
            work: CString::new(work)?,
            options: CString::new(options)?,
            uid_map: CString::new(format!("{uid} {uid} 1"))?,
            gid_map: CString::new(format!("{gid} {gid} 1"))?,
        })
    }

    /// For a child between fork and exec: allocates nothing. Afterwards the child is in the working folder.
    pub(super) fn enter(&self) -> io::Result<()> {
        // SAFETY: system calls on strings that outlive them, in a process with one thread.
        unsafe {
            // A superuser who may mount needs no user namespace, and its program keeps all its rights.
            if libc::unshare(libc::CLONE_NEWNS) != 0 {
                check(libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS))?;
                // Kernels before 3.19 have no such file, and need none.
                let _ = write(c"/proc/self/setgroups", c"deny");
                write(c"/proc/self/uid_map", &self.uid_map)?;
                write(c"/proc/self/gid_map", &self.gid_map)?;
            }
            // What the machine mounts later is seen by the program, but not the other way round.
            let slave = libc::MS_REC | libc::MS_SLAVE;
            let none = std::ptr::null();
            check(libc::mount(none, c"/".as_ptr(), none, slave, none.cast()))?;
            check(libc::chdir(self.base.as_ptr()))?;
            let (name, options) = (c"overlay".as_ptr(), self.options.as_ptr().cast());
            check(libc::mount(name, self.work.as_ptr(), name, libc::MS_NODEV, options))?;
            check(libc::chdir(self.work.as_ptr()))
        }
    }

    /// Mounts it in a child that appends a byte to the file `kept` and removes the file `gone`, both of the lower layer.
    pub(crate) fn try_out(&self, kept: &CStr, gone: &CStr) -> io::Result<()> {
        // SAFETY: the child only makes system calls, and leaves by `_exit`.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let done = self.enter().and_then(|()| change(kept, gone));
                libc::_exit(done.err().and_then(|error| error.raw_os_error()).unwrap_or(0));
            }
            check(child)?;
            let mut status = 0;
            while libc::waitpid(child, &raw mut status, 0) < 0 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            match libc::WEXITSTATUS(status) {
                0 if libc::WIFEXITED(status) => Ok(()),
                number => Err(io::Error::from_raw_os_error(number)),
            }
        }
    }
}

/// SAFETY: for a child after fork.
unsafe fn change(kept: &CStr, gone: &CStr) -> io::Result<()> {
    unsafe {
        append(kept, c"+", libc::O_APPEND)?;
        check(libc::unlink(gone.as_ptr()))
    }
}

/// SAFETY: for a child after fork.
unsafe fn write(path: &CStr, text: &CStr) -> io::Result<()> {
    unsafe { append(path, text, 0) }
}

/// SAFETY: for a child after fork.
unsafe fn append(path: &CStr, text: &CStr, flags: libc::c_int) -> io::Result<()> {
    let bytes = text.to_bytes();
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC | flags);
        check(file)?;
        let written = libc::write(file, bytes.as_ptr().cast(), bytes.len());
        let failed = io::Error::last_os_error();
        libc::close(file);
        if usize::try_from(written) == Ok(bytes.len()) { Ok(()) } else { Err(failed) }
    }
}

fn check(answer: libc::c_int) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
