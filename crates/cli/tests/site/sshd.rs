//! A private sshd on a free port of loopback, as whoever runs the test; ended with this value.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use trainyard_engine::host::{Host, SshHost};
use trainyard_testkit::eventually;

pub(crate) struct Sshd {
    root: TempDir,
    port: u16,
    child: Child,
    hosts: std::cell::RefCell<Vec<Host>>,
}

impl Sshd {
    /// `more` are further lines of the server's settings, which win.
    pub(crate) fn start(more: &str) -> Self {
        // Short, since sockets of kept connections lie in it.
        let root = tempfile::Builder::new().prefix("s").tempdir_in("/tmp").unwrap();
        for name in ["hostkey", "key", "stranger"] {
            let path = root.path().join(name);
            let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&path).status();
            assert!(made.unwrap().success());
        }
        std::fs::copy(root.path().join("key.pub"), root.path().join("authorized")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = root.path().display();
        let settings = format!(
            "{more}\nPort {port}\nListenAddress 127.0.0.1\nHostKey {folder}/hostkey\nPidFile {folder}/pid\n\
             AuthorizedKeysFile {folder}/authorized\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             UsePAM no\nStrictModes no\nPermitRootLogin yes\n"
        );
        std::fs::write(root.path().join("sshd_config"), settings).unwrap();
        if rustix::process::getuid().is_root() {
            std::fs::create_dir_all("/run/sshd").unwrap();
        }
        let log = std::fs::File::create(root.path().join("log")).unwrap();
        let mut command = Command::new("/usr/sbin/sshd");
        command.args(["-D", "-e", "-f"]).arg(root.path().join("sshd_config")).stdin(Stdio::null()).stderr(log);
        let child = command.spawn().expect("sshd of the package openssh-server");
        eventually("sshd", || TcpStream::connect(("127.0.0.1", port)).ok());
        Self { root, port, child, hosts: std::cell::RefCell::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.root.path()
    }

    /// Settings of a client that may log in; `more` comes first and so wins.
    pub(crate) fn client(&self, more: &str) -> Host {
        let (folder, port) = (self.root.path().display(), self.port);
        let count = self.hosts.borrow().len();
        let file = self.root.path().join(format!("client{count}"));
        let settings = format!(
            "{more}\nHost site\nHostName 127.0.0.1\nPort {port}\nIdentityFile {folder}/key\nIdentitiesOnly yes\n\
             UserKnownHostsFile {folder}/known\nGlobalKnownHostsFile /dev/null\nStrictHostKeyChecking accept-new\n"
        );
        std::fs::write(&file, settings).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let host = self.host("site", &file);
        self.hosts.borrow_mut().push(host.clone());
        host
    }

    pub(crate) fn host(&self, alias: &str, file: &Path) -> Host {
        let program = ["ssh", "-F", file.to_str().unwrap()].map(str::to_owned);
        Host::Ssh(SshHost::new(alias, &program, &self.root.path().join("c")).unwrap())
    }

    /// Ends the server and all that its connections run.
    pub(crate) fn cut(&self) {
        for pid in below(self.child.id()) {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    pub(crate) fn known(&self) -> PathBuf {
        self.root.path().join("known")
    }
}

/// Processes below one, not itself.
fn below(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(path).unwrap_or_default();
    let children: Vec<u32> = children.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    children.iter().flat_map(|&child| std::iter::once(child).chain(below(child))).collect()
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.hosts.borrow().iter().for_each(Host::disconnect);
        self.cut();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
