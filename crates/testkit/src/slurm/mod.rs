//! A SLURM of its own: the real daemons on free ports of loopback, on a stage where its nodes are machines with names.

mod accounting;
mod conf;
mod jobs;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use crate::ports;
use crate::processes;
use crate::stage::{Stage, User};
use crate::waiting::{eventually, patiently, within};
use crate::yard::Output;

pub use jobs::Row;

/// How a cluster is to be.
#[derive(Debug, Clone)]
pub struct Options {
    /// Each has 4 processors, 4000 MB and 4 GPUs of type `a100`.
    pub nodes: usize,
    /// With slurmdbd on a MariaDB of its own, so that `sacct` works. Takes some seconds more to start.
    pub accounting: bool,
    /// Whether jobs may be requeued unless they say otherwise (`JobRequeue`).
    pub job_requeue: bool,
    /// `MaxArraySize`: the highest index of an array plus one.
    pub max_array: u32,
    /// Seconds between SIGTERM and SIGKILL.
    pub kill_wait: u32,
    /// More lines for `slurm.conf`.
    pub extra: Vec<String>,
    /// A Debian with another SLURM in it.
    pub root: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        let extra = Vec::new();
        Self { nodes: 4, accounting: false, job_requeue: true, max_array: 1001, kill_wait: 3, extra, root: None }
    }
}

/// Everything it started is ended with it, jobs included.
pub struct Slurm {
    stage: Stage,
    options: Options,
    ports: Ports,
    running: Mutex<Running>,
}

#[derive(Debug, Clone)]
struct Ports {
    controller: u16,
    database: u16,
    nodes: Vec<u16>,
}

/// Process ids of the daemons; none of one that was killed.
#[derive(Default)]
struct Running {
    controller: Option<i32>,
    nodes: Vec<Option<i32>>,
}

impl Slurm {
    /// Answers when all nodes are idle.
    ///
    /// # Panics
    /// When it does not come up; the logs are in the message.
    pub fn start(options: Options) -> Self {
        let ports = Ports {
            controller: ports::free(),
            database: ports::free(),
            nodes: (0..options.nodes).map(|_| ports::free()).collect(),
        };
        let stage = Stage::new(options.root.clone());
        let running = Mutex::new(Running { controller: None, nodes: vec![None; options.nodes] });
        let slurm = Self { stage, options, ports, running };
        let names = slurm.node_names().into_iter().zip(11..).map(|(name, last)| (name, format!("127.0.0.{last}")));
        slurm.stage.name_hosts(&names.collect::<Vec<_>>());
        conf::write(&slurm.stage, &slurm.options, &slurm.ports, &slurm.version());
        slurm.start_munge();
        if slurm.options.accounting {
            accounting::start(&slurm.stage, slurm.ports.database);
        }
        slurm.start_controller();
        slurm.node_names().iter().for_each(|name| slurm.start_node(name));
        slurm.wait_idle();
        slurm
    }

