//! A small disk of its own that a test can fill: a tmpfs in a mount namespace, gone with whoever made it.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Mounted on one folder, for the programs that are started inside only.
pub struct SmallDisk {
    /// Holds the namespace until its input ends.
    holder: Child,
    folder: PathBuf,
}

impl SmallDisk {
    /// Needs `unshare`, `nsenter` and `mount`, and root or user namespaces.
    ///
    /// # Panics
    /// When it cannot be had.
    pub fn on(folder: &Path, megabytes: usize) -> Self {
        std::fs::create_dir_all(folder).expect("a folder to mount on");
        let script = format!("mount -t tmpfs -o size={megabytes}m,mode=700 tmpfs \"$0\" && echo ready && exec cat");
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        command.args(["--mount", "sh", "-c", &script]).arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = command.spawn().expect("`unshare` (util-linux)");
        let mut ready = [0; 6];
        let heard = holder.stdout.as_mut().expect("a pipe").read_exact(&mut ready);
        assert!(heard.is_ok() && &ready == b"ready\n", "a tmpfs can be mounted: as root, or with user namespaces");
        Self { holder, folder: folder.to_owned() }
    }

    /// The same command, inside.
    pub fn inside(&self, command: &Command) -> Command {
        let mut entered = Command::new("nsenter");
        if !rustix::process::geteuid().is_root() {
            entered.args(["--user", "--preserve-credentials"]);
        }
        entered.arg("--mount").arg(format!("--target={}", self.holder.id()));
        // Entering leads to the root folder.
        entered.args(["sh", "-c", "cd \"$0\" && exec \"$@\""]).arg(command.get_current_dir().unwrap_or(Path::new("/")));
        entered.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => entered.env(name, value),
                None => entered.env_remove(name),
            };
        }
        entered
    }

    /// The mounted folder as it can be reached from outside.
    pub fn folder(&self) -> PathBuf {
        let below = self.folder.strip_prefix("/").expect("an absolute folder");
        PathBuf::from(format!("/proc/{}/root", self.holder.id())).join(below)
    }

    /// Until not a byte more goes in.
    ///
    /// # Panics
    /// When it cannot be filled.
    pub fn fill(&self) {
        let mut filler = std::fs::File::create(self.filler()).expect("room for a name");
        let full = std::iter::repeat_with(|| filler.write_all(&[b'x'; 4096])).find_map(Result::err);
        assert_eq!(full.map(|error| error.kind()), Some(std::io::ErrorKind::StorageFull));
    }

    /// # Panics
    /// When it was not filled.
    pub fn make_room(&self) {
        std::fs::remove_file(self.filler()).expect("it was filled");
    }

    fn filler(&self) -> PathBuf {
        self.folder().join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.holder.kill());
        drop(self.holder.wait());
    }
}
