//! A program whose processes are somebody else's: SLURM's, on several nodes or in an image of its own, or those of a container
//! engine.
//!
//! `srun` takes a SIGTERM for the wish to kill all at once, and if it is killed itself its processes go on. So the
//! processes are told and ended through the controller, by the name of their step, which the first of them writes down.
//! Those in a container are told and ended through its engine, by the container's name.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use trainyard_core::plan::slurm::{rendezvous_port, step};
use trainyard_core::spec::{Container, JobSpec};

use crate::depot::AttemptFolder;
use crate::engine::Client;
use crate::order::Order;
use crate::program::run_limited;
use crate::sys::Ended;

/// A controller that does not answer makes its clients wait for some ten seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// The processes of one attempt, on all nodes.
#[derive(Debug)]
pub(crate) struct Step {
    name: PathBuf,
    by: By,
}

#[derive(Debug)]
enum By {
    Slurm,
    Engine {
        client: Client,
        container: String,
        /// The other end of the container's standard input, which ends with us.
        _life: OwnedFd,
    },
}

/// Whether the program of this order is started by `srun`.
pub(crate) fn is_wanted(order: &Order) -> bool {
    order.lease.is_some() && (order.job.total_tasks() > 1 || is_pyxis(&order.job))
}

fn is_pyxis(job: &JobSpec) -> bool {
    job.around.container.as_ref().is_some_and(|container| container.by == Container::Pyxis)
}

/// `argv` as a step of this allocation. What all its processes have in common goes into the environment; the rest each
/// of them finds out by itself (see [`crate::task`]).
pub(crate) fn wrap(
    order: &Order,
    folder: &AttemptFolder,
    options: &[String],
    argv: &[String],
    env: &mut BTreeMap<String, String>,
) -> io::Result<(Vec<String>, Step)> {
    let name = folder.step();
    let agent = std::env::current_exe()?;
    let words = [&agent.to_string_lossy(), "agent", "task", "--step", &name.to_string_lossy(), "--"];
    let task = words.map(str::to_owned);
    let number = env.get("SLURM_JOB_ID").and_then(|id| id.parse().ok()).unwrap_or(0);
    let first = first_node(env)?;
    // One allocation, one such program: those that share one have a single process each.
    let port = rendezvous_port(number, 0).to_string();
    for (name, value) in [("MASTER_PORT", port), ("MASTER_ADDR", first)] {
        env.entry(name.to_owned()).or_insert(value);
    }
    env.insert("WORLD_SIZE".to_owned(), order.job.total_tasks().to_string());
    env.insert("LOCAL_WORLD_SIZE".to_owned(), order.job.tasks_per_node().to_string());
    let mut words = step(&order.job, options, &task, argv);
    if let Some(srun) = words.first_mut() {
        // The job's own PATH is for its program.
        *srun = find(srun)?;
    }
    Ok((words, Step { name, by: By::Slurm }))
}

fn find(program: &str) -> io::Result<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file());
    let found = found.ok_or_else(|| io::Error::other(format!("`{program}` is not in PATH on this node")))?;
    Ok(found.to_string_lossy().into_owned())
}

/// SLURM writes lists such as `gpu[03-07,12]`; only it can read them all.
fn first_node(env: &BTreeMap<String, String>) -> io::Result<String> {
    let missing = || io::Error::other("SLURM_JOB_NODELIST is not set; is this a SLURM job?");
    let nodes = env.get("SLURM_JOB_NODELIST").ok_or_else(missing)?;
    let output = run_limited(&["scontrol", "show", "hostnames", nodes].map(str::to_owned), PATIENCE)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    first.map(str::to_owned).ok_or_else(|| {
        io::Error::other(format!(
            "`scontrol show hostnames {nodes}`: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ))
    })
}

impl Step {
    /// The processes of a container, and what its engine is to be given as standard input: `told`, and then nothing.
    pub(crate) fn in_container(
        name: PathBuf,
        client: Client,
        container: String,
        told: &[u8],
    ) -> io::Result<(Self, OwnedFd)> {
        let (input, life) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        // All of it fits, so nobody has to read before we go on.
        rustix::pipe::fcntl_setpipe_size(&life, told.len().max(1))?;
        let mut life = std::fs::File::from(life);
        life.write_all(told)?;
        let life = OwnedFd::from(life);
        Ok((Self { name, by: By::Engine { client, container, _life: life } }, input))
    }

    /// Whether what is left below us when it has ended is not the program's but its engine's, which is tidying up.
    pub(crate) fn ends_by_itself(&self) -> bool {
        matches!(self.by, By::Engine { .. })
    }

    /// `None` while its first process has not begun.
    fn id(&self) -> Option<String> {
        let text = std::fs::read_to_string(&self.name).ok()?;
        text.strip_suffix('\n').map(str::to_owned)
    }

    /// How the first process that failed ended.
    pub(crate) fn failure(&self) -> Option<Ended> {
        let text = std::fs::read_to_string(self.name.with_extension("failed")).ok()?;
        let (how, number) = text.strip_suffix('\n')?.split_once(' ')?;
        let number = number.parse().ok()?;
        Some(if how == "killed" { Ended::Killed(number) } else { Ended::Exited(number) })
    }

    /// Tells all processes. False if they could not be told, or there are none yet.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        let told = match &self.by {
            By::Slurm => {
                let Some(id) = self.id() else { return false };
                run_limited(&["scancel".to_owned(), format!("--signal={}", signal.as_raw()), id], PATIENCE)
            }
            By::Engine { client, container, .. } => {
                client.call(&["kill", "--signal", &signal.as_raw().to_string(), container], PATIENCE)
            }
        };
        told.is_ok_and(|output| output.status.success())
    }
}

/// A process that failed says so, unless another was first: the others are then ended, and what `srun` says of all of
/// them is not what went wrong.
pub(crate) fn first_to_fail(file: &Path, ending: Ended) {
    let text = match ending {
        Ended::Exited(0) => return,
        Ended::Exited(code) => format!("exited {code}\n"),
        Ended::Killed(signal) => format!("killed {signal}\n"),
    };
    let file = fs_err::OpenOptions::new().write(true).create_new(true).open(file.with_extension("failed"));
    // Not the first, or the disk is full: `srun` has something to say, too.
    drop(file.and_then(|mut file| file.write_all(text.as_bytes())));
}

/// The first process of a step says which one it is.
pub(crate) fn write_down(file: &Path, job: &str, step: &str) -> io::Result<()> {
    let beside = file.with_extension("tmp");
    fs_err::write(&beside, format!("{job}.{step}\n"))?;
    fs_err::rename(beside, file)
}
