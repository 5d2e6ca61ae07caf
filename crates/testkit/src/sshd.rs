//! A real sshd on a free port of loopback.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::stage::{Stage, set_mode};
use crate::waiting::eventually;
use crate::yard::Output;
use crate::{census, ports, processes};

/// Lets everybody in whose key is in the file `authorized`. Ended with its stage.
pub struct Sshd {
    name: String,
    folder: PathBuf,
    port: u16,
    process: Mutex<Option<i32>>,
}

impl Sshd {
    /// On a machine of this name; sessions get these variables.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn start(stage: &Stage, name: &str, authorized: &Path, variables: &[(String, String)]) -> Self {
        let folder = stage.folder().join("sshd").join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let sshd = Self { name: name.to_owned(), port: ports::free(), process: Mutex::default(), folder };
        let sets: Vec<String> = variables.iter().map(|(name, value)| format!("\"{name}={value}\"")).collect();
        let folder = sshd.folder.display();
        let text = format!(
            "Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/key
PidFile {folder}/pid
AuthorizedKeysFile {authorized}
Banner {folder}/banner
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
SetEnv {sets}
Subsystem sftp internal-sftp
",
            port = sshd.port,
            authorized = authorized.display(),
            sets = sets.join(" "),
        );
        std::fs::write(sshd.folder.join("config"), text).expect("a configuration");
        make_key(&sshd.folder.join("key"));
        sshd.resume(stage);
        sshd
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The public half of the key it shows.
    ///
    /// # Panics
    /// When it cannot be read.
    pub fn host_key(&self) -> String {
        std::fs::read_to_string(self.folder.join("key.pub")).expect("a key")
    }

    /// Makes another key, which the next connection sees.
    pub fn change_host_key(&self, stage: &Stage) {
        for name in ["key", "key.pub"] {
            drop(std::fs::remove_file(self.folder.join(name)));
        }
        make_key(&self.folder.join("key"));
        self.stop(stage);
        self.resume(stage);
    }

    /// Shown to everybody before they log in, on their stderr.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn set_banner(&self, text: &str) {
        std::fs::write(self.folder.join("banner"), text).expect("a banner");
    }

    /// Listens (again), with the same port and key.
    ///
    /// # Panics
    /// When it runs or does not come up.
    pub fn resume(&self, stage: &Stage) {
        make_privilege_folder(stage);
        let mut process = self.process.lock().expect("no panic inside");
        assert!(process.is_none(), "sshd runs");
        let mut command = stage.command(&self.name, "/usr/sbin/sshd");
        command.args(["-D", "-e", "-f"]).arg(self.folder.join("config"));
        let log = format!("sshd-{}.log", self.name);
        let pid = stage.start(&mut command, &log);
        *process = Some(pid);
        eventually("sshd", || {
            let log = || std::fs::read_to_string(stage.log_folder().join(&log)).unwrap_or_default();
            assert!(processes::is_alive(pid), "sshd ended: {}", log());
            ports::answers(self.port).then_some(())
        });
    }

    /// Ends all connections and listens no more.
    pub fn stop(&self, stage: &Stage) {
        let Some(pid) = self.process.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let connections = connections(pid);
        stage.end(pid);
        connections.into_iter().for_each(processes::kill);
    }

    /// Ends all connections there are now. What was started through them is told by the end of its input only.
    pub fn cut(&self) {
        let listener = *self.process.lock().expect("no panic inside");
        if let Some(pid) = listener {
            connections(pid).into_iter().for_each(processes::kill);
        }
    }
}

/// sshd's own processes below the one that listens, not the users' programs.
fn connections(listener: i32) -> Vec<i32> {
    let all = census::take();
    let mut found = vec![listener];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        let own = |one: &&census::Process| one.arguments.first().is_some_and(|name| name.contains("sshd"));
        found.extend(all.iter().filter(|one| one.parent == parent).filter(own).map(|one| one.pid));
        next += 1;
    }
    found.split_off(1)
}

/// Without a password.
pub(crate) fn make_key(path: &Path) {
    let made =
        Output::of(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"]).arg(path));
    assert_eq!(made.exit, 0, "ssh-keygen: {made:?}");
    set_mode(path, 0o600);
}

/// Debian makes it when the service starts, which it never does here.
fn make_privilege_folder(stage: &Stage) {
    if rustix::process::geteuid().is_root() {
        let folder = stage.root().unwrap_or(Path::new("/")).join("run/sshd");
        std::fs::create_dir_all(folder).expect("/run/sshd");
    }
}
