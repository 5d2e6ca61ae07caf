//! The image a program runs in: what is there to run it, which folders it sees, and what it is told.

mod engine;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use trainyard_core::plan::arguments::Invocation;
use trainyard_core::plan::container::{Inside, program};
use trainyard_core::plan::expand::expand;
use trainyard_core::spec::{Contained, Container, Gpus, Writable};

use crate::order::Order;
use crate::step::Step;

/// A program's arguments with those of its image around them.
#[derive(Default)]
pub(crate) struct Wrapped {
    pub(crate) argv: Vec<String>,
    /// For `srun`, where that is what runs images.
    pub(crate) options: Vec<String>,
    /// Where an engine does, with its standard input.
    pub(crate) step: Option<(Step, OwnedFd)>,
}

/// How it is told that an image is not where it should be.
pub const NO_IMAGE: &str = "cannot be read here";

/// Paths that a runtime makes by itself for what is inside; it hands on only what is said to be for there.
const ITS_OWN: [&str; 2] = ["PATH", "LD_LIBRARY_PATH"];

pub(crate) fn wrap(
    order: &Order,
    work: &Path,
    call: &Invocation,
    env: &mut BTreeMap<String, String>,
) -> io::Result<Wrapped> {
    let Some(container) = &order.job.around.container else {
        return Ok(Wrapped { argv: call.argv.clone(), ..Wrapped::default() });
    };
    let lookup = |name: &str| env.get(name).cloned();
    let image = expand(&container.image, lookup).map_err(io::Error::other)?;
    if let Err(error) = std::fs::metadata(&image) {
        return Err(io::Error::other(format!("the image {image} {NO_IMAGE}: {error}")));
    }
    let container = &Contained { image, ..container.clone() };
    let binds = container.binds.iter().map(|bind| expand(bind, lookup)).collect::<Result<Vec<_>, _>>();
    let binds = binds.map_err(io::Error::other)?;
    let (folders, layer) = (folders(order, container)?, layer(order, container)?);
    let inside = Inside {
        container,
        work: text(work)?,
        binds: &binds,
        folders: &folders,
        layer: layer.as_deref().map(text).transpose()?,
        with_gpus: order.job.gpus != Gpus::Whole(0) && has_driver(),
    };
    let Some(program) = program(container.by) else {
        let options = inside.srun_options().map_err(io::Error::other)?;
        return Ok(Wrapped { argv: call.argv.clone(), options, step: None });
    };
    let own = keep_outside(order, call, env);
    let Some(found) = find(program, env.get("PATH")) else {
        return Err(io::Error::other(format!(
            "`{program}` is not in PATH on this machine, and the job runs in an image; load it with `modules` or \
             `setup` of the target, or name another `container`"
        )));
    };
    if matches!(container.by, Container::Docker | Container::Podman) {
        return engine::wrap(order, &inside, text(&found)?, call, env, &own);
    }
    tell_inside(container.by, own, env);
    let argv = inside.exec(program, &call.argv).map_err(io::Error::other)?;
    Ok(Wrapped { argv, ..Wrapped::default() })
}

/// Shared by all runs of this user at once, as they would be on one machine: nothing is copied in or back.
fn folders(order: &Order, container: &Contained) -> io::Result<Vec<(String, String)>> {
    let user = rustix::process::geteuid().as_raw();
    let mut folders = Vec::new();
    for inside in &container.cache {
        let folder = order.depot.cache(user, inside);
        fs_err::create_dir_all(&folder)?;
        folders.push((text(&folder)?.to_owned(), inside.clone()));
    }
    // The agent goes in as well: it may write down the name of its step there, and what the program reports.
    let agent = own_program()?;
    let attempt = order.depot.run(order.run).attempt(order.attempt);
    for path in [agent.as_path(), attempt.path()] {
        folders.push((text(path)?.to_owned(), text(path)?.to_owned()));
    }
    Ok(folders)
}

/// This very program, also if it was replaced since it began: then the one in its place.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    let replaced = path.to_str().and_then(|path| path.strip_suffix(" (deleted)")).map(PathBuf::from);
    Ok(replaced.filter(|replaced| replaced.exists()).unwrap_or(path))
}

fn layer(order: &Order, container: &Contained) -> io::Result<Option<PathBuf>> {
    if container.writable != Writable::Overlay {
        return Ok(None);
    }
    let layer = order.depot.run(order.run).layer();
    fs_err::create_dir_all(&layer)?;
    Ok(Some(layer))
}

/// What the job sets of these is for the inside and comes back from here; outside they stay as they are there.
fn keep_outside(order: &Order, call: &Invocation, env: &mut BTreeMap<String, String>) -> Vec<(&'static str, String)> {
    let mut own = Vec::new();
    for name in ITS_OWN.into_iter().filter(|name| call.env.contains_key(*name)) {
        let here = order.env.get(name).cloned().or_else(|| std::env::var(name).ok());
        let inside = match here {
            Some(here) => env.insert(name.to_owned(), here),
            None => env.remove(name),
        };
        own.extend(inside.map(|inside| (name, inside)));
    }
    own
}

/// A value that a shell would not read as written would spoil all others on its way in, so it is left out.
fn tell_inside(by: Container, own: Vec<(&'static str, String)>, env: &mut BTreeMap<String, String>) {
    let prefix = if by == Container::Singularity { "SINGULARITYENV_" } else { "APPTAINERENV_" };
    for (name, value) in own.into_iter().filter(|(_, value)| !value.contains(['"', '$', '`', '\\'])) {
        env.insert(format!("{prefix}{name}"), value);
    }
}

fn has_driver() -> bool {
    Path::new("/proc/driver/nvidia/version").exists() || Path::new("/dev/nvidiactl").exists()
}

fn find(program: &str, path: Option<&String>) -> Option<PathBuf> {
    std::env::split_paths(path?).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn text(path: &Path) -> io::Result<&str> {
    path.to_str().ok_or_else(|| io::Error::other(format!("{} is no text, which images need", path.display())))
}
