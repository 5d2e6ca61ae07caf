//! From an order to a running program: arguments, environment, process.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use trainyard_core::plan::arguments::{Invocation, command_line};
use trainyard_core::run::Outcome;
use trainyard_core::spec::Setting;
use trainyard_core::template::Values;
use trainyard_core::time::Instant;

use crate::order::{Order, Secrets};
use crate::step::{self, Step};
use crate::view::View;
use crate::work::Work;
use crate::{container, params_file, sys};

/// What a shell says when a program is not there, and when it cannot be executed.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;
/// Preparations of ours that failed; the number `env` and `docker run` use for that.
pub(crate) const NOT_PREPARED: i32 = 125;

/// Set by a batch script to the line that failed before the agent began.
const SETUP_FAILED: &str = "YARD_SETUP_FAILED";

/// A program that was started.
pub(crate) struct Launched {
    pub(crate) pid: i32,
    /// stdout and stderr share one pipe, so their order is the program's own.
    pub(crate) output: OwnedFd,
    /// Where its processes are not ours but the scheduler's.
    pub(crate) step: Option<Step>,
}

/// What an attempt adds to its order.
pub(crate) struct Circumstances<'a> {
    pub(crate) work: &'a Work,
    pub(crate) checkpoint: Option<&'a str>,
    pub(crate) deadline: Option<Instant>,
}

impl Circumstances<'_> {
    fn folder(&self) -> &Path {
        self.work.view.folder()
    }
}

pub(crate) fn cannot(code: i32, why: impl ToString) -> Outcome {
    Outcome::CannotStart { code, why: why.to_string() }
}

/// On failure nothing was executed.
pub(crate) fn launch(order: &Order, secrets: &Secrets, around: &Circumstances<'_>) -> Result<Launched, Outcome> {
    if order.lease.is_some()
        && let Some(line) = std::env::var_os(SETUP_FAILED)
    {
        let line = line.to_string_lossy();
        return Err(cannot(NOT_PREPARED, format!("this line of the target's `setup` or `modules` failed: {line}")));
    }
    let checkpoint = around.checkpoint.map(|path| around.folder().join(path).to_string_lossy().into_owned());
    let values = Values {
        seed: order.seed,
        run: order.run.to_string(),
        name: order.name.clone(),
        job: order.job.name.clone(),
        attempt: order.attempt,
        checkpoint: checkpoint.clone(),
        size: order.job.size(),
        params: &order.params,
    };
    params_file::write(&order.job, &values, &around.work.view).map_err(|error| cannot(NOT_PREPARED, error))?;
    let call = command_line(&order.job, &values, &order.extra).map_err(|error| cannot(NOT_PREPARED, error))?;
    let mut env = environment(order, &call, secrets, around, checkpoint)?;
    let (argv, step, input) = surround(order, around, &call, &mut env).map_err(|error| cannot(NOT_PREPARED, error))?;
    let [program, arguments @ ..] = argv.as_slice() else {
        return Err(cannot(NOT_PREPARED, "the command is empty"));
    };
    let started = start(program, arguments, &env, around.work, input);
    let (pid, output) = started.map_err(|error| explain(program, &around.work.view, &error))?;
    Ok(Launched { pid, output, step })
}

/// The program's own words within those of its image, and these within those of a step.
fn surround(
    order: &Order,
    around: &Circumstances<'_>,
    call: &Invocation,
    env: &mut BTreeMap<String, String>,
) -> io::Result<(Vec<String>, Option<Step>, Stdio)> {
    let attempt = order.depot.run(order.run).attempt(order.attempt);
    let wrapped = container::wrap(order, around.folder(), call, env)?;
    if let Some((step, input)) = wrapped.step {
        return Ok((wrapped.argv, Some(step), input.into()));
    }
    if !step::is_wanted(order) {
        return Ok((wrapped.argv, None, Stdio::null()));
    }
    let (argv, step) = step::wrap(order, &attempt, &wrapped.options, &wrapped.argv, env)?;
    Ok((argv, Some(step), Stdio::null()))
}