    /// One for all tests of a process that do not disturb it. Ended with the process.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Slurm> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(Options::default()))
    }

    /// The root folders to run over: this machine's SLURM, and those in `YARD_TEST_SLURM_ROOTS` (`./test --all`).
    pub fn roots() -> Vec<Option<PathBuf>> {
        let others = std::env::var_os("YARD_TEST_SLURM_ROOTS").unwrap_or_default();
        let others: Vec<PathBuf> = std::env::split_paths(&others).filter(|path| !path.as_os_str().is_empty()).collect();
        std::iter::once(None).chain(others.into_iter().map(Some)).collect()
    }

    pub fn conf(&self) -> PathBuf {
        self.stage.etc("slurm.conf")
    }

    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// What a program needs to reach this SLURM with the machine's own client programs (not those of a root folder).
    pub fn env(&self) -> Vec<(String, String)> {
        vec![("SLURM_CONF".to_owned(), self.conf().to_string_lossy().into_owned())]
    }

    /// The number as `slurmctld -V` prints it, such as `22.05.8`.
    pub fn version(&self) -> String {
        let output = Output::of(self.stage.command("admin", "/usr/sbin/slurmctld").arg("-V"));
        assert_eq!(output.exit, 0, "slurmctld is installed: {output:?}");
        output.stdout.split_whitespace().last().expect("a version").to_owned()
    }

    pub fn node_names(&self) -> Vec<String> {
        (1..=self.options.nodes).map(|turn| format!("n{turn}")).collect()
    }

    pub fn add_user(&self) -> User {
        self.stage.add_user()
    }

    /// A client program as the administrator, ready to be changed and started.
    pub fn command(&self, argv: &[&str]) -> Command {
        let (program, arguments) = argv.split_first().expect("a program");
        let mut command = self.stage.command("admin", program);
        command.args(arguments).env("SLURM_CONF", self.conf()).current_dir(self.stage.folder());
        command
    }

    pub fn run(&self, argv: &[&str]) -> Output {
        Output::of(&mut self.command(argv))
    }

    /// The same as one of its users.
    pub fn run_as(&self, user: &User, argv: &[&str]) -> Output {
        let ids = [format!("--reuid={}", user.uid), format!("--regid={}", user.gid)];
        let mut all = vec![];
        if rustix::process::geteuid().is_root() {
            all.extend(["setpriv", &ids[0], &ids[1], "--clear-groups"]);
        }
        all.extend(argv);
        let mut command = self.command(&all);
        command.env("HOME", &user.home).env("USER", &user.name).env("LOGNAME", &user.name).env("SHELL", "/bin/bash");
        Output::of(command.current_dir(&user.home))
    }

    /// What it prints.
    ///
    /// # Panics
    /// When it fails.
    pub fn ask(&self, argv: &[&str]) -> String {
        let output = self.run(argv);
        assert_eq!(output.exit, 0, "{argv:?}: {output:?}");
        output.stdout
    }

    /// Kills slurmctld, as in a crash: jobs it acknowledged in the last five seconds are forgotten.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill_controller(&self) {
        let pid = self.running().controller.take().expect("a running controller");
        self.stage.end(pid);
    }

    /// Answers when it listens.
    ///
    /// # Panics
    /// When it does not, or runs already.
    pub fn start_controller(&self) {
        let mut running = self.running();
        assert!(running.controller.is_none(), "slurmctld runs");
        // `-i`: newer ones refuse to start again after a crash that came early.
        let mut command = self.daemon("admin", "/usr/sbin/slurmctld");
        let pid = self.stage.start(command.args(["-D", "-i"]), "slurmctld.out");
        running.controller = Some(pid);
        drop(running);
        eventually("slurmctld", || {
            assert!(processes::is_alive(pid), "slurmctld ended:\n{}", self.log());
            ports::answers(self.ports.controller).then_some(())
        });
    }

    /// The death of a whole node: slurmd, the steps and all processes of jobs there. SLURM notices after half a minute;
    /// `declare_down` tells it.
    ///
    /// # Panics
    /// When there is no such node, or it is dead.
    pub fn kill_node(&self, name: &str) {
        let pid = self.running().nodes[self.turn(name)].take().expect("a living node");
        self.stage.end(pid);
        // One that is about to end shows no environment any more, so those that were seen are waited for by their id.
        let mut killed = Vec::new();
        eventually("the end of all processes of the node", || {
            let found = self.on_node(name);
            found.iter().for_each(|pid| processes::kill(*pid));
            killed.extend(&found);
            (found.is_empty() && !killed.iter().any(|pid| processes::is_alive(*pid))).then_some(())
        });
    }

    /// As an administrator does who sees that a node is dead.
    pub fn declare_down(&self, name: &str) {
        self.ask(&["scontrol", "update", &format!("NodeName={name}"), "State=DOWN", "Reason=dead"]);
    }

    /// # Panics
    /// When there is no such node, or it runs already.
    pub fn start_node(&self, name: &str) {
        let turn = self.turn(name);
        let mut running = self.running();
        assert!(running.nodes[turn].is_none(), "{name} runs");
        self.stage.boot(name);
        let mut command = self.daemon(name, "/usr/sbin/slurmd");
        command.args(["-D", "-N", name]).env("YARD_TEST_NODE", name);
        running.nodes[turn] = Some(self.stage.start(&mut command, &format!("{name}.out")));
    }

    /// Steps and processes of jobs there.
    pub fn on_node(&self, name: &str) -> Vec<i32> {
        let here = |name: &str| {
            self.stage.find(|one| {
                one.variable("YARD_TEST_NODE") == Some(name) || one.variable("SLURMD_NODENAME") == Some(name)
            })
        };
        let slurmd = self.running().nodes[self.turn(name)];
        here(name).into_iter().filter(|pid| Some(*pid) != slurmd).collect()
    }

    /// Answers when every node can take a job.
    ///
    /// # Panics
    /// When that does not come about.
    pub fn wait_idle(&self) {
        let wanted = self.options.nodes.to_string();
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while self.run(&["sinfo", "-h", "-p", "main", "-t", "idle", "-o", "%D"]).stdout.trim() != wanted {
            assert!(std::time::Instant::now() < until, "not all nodes are idle:\n{}", self.log());
        }
    }

    /// Lets a running job's time be over: it is timed out at the controller's next sweep, in at most half a minute.
    ///
    /// # Panics
    /// When there is no such job.
    pub fn expire(&self, job: &str) {
        let soon = self.ask(&["date", "-d", "+2 seconds", "+%Y-%m-%dT%H:%M:%S"]);
        self.ask(&["scontrol", "update", &format!("JobId={job}"), &format!("EndTime={}", soon.trim())]);
    }

    /// Takes whole nodes for a job of higher priority, which other jobs there have to leave for. Answers its id; they get
    /// their nodes back with `scancel`.
    ///
    /// # Panics
    /// When it does not start.
    pub fn preempt(&self, nodes: &[&str]) -> String {
        let list = format!("--nodelist={}", nodes.join(","));
        let count = format!("--nodes={}", nodes.len());
        let argv =
            ["sbatch", "--parsable", "-p", "high", "--exclusive", &list, &count, "-o", "/dev/null", "--wrap=sleep 600"];
        let id = self.ask(&argv).trim().to_owned();
        within(Duration::from_secs(60), "the job of higher priority to run", || {
            self.jobs().into_iter().find(|row| row.id == id && row.state == "RUNNING")
        });
        id
    }

    /// All jobs SLURM knows of, those that ended lately included; every task of an array by itself.
    ///
    /// # Panics
    /// When `squeue` fails.
    pub fn jobs(&self) -> Vec<Row> {
        jobs::parse(&self.ask(&["squeue", "-h", "-a", "-r", "-t", "all", "-o", jobs::FORMAT]))
    }

    /// Jobs with this id, or of the array with this id.
    pub fn job(&self, id: &str) -> Vec<Row> {
        self.jobs().into_iter().filter(|row| row.id == id || row.array == id).collect()
    }

    /// Waits until a job, which is no array, is in this state.
    ///
    /// # Panics
    /// When it does not come to that in two minutes.
    pub fn wait_for(&self, id: &str, state: &str) -> Row {
        let mut found = Vec::new();
        let row = patiently(Duration::from_secs(120), || {
            found = self.job(id);
            found.iter().find(|row| row.state == state).cloned()
        });
        row.unwrap_or_else(|| panic!("job {id} is not {state} but {found:?}\n{}", self.log()))
    }

    /// The end of every log, for the message of a failed test.
    pub fn log(&self) -> String {
        self.stage.log()
    }

    fn start_munge(&self) {
        let run = self.stage.folder().join("run");
        let mut command = self.daemon("admin", "/usr/sbin/munged");
        command.args(["-F", "--num-threads=2"]);
        let files =
            [("socket", "munge.sock"), ("key-file", "munge.key"), ("pid-file", "munged.pid"), ("seed-file", "seed")];
        for (option, file) in files {
            command.arg(format!("--{option}={}", run.join(file).display()));
        }
        command.arg(format!("--log-file={}", self.stage.log_folder().join("munged.log").display()));
        let pid = self.stage.start(&mut command, "munged.out");
        eventually("munged", || {
            assert!(processes::is_alive(pid), "munged ended:\n{}", self.log());
            run.join("munge.sock").exists().then_some(())
        });
    }

    fn daemon(&self, host: &str, program: &str) -> Command {
        let mut command = self.stage.command(host, program);
        command.env("SLURM_CONF", self.conf()).current_dir(self.stage.folder()).stdin(Stdio::null());
        command
    }

    fn turn(&self, name: &str) -> usize {
        self.node_names().iter().position(|known| known == name).unwrap_or_else(|| panic!("no node {name}"))
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A failed test shows what SLURM had to say.
impl Drop for Slurm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            drop(std::io::stderr().write_all(self.log().as_bytes()));
        }
    }
}
