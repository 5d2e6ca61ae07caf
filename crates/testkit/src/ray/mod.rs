//! Real Ray clusters on loopback, from the Pythons that `./test ray` makes: a head without processors, and nodes with
//! fake GPUs. Every node has a disk of its own where depots are, which neither the others nor the test's yard see there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use trainyard_core::plan::ray::Node;
use trainyard_core::spec::{RaySpec, SecretRef};
use trainyard_engine::ray::Ray as Client;

use crate::forwarder::Forwarder;
use crate::waiting::patiently;
use crate::{ports, processes};

/// Twenty seconds on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// `ray start` gives up by itself after 30 seconds, which on a busy machine is too early, and cannot be told to wait.
const STARTS: u32 = 3;

/// Arguments: the cluster's folder, a node's disk, where it is seen there, and what to start. When its input ends, as it does
/// with the test's process, it takes all others along, and the folder with them.
const UNTIL_INPUT_ENDS: &str = r#"folder=$1 depot=$3; mount --bind "$2" "$depot"; shift 3; "$@" </dev/null &
cat >/dev/null; kill -9 -1; umount -l "$depot"; rm -rf "$folder""#;

/// What a node besides the head has.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub cpus: u32,
    pub gpus: u32,
}

/// Ended with its value, or with the test's process, however that ends.
pub struct Ray {
    /// By number; the head is 0. Before the folder they write into.
    machines: BTreeMap<usize, Machine>,
    folder: tempfile::TempDir,
    python: PathBuf,
    token: Option<String>,
    gcs: u16,
    dashboard: u16,
    /// What is called the dashboard by all but the cluster itself.
    front: Forwarder,
    sizes: Vec<Size>,
}

/// The versions to test with, oldest first, each as the path of its Python.
///
/// # Panics
/// When `./test ray` has not set them.
pub fn versions() -> Vec<PathBuf> {
    let all = std::env::var_os("YARD_TEST_RAYS").expect("YARD_TEST_RAYS; `./test ray` sets it");
    std::env::split_paths(&all).collect()
}