fn start(
    program: &str,
    arguments: &[String],
    env: &BTreeMap<String, String>,
    work: &Work,
    stdin: Stdio,
) -> io::Result<(i32, OwnedFd)> {
    let (output, input) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&output, rustix::fs::OFlags::NONBLOCK)?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(work.view.folder()).env_clear().envs(env);
    command.stdin(stdin).stdout(input.try_clone()?).stderr(input);
    sys::detach(&mut command, work.overlay.clone());
    let child = command.spawn()?;
    let pid = i32::try_from(child.id()).unwrap_or(i32::MAX);
    Ok((pid, output))
}

/// Base, then the job's own settings, then ours: a job cannot pass for another run.
fn environment(
    order: &Order,
    call: &Invocation,
    secrets: &Secrets,
    around: &Circumstances<'_>,
    checkpoint: Option<String>,
) -> Result<BTreeMap<String, String>, Outcome> {
    // A site has an environment of its own: what its scheduler, modules and setup lines made.
    let mut env: BTreeMap<String, String> =
        if order.lease.is_some() { std::env::vars().collect() } else { BTreeMap::new() };
    env.extend(order.env.clone());
    // A log that follows the program, not its buffers.
    env.entry("PYTHONUNBUFFERED".to_owned()).or_insert_with(|| "1".to_owned());
    for (name, setting) in &call.env {
        let text = match setting {
            Setting::Text(text) => text.clone(),
            Setting::Secret(_) => match secrets.0.get(name) {
                Some(secret) => secret.clone(),
                None => return Err(cannot(NOT_PREPARED, format!("the secret for {name} was not handed over"))),
            },
        };
        env.insert(name.clone(), text);
    }
    let output =
        order.job.outputs.first().map_or_else(|| around.folder().to_owned(), |path| around.folder().join(path));
    let mut set = |name: &str, value: String| env.insert(name.to_owned(), value);
    set("YARD_RUN", order.run.to_string());
    set("YARD_ATTEMPT", order.attempt.to_string());
    set("YARD_OUTPUT", output.to_string_lossy().trim_end_matches('/').to_owned());
    set("YARD_GPUS", order.job.gpus.to_string());
    // A scheduler that does not say which devices are ours leaves it to the program.
    if order.lease.is_none() || !order.devices.is_empty() {
        set("CUDA_VISIBLE_DEVICES", order.devices.join(","));
    }
    set("YARD_SEED", order.seed.map(|seed| seed.to_string()).unwrap_or_default());
    set("YARD_DEADLINE", around.deadline.map(|at| (at.0 / 1000).to_string()).unwrap_or_default());
    set("YARD_CHECKPOINT", checkpoint.unwrap_or_default());
    let attempt = order.depot.run(order.run).attempt(order.attempt);
    set("YARD_METRICS", attempt.reported().to_string_lossy().into_owned());
    if let Ok(program) = container::own_program() {
        set("YARD", program.to_string_lossy().into_owned());
    }
    Ok(env)
}

/// The kernel's answer, in words that name the way out.
fn explain(program: &str, view: &View, error: &io::Error) -> Outcome {
    let path = view.follow(Path::new(program));
    let named_by_path = program.contains('/');
    match error.raw_os_error() {
        Some(libc::ENOENT) if named_by_path && path.is_some() => {
            cannot(NOT_FOUND, format!("the interpreter named in the first line of `{program}` is not here"))
        }
        Some(libc::ENOENT) if named_by_path => {
            cannot(NOT_FOUND, format!("program not found: `{program}` is not in the working folder"))
        }
        Some(libc::ENOENT) => cannot(NOT_FOUND, format!("program not found: `{program}` is not in PATH")),
        Some(libc::EACCES) if path.is_some_and(|path| path.is_dir()) => {
            cannot(NOT_EXECUTABLE, format!("`{program}` is a folder, not a program"))
        }
        Some(libc::EACCES) => cannot(NOT_EXECUTABLE, format!("`{program}` is not executable (try `chmod +x`)")),
        Some(libc::ENOEXEC) => {
            cannot(NOT_EXECUTABLE, format!("`{program}` is neither a program nor a script with `#!`"))
        }
        Some(libc::E2BIG) => cannot(NOT_EXECUTABLE, "the arguments are too long for this system"),
        _ => cannot(NOT_PREPARED, format!("cannot start `{program}`: {error}")),
    }
}
