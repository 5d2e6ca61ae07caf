//! Where a cluster is played on one machine: programs started on a stage see host names, users and a boot id of their
//! own, through mount and UTS namespaces. Nothing of the machine itself is changed, and nothing of it is hidden.
//!
//! A guardian beside it ends whatever the stage started and removes its folder, also when the test is killed.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{geteuid, getgid, getuid};

use crate::census::{self, Process};
use crate::processes;

/// Who is on a stage carries this in the environment, with the stage's folder.
pub(crate) const MARK: &str = "YARD_TEST_STAGE";

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Needs `unshare` and `mount`, and root or user namespaces.
pub struct Stage {
    folder: PathBuf,
    root: Option<PathBuf>,
    guardian: Child,
    children: Mutex<Vec<Child>>,
}

/// Somebody who may log in and submit.
#[derive(Debug, Clone)]
pub struct User {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    /// Theirs, and removed with the stage.
    pub home: PathBuf,
}

/// Arguments: folder, folder of all stages, root folder (or nothing), host name, program and its arguments.
const ENTER: &str = r#"
set -e
stage=$1 all=$2 root=$3 host=$4
shift 4
if [ -n "$root" ]; then
    mount --rbind /dev "$root/dev"
    mount -t proc proc "$root/proc"
    mkdir -p "$root$all"
    mount --bind "$all" "$root$all"
fi
for file in hosts passwd shadow group; do
    [ -e "$root/etc/$file" ] || : >"$root/etc/$file"
    mount --bind "$stage/etc/$file" "$root/etc/$file"
done
while read -r file; do mount --bind "$stage/etc/absent" "$root$file"; done <"$stage/etc/absent"
mount --bind "$stage/boot/$host" "$root/proc/sys/kernel/random/boot_id"
hostname "$host"
[ -z "$root" ] || exec chroot "$root" sh -c 'cd "$0" 2>/dev/null || cd /; exec "$@"' "$PWD" "$@"
exec "$@"
"#;