impl Ray {
    /// A head, and a node of each size.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn start(python: &Path, sizes: &[Size], token: Option<&str>) -> Self {
        // Short: Ray puts sockets below it.
        let folder = tempfile::Builder::new().prefix("yr").tempdir_in("/tmp").expect("a folder");
        let dashboard = ports::free();
        let mut ray = Self {
            folder,
            python: python.to_owned(),
            token: token.map(str::to_owned),
            gcs: ports::free(),
            dashboard,
            front: Forwarder::start(dashboard),
            sizes: sizes.to_vec(),
            machines: BTreeMap::new(),
        };
        std::fs::create_dir(ray.depot()).expect("a folder");
        if let Some(token) = token {
            std::fs::write(ray.token_file(), token).expect("a file");
        }
        ray.resume();
        ray
    }

    /// As targets name it.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.front.port())
    }

    /// A folder that is another one on each node, and empty elsewhere.
    pub fn depot(&self) -> PathBuf {
        self.folder.path().join("depot")
    }

    /// What a node has there; the head is number 0.
    pub fn disk(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("disk{node}"))
    }

    pub fn token_file(&self) -> PathBuf {
        self.folder.path().join("token")
    }

    /// A target of this name, for `trainyard.toml`.
    pub fn target(&self, name: &str) -> String {
        let token = match self.token {
            Some(_) => format!("token = {{ file = '{}' }}\n", self.token_file().display()),
            None => String::new(),
        };
        let (address, depot) = (self.address(), self.depot());
        format!("[targets.{name}]\nkind = 'ray'\naddress = '{address}'\ndepot = '{}'\n{token}", depot.display())
    }

    /// # Panics
    /// When the address cannot be read.
    pub fn client(&self) -> Client {
        let address = format!("http://127.0.0.1:{}", self.dashboard);
        let spec = RaySpec {
            addresses: vec![address.clone()],
            clusters: None,
            token: self.token.as_ref().map(|_| SecretRef::File(self.token_file())),
            ca: None,
            node: None,
            shares: Default::default(),
            pip: Vec::new(),
            py_modules: Vec::new(),
            env: Default::default(),
        };
        Client::open(&spec, &address).expect("a client")
    }

    /// Whether connections from outside are let in.
    pub fn be_away(&self, away: bool) {
        self.front.refuse(away);
    }

    /// After so many more bytes connections end, and nobody is let in until [`Self::be_away`] says so.
    pub fn close_after(&self, bytes: u64) {
        self.front.close_after(bytes);
    }

    pub fn cuts(&self) -> usize {
        self.front.cuts()
    }

    /// Bytes that went through from outside, in both directions.
    pub fn bytes(&self) -> u64 {
        self.front.bytes()
    }

    /// All that Ray itself has ever logged on a node.
    pub fn logs(&self, node: usize) -> String {
        let entries = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
        let sessions = entries(self.folder.path().join(format!("t{node}")));
        let files = sessions.flat_map(|session| entries(session.path().join("logs")));
        let files = files.filter(|file| file.file_type().is_ok_and(|kind| kind.is_file()));
        let texts = files.filter_map(|file| std::fs::read(file.path()).ok());
        texts.map(|text| String::from_utf8_lossy(&text).into_owned()).collect()
    }

    /// With SIGKILL, and all its processes with it.
    pub fn kill_head(&mut self) {
        self.machines.remove(&0);
    }

    /// A node besides the head, counted from 1.
    pub fn kill_node(&mut self, number: usize) {
        self.machines.remove(&number);
    }

    /// What is not there is started, with the disks it had; nodes whose head is gone leave by themselves, and are started
    /// anew with it.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn resume(&mut self) {
        // Of many at once `ray start` gives up on some.
        static STARTING: Mutex<()> = Mutex::new(());
        let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..STARTS {
            if self.come_up().is_some() {
                return;
            }
            self.kill_head();
        }
        panic!("a Ray cluster has not come up {STARTS} times; what it said: {}", self.said());
    }

    /// The end of what `ray start` has printed.
    fn said(&self) -> String {
        let text = std::fs::read(self.folder.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&text[text.len().saturating_sub(6000)..]).into_owned()
    }

    fn come_up(&mut self) -> Option<()> {
        if !self.machines.contains_key(&0) {
            self.machines.clear();
        }
        let client = self.client();
        // One after another: of two that start at once on one machine, Ray 2.31 takes one for the other.
        for number in 0..=self.sizes.len() {
            if !self.machines.contains_key(&number) {
                self.machines.insert(number, self.launch(number));
                let is_it = |node: &Node| node.ip == ip(number);
                patiently(PATIENCE, || client.nodes().ok()?.iter().any(is_it).then_some(()))?;
            }
        }
        Some(())
    }

    fn launch(&self, number: usize) -> Machine {
        std::fs::create_dir_all(self.disk(number)).expect("a folder");
        let temp = self.folder.path().join(format!("t{number}"));
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.folder.path().join("log"));
        let log = log.expect("a log");
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "sh", "-c"]);
        command.arg(UNTIL_INPUT_ENDS).arg("sh").arg(self.folder.path()).arg(self.disk(number)).arg(self.depot());
        command.arg(self.python.with_file_name("ray")).arg("start").arg("--block");
        command.args(["--min-worker-port=0", "--max-worker-port=0", "--object-store-memory=80000000"]);
        command.arg(format!("--node-ip-address={}", ip(number)));
        command.arg(format!("--dashboard-agent-listen-port={}", ports::free()));
        command.arg(format!("--temp-dir={}", temp.display()));
        if number == 0 {
            command.args(["--head", "--dashboard-host=127.0.0.1", "--num-cpus=0", "--num-gpus=0"]);
            command.arg("--disable-usage-stats").arg(format!("--port={}", self.gcs));
            command.arg(format!("--dashboard-port={}", self.dashboard));
            command.arg(format!("--ray-client-server-port={}", ports::free()));
        } else {
            let size = self.sizes[number - 1];
            command.arg(format!("--address={}:{}", ip(0), self.gcs));
            command.arg(format!("--num-cpus={}", size.cpus)).arg(format!("--num-gpus={}", size.gpus));
        }
        command.env_clear().env("HOME", self.folder.path()).env("PATH", self.path(number)).env("LANG", "C.UTF-8");
        command.env("RAY_USAGE_STATS_ENABLED", "0");
        match &self.token {
            Some(token) => command.env("RAY_AUTH_MODE", "token").env("RAY_AUTH_TOKEN", token),
            None => command.env("RAY_AUTH_MODE", "disabled"),
        };
        command.stdin(Stdio::piped()).stdout(log.try_clone().expect("a log")).stderr(log);
        Machine(command.spawn().expect("`unshare` of util-linux"))
    }

    /// Programs find what the node alone has first, and then the Python of the cluster.
    fn path(&self, node: usize) -> std::ffi::OsString {
        let own = self.python.parent().map(Path::to_owned);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(self.programs(node)).chain(own).chain(std::env::split_paths(&path));
        std::env::join_paths(all).expect("a path")
    }

    /// A folder for programs that only this node has.
    fn programs(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("bin{node}"))
    }

    /// Gives a node a program, as a script for `sh`.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn give(&self, node: usize, name: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::create_dir_all(self.programs(node)).expect("a folder");
        let path = self.programs(node).join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a file");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    }
}

/// Ended with its value.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        processes::kill(i32::try_from(self.0.id()).unwrap_or_default());
        drop(self.0.wait());
    }
}

fn ip(number: usize) -> String {
    format!("127.0.0.{}", number + 2)
}
