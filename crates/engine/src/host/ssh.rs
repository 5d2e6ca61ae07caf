//! One host behind the system's `ssh`, with one connection that is kept and shared.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};

use super::{HostError, Person, Session, Stderr};

/// sshd allows ten by default; above that ssh makes a new connection, with a new second factor.
const SESSIONS: usize = 8;
/// A socket's path may have 107 bytes, and ssh adds 17 while it makes one.
const LONGEST_SOCKET: usize = 88;
/// How long the connection is kept after the last use: a second factor is not asked for again in a working day.
const KEPT: &str = "10h";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshHost {
    alias: String,
    /// `ssh`, or what stands for it, such as `ssh -F file`.
    program: Vec<String>,
    /// Private; holds sockets and locks.
    folder: PathBuf,
}

impl SshHost {
    /// `folder` is made if needed, for us only. When its path is too long for a socket, one below `/tmp` is used.
    pub fn new(alias: &str, program: &[String], folder: &Path) -> Result<Self, HostError> {
        if alias.is_empty() || alias.starts_with('-') || alias.contains(char::is_control) {
            return Err(HostError::BadName { name: alias.to_owned() });
        }
        let program = if program.is_empty() { vec!["ssh".to_owned()] } else { program.to_vec() };
        let mut host = Self { alias: alias.to_owned(), program, folder: folder.to_owned() };
        if host.socket().as_os_str().len() > LONGEST_SOCKET {
            host.folder = PathBuf::from(format!("/tmp/yard-{}", rustix::process::getuid().as_raw()));
        }
        private(&host.folder)
            .map_err(|error| HostError::Folder { path: host.folder.display().to_string(), why: error.to_string() })?;
        Ok(host)
    }

    pub fn alias(&self) -> &str {
        &self.alias
    }

    /// `%C` of ssh leaves out the jump host, so that a direct and a jumped way to the same address would share a
    /// connection (seen with 9.2). The alias tells them apart.
    fn mark(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for word in self.program.iter().chain([&self.alias]) {
            hasher.update(word.as_bytes());
            hasher.update(&[0]);
        }
        hasher.finalize().to_hex().chars().take(16).collect()
    }

    fn socket(&self) -> PathBuf {
        self.folder.join(self.mark())
    }

    fn command(&self, person: Person, limit: Duration) -> Command {
        let mut words = self.program.iter();
        let mut command = Command::new(words.next().map_or("ssh", String::as_str));
        command.args(words);
        let patience = limit.as_secs().clamp(1, 60);
        let batch = if person == Person::Nobody { "yes" } else { "no" };
        for option in [
            "ControlMaster=auto".to_owned(),
            format!("ControlPath={}", self.socket().display().to_string().replace('%', "%%")),
            format!("ControlPersist={KEPT}"),
            format!("BatchMode={batch}"),
            format!("ConnectTimeout={patience}"),
            "ServerAliveInterval=15".to_owned(),
            "ServerAliveCountMax=4".to_owned(),
            // What people set for their own logins would be in the way of ours.
            "RemoteCommand=none".to_owned(),
            "RequestTTY=no".to_owned(),
            "PermitLocalCommand=no".to_owned(),
            "ClearAllForwardings=yes".to_owned(),
            "ForwardX11=no".to_owned(),
        ] {
            command.arg("-o").arg(option);
        }
        command
    }

    pub(super) fn connect(&self, person: Person, limit: Duration) -> Result<(), HostError> {
        if self.is_connected() {
            return Ok(());
        }
        let mut tries = 0;
        loop {
            let result = self.connect_once(person, limit);
            tries += 1;
            // sshd drops connections at random when many come at once (MaxStartups).
            if tries == 3 || person == Person::AtTerminal || !matches!(result, Err(HostError::Dropped { .. })) {
                return result;
            }
            let jitter = u64::from(std::process::id() % 97) * 3;
            std::thread::sleep(Duration::from_millis(200 * tries + jitter));
        }
    }

    fn connect_once(&self, person: Person, limit: Duration) -> Result<(), HostError> {
        let stderr = if person == Person::AtTerminal { Stderr::Shown } else { Stderr::Kept };
        let mut session = self.start("exit 0", person, stderr, limit)?;
        session.close_input();
        let began = Instant::now();
        let mut chatter = Vec::new();
        let read = io::Read::read_to_end(&mut io::Read::take(&mut session, 1 << 20), &mut chatter);
        if read.is_err() || began.elapsed() >= limit {
            return Err(HostError::Unreachable { host: self.alias.clone() });
        }
        match session.end() {
            Ok(status) if status.code() == Some(255) => match person {
                Person::Nobody => Err(HostError::of(&self.alias, &session.said())),
                Person::AtTerminal => Err(self.unseen(limit)),
            },
            Ok(_) => Ok(()),
            Err(error) => Err(HostError::Other { host: self.alias.clone(), said: error.to_string() }),
        }
    }

    /// What went to the terminal was not read here: the reason is what ssh says when it may not ask.
    fn unseen(&self, limit: Duration) -> HostError {
        match self.connect_once(Person::Nobody, limit) {
            Ok(()) => HostError::Dropped { host: self.alias.clone() },
            Err(HostError::NeedsPerson { host }) => HostError::Other { host, said: "not let in".to_owned() },
            Err(error) => error,
        }
    }

    /// Whether the kept connection is there; asks nobody but the socket.
    pub fn is_connected(&self) -> bool {
        // Its master listens there as long as it lives.
        std::os::unix::net::UnixStream::connect(self.socket()).is_ok()
    }

    pub(super) fn disconnect(&self) {
        self.control("exit");
    }

    fn control(&self, word: &str) -> bool {
        let mut command = self.command(Person::Nobody, Duration::from_secs(5));
        command.arg("-O").arg(word).arg("--").arg(&self.alias);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    /// Starts `script`, a line that every login shell understands. Waits while all sessions are taken.
    pub(crate) fn start(
        &self,
        script: &str,
        person: Person,
        stderr: Stderr,
        limit: Duration,
    ) -> Result<Session, HostError> {
        let place = self.place(limit)?;
        let mut command = self.command(person, limit);
        command.arg("--").arg(&self.alias).arg(script);
        Session::start(command, stderr, limit, Some(place)).map_err(|error| HostError::NoProgram {
            program: self.program.first().cloned().unwrap_or_default(),
            why: error.to_string(),
        })
    }

    /// What an ended session was about.
    pub(crate) fn why(&self, session: &mut Session) -> HostError {
        let status = session.end();
        let said = session.said();
        match status {
            Ok(status) if status.code() == Some(255) => HostError::of(&self.alias, &said),
            _ => HostError::NoShell { host: self.alias.clone(), said: super::error::last_line(&said) },
        }
    }

    /// One of the sessions that all processes of this user share.
    fn place(&self, limit: Duration) -> Result<OwnedFd, HostError> {
        let deadline = Instant::now() + limit;
        loop {
            for number in 0..SESSIONS {
                let path = self.folder.join(format!("{}.{number}", self.mark()));
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                let opened = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600));
                let file = opened.map_err(|error| HostError::Folder {
                    path: path.display().to_string(),
                    why: io::Error::from(error).to_string(),
                })?;
                if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                    return Ok(file);
                }
            }
            if Instant::now() >= deadline {
                return Err(HostError::Busy { host: self.alias.clone() });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Whoever can write there could take the connection over.
fn private(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let data = std::fs::symlink_metadata(folder)?;
    let ours = data.is_dir() && data.uid() == rustix::process::getuid().as_raw();
    if ours && data.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "others could write there"))
}