/// Arguments: folder. Waits for the end of its input, which comes with the end of the test in whatever way.
///
/// munged and sshd lose their environment, but are named with a file of the folder; `pids` has what was started here.
const GUARD: &str = r#"
cat >/dev/null
end() {
    for below in $(cat "/proc/$1"/task/*/children 2>/dev/null); do end "$below"; done
    kill -9 "$1" 2>/dev/null
}
while read -r pid; do
    if tr '\0' ' ' <"/proc/$pid/cmdline" | grep -qsF "$1/"; then end "$pid"; fi
done <"$1/pids" 2>/dev/null
marked() { grep -lszxF -e "YARD_TEST_STAGE=$1" -e "SLURM_CONF=$1/etc/slurm.conf" /proc/[0-9]*/environ; }
# Its exit status says only that some process could not be looked at.
while found=$(marked "$1"); [ -n "$found" ]; do
    for path in $found; do
        pid=${path#/proc/}
        end "${pid%/environ}"
    done
    sleep 0.01
done
rm -rf "$1"
"#;

impl Stage {
    /// In a folder of its own. With a `root`, programs are taken from there (a Debian made with `mmdebstrap`).
    ///
    /// # Panics
    /// When it cannot be had.
    pub fn new(root: Option<PathBuf>) -> Self {
        let folder = tempfile::Builder::new().prefix("stage-").tempdir().expect("a temporary folder").keep();
        let guardian = guard(&folder);
        let stage = Self { folder, root, guardian, children: Mutex::default() };
        // Others than its owner have to come by: the users of the stage.
        set_mode(&stage.folder, 0o755);
        for name in ["etc", "boot", "log", "home"] {
            std::fs::create_dir(stage.folder.join(name)).expect("a folder");
        }
        for name in ["passwd", "group"] {
            let machine = stage.root().unwrap_or(Path::new("/")).join("etc").join(name);
            std::fs::copy(machine, stage.etc(name)).expect("a file of /etc");
        }
        stage.write("shadow", "");
        stage.write("absent", "");
        std::fs::write(stage.folder.join("pids"), "").expect("a list");
        if !geteuid().is_root() {
            stage.move_home();
        }
        stage.name_hosts(&[]);
        stage
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where its programs are taken from; none is the machine's own.
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    pub fn log_folder(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// The end of every log.
    pub fn log(&self) -> String {
        let files = std::fs::read_dir(self.log_folder()).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
        files.sort();
        files.iter().map(|file| end_of(file, 40)).collect()
    }

    pub fn etc(&self, name: &str) -> PathBuf {
        self.folder.join("etc").join(name)
    }

    /// A file of the stage's `etc`. Those who have come on already see the change.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.etc(name), text).expect("a file of the stage");
    }

    /// Whoever comes on from now on does not find this program, whose place it is.
    pub fn take_away(&self, program: &str) {
        self.append("absent", &format!("{program}\n"));
        if !geteuid().is_root() {
            self.move_home();
        }
    }

    /// Names of loopback addresses, for everybody on the stage.
    pub fn name_hosts(&self, names: &[(String, String)]) {
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let lines = names.iter().map(|(name, address)| format!("{address} {name}\n"));
        self.write("hosts", &format!("127.0.0.1 localhost {machine}\n{}", lines.collect::<String>()));
    }

    /// A user of the stage only. When we are not root: ourselves, with another home.
    ///
    /// # Panics
    /// When the files cannot be written.
    pub fn add_user(&self) -> User {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !geteuid().is_root() {
            return self.ourselves();
        }
        let turn = NEXT.fetch_add(1, Ordering::Relaxed);
        let uid = 61_000 + (std::process::id().wrapping_mul(16).wrapping_add(turn)) % 3_000;
        let name = format!("yard{uid}");
        let home = self.folder.join("home").join(&name);
        std::fs::create_dir_all(&home).expect("a home");
        chown(&home, Some(uid), Some(uid)).expect("a home of theirs");
        self.append("passwd", &format!("{name}:x:{uid}:{uid}::{}:{}\n", home.display(), self.shell()));
        self.append("group", &format!("{name}:x:{uid}:\n"));
        self.let_in(&name);
        User { name, uid, gid: uid, home }
    }

    fn shell(&self) -> &'static str {
        let absent = std::fs::read_to_string(self.etc("absent")).expect("a list");
        if absent.contains("bash") { "/bin/sh" } else { "/bin/bash" }
    }

    fn ourselves(&self) -> User {
        let uid = getuid().as_raw().to_string();
        let passwd = std::fs::read_to_string(self.etc("passwd")).expect("users");
        let name =
            passwd.lines().find(|line| line.split(':').nth(2) == Some(&uid)).and_then(|line| line.split(':').next());
        let name = name.expect("a user name for our user id").to_owned();
        User { name, uid: getuid().as_raw(), gid: getgid().as_raw(), home: self.folder.join("home") }
    }

    /// Our own home must not be written to.
    fn move_home(&self) {
        let me = self.ourselves();
        let passwd = std::fs::read_to_string(self.etc("passwd")).expect("users");
        let others = passwd.lines().filter(|line| !line.starts_with(&format!("{}:", me.name)));
        let others: String = others.map(|line| format!("{line}\n")).collect();
        let User { name, uid, gid, home } = me;
        self.let_in(&name);
        self.write("passwd", &format!("{name}:x:{uid}:{gid}::{}:{}\n{others}", home.display(), self.shell()));
    }

    /// No password fits, but the account is not locked (`!`), which sshd would refuse.
    fn let_in(&self, name: &str) {
        self.append("shadow", &format!("{name}:*:::::::\n"));
    }

    /// Never rewritten: those who have come on hold on to the file, and may be reading it.
    fn append(&self, name: &str, line: &str) {
        let mut file = std::fs::File::options().append(true).open(self.etc(name)).expect("a file of the stage");
        file.write_all(line.as_bytes()).expect("a file of the stage");
    }

    /// The machine of this name is another one from now on, as after a start.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn boot(&self, host: &str) {
        let id = std::fs::read("/proc/sys/kernel/random/uuid").expect("an id");
        let new = self.folder.join("boot").join(format!(".{host}"));
        std::fs::write(&new, id).expect("a boot id");
        std::fs::rename(new, self.folder.join("boot").join(host)).expect("a boot id");
    }

    /// The program, ready to be changed and started, on a machine of this name. The process is the program itself.
    pub fn command(&self, host: &str, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("unshare");
        if !geteuid().is_root() {
            command.args(["--user", "--map-current-user", "--keep-caps"]);
        }
        if !self.folder.join("boot").join(host).exists() {
            self.boot(host);
        }
        command.args(["--mount", "--uts", "sh", "-c", ENTER, "sh"]).arg(&self.folder).arg(std::env::temp_dir());
        command.arg(self.root().unwrap_or(Path::new(""))).arg(host).arg(program);
        // As after a start of the machine: nothing of the test's environment.
        command.env_clear().env("PATH", PATH).env("LANG", "C.UTF-8").env(MARK, &self.folder).stdin(Stdio::null());
        command
    }

    /// Starts it to be ended with the stage; its output goes to a file of `log_folder`. Answers its process id.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(&self, command: &mut Command, log: &str) -> i32 {
        let log = self.log_folder().join(log);
        let file = std::fs::File::options().create(true).append(true).open(log).expect("a log");
        command.stdout(file.try_clone().expect("a log")).stderr(file).process_group(0);
        let child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()));
        let pid = i32::try_from(child.id()).expect("a process id");
        let mut pids =
            std::fs::File::options().create(true).append(true).open(self.folder.join("pids")).expect("a list");
        writeln!(pids, "{pid}").expect("a list");
        self.children.lock().expect("no panic inside").push(child);
        pid
    }

    /// Ends something that was started here, the hard way, and waits until it is gone.
    ///
    /// # Panics
    /// When it was not started here.
    pub fn end(&self, pid: i32) {
        processes::kill(pid);
        let mut children = self.children.lock().expect("no panic inside");
        let place = children.iter().position(|child| child.id().cast_signed() == pid).expect("a child of ours");
        drop(children.swap_remove(place).wait());
    }

    /// Everybody on the stage this is true of, and whom they have started.
    pub fn find(&self, wanted: impl Fn(&Process) -> bool) -> Vec<i32> {
        let mark = self.folder.to_string_lossy();
        let conf = self.etc("slurm.conf");
        let ours = |process: &Process| {
            process.variable(MARK) == Some(&mark) || process.variable("SLURM_CONF") == conf.to_str()
        };
        let all = census::take();
        let mut found: Vec<i32> = all.iter().filter(|one| ours(one) && wanted(one)).map(|one| one.pid).collect();
        let mut next = 0;
        while let Some(&parent) = found.get(next) {
            let below = all.iter().filter(|one| one.parent == parent).map(|one| one.pid);
            let below: Vec<i32> = below.filter(|pid| !found.contains(pid)).collect();
            found.extend(below);
            next += 1;
        }
        found
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for child in self.children.get_mut().into_iter().flatten() {
            drop(child.kill());
        }
        drop(self.guardian.stdin.take());
        drop(self.guardian.wait());
        for child in self.children.get_mut().into_iter().flatten() {
            drop(child.wait());
        }
    }
}

fn guard(folder: &Path) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", GUARD, "sh"]).arg(folder).env_remove(MARK).env_remove("SLURM_CONF");
    // A group of its own: an interrupt at the terminal is for the test, not for who cleans up after it.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
    command.spawn().expect("`sh`")
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode of ours");
}

fn end_of(file: &Path, lines: usize) -> String {
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    let shown = &all[all.len().saturating_sub(lines)..];
    if shown.is_empty() { String::new() } else { format!("--- {}\n{}\n", file.display(), shown.join("\n")) }
}
