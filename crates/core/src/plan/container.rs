//! A program in an image: the words around its arguments. Which runtime is there, and what lies where, others know.

mod engine;

use thiserror::Error;

pub use self::engine::Engine;
use crate::spec::{Contained, Container, JobSpec, Writable};

/// Which engine Docker and Podman call, and how. They are handed on from whoever submits to whoever calls.
pub const ENGINE_SETTINGS: [&str; 9] = [
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_CERT_PATH",
    "DOCKER_TLS_VERIFY",
    "DOCKER_API_VERSION",
    "CONTAINER_HOST",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
];

/// One start of a program in an image.
#[derive(Debug, Clone)]
pub struct Inside<'a> {
    pub container: &'a Contained,
    /// Seen inside under the same path.
    pub work: &'a str,
    /// The target's binds, with their variables filled in.
    pub binds: &'a [String],
    /// Folders of ours, and where they are seen inside.
    pub folders: &'a [(String, String)],
    /// Where a program's changes to the image are kept.
    pub layer: Option<&'a str>,
    /// GPUs are wanted and NVIDIA's driver is there.
    pub with_gpus: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ContainerError {
    #[error(
        "{path:?} holds a `:`, `,`, `\"` or `\\`, which cannot be told to a container runtime; choose another path"
    )]
    Path { path: String },
    #[error("{path:?} in `cache` is no absolute path without `..`")]
    Cache { path: String },
    #[error(
        "`writable = \"overlay\"` keeps changes in a layer of one process, and a run of this job has {tasks}; \
         use `tmpfs` or `none`"
    )]
    SharedLayer { tasks: u32 },
    #[error("`writable = \"overlay\"` is known to Apptainer and Singularity only; use `tmpfs` or `none`")]
    ForeignLayer,
    #[error("`sif` is {image:?}, which is no path at the target; write it from `/` or `~/` on")]
    Image { image: String },
}

/// What is wrong with a job in this image wherever it runs.
pub fn check(job: &JobSpec, container: &Contained) -> Result<(), ContainerError> {
    let image = &container.image;
    if !(image.starts_with('/') || image.starts_with("~/")) {
        return Err(ContainerError::Image { image: image.clone() });
    }
    for path in &container.cache {
        let is_plain = path.starts_with('/') && path.len() > 1 && !path.split('/').any(|part| part == "..");
        if !is_plain {
            return Err(ContainerError::Cache { path: path.clone() });
        }
        bindable(path)?;
    }
    match (container.by, container.writable, job.total_tasks()) {
        (Container::Pyxis | Container::Docker | Container::Podman, Writable::Overlay, _) => {
            Err(ContainerError::ForeignLayer)
        }
        (_, Writable::Overlay, tasks) if tasks > 1 => Err(ContainerError::SharedLayer { tasks }),
        _ => Ok(()),
    }
}

/// The program's name of the runtime.
pub const fn program(by: Container) -> Option<&'static str> {
    match by {
        Container::Apptainer => Some("apptainer"),
        Container::Singularity => Some("singularity"),
        Container::Docker => Some("docker"),
        Container::Podman => Some("podman"),
        Container::Pyxis | Container::None => None,
    }
}

impl Inside<'_> {
    /// `argv` in the image, by Apptainer or Singularity. Never `--writable`: an image is shared, and with it binds that
    /// the site forces on every container fail for want of a place.
    pub fn exec(&self, program: &str, argv: &[String]) -> Result<Vec<String>, ContainerError> {
        let mut words = vec![program.to_owned(), "--quiet".to_owned(), "exec".to_owned()];
        if self.with_gpus {
            words.push("--nv".to_owned());
        }
        for bind in self.all_binds()? {
            words.extend(["--bind".to_owned(), bind]);
        }
        words.extend(["--pwd".to_owned(), self.work.to_owned()]);
        match (self.container.writable, self.layer) {
            (Writable::Tmpfs, _) => words.push("--writable-tmpfs".to_owned()),
            (Writable::Overlay, Some(layer)) => words.extend(["--overlay".to_owned(), bindable(layer)?.to_owned()]),
            (Writable::Overlay | Writable::None, _) => {}
        }
        words.push(self.container.image.clone());
        words.extend(argv.iter().cloned());
        Ok(words)
    }

    /// What `srun` is told where pyxis is installed.
    pub fn srun_options(&self) -> Result<Vec<String>, ContainerError> {
        let mounts = self.mounts()?;
        let writable = if self.container.writable == Writable::None { "readonly" } else { "writable" };
        Ok(vec![
            format!("--container-image={}", self.container.image),
            format!("--container-mounts={}", mounts.join(",")),
            format!("--container-workdir={}", self.work),
            format!("--container-{writable}"),
        ])
    }

    /// With both ends named, for those who want that.
    fn mounts(&self) -> Result<Vec<String>, ContainerError> {
        let named = |bind: String| if bind.contains(':') { bind } else { format!("{bind}:{bind}") };
        Ok(self.all_binds()?.into_iter().map(named).collect())
    }

    fn all_binds(&self) -> Result<Vec<String>, ContainerError> {
        let mut binds = vec![bindable(self.work)?.to_owned()];
        binds.extend(self.binds.iter().cloned());
        for (outside, inside) in self.folders {
            binds.push(format!("{}:{}", bindable(outside)?, bindable(inside)?));
        }
        Ok(binds)
    }
}

fn bindable(path: &str) -> Result<&str, ContainerError> {
    if path.contains([':', ',', '"', '\\']) {
        return Err(ContainerError::Path { path: path.to_owned() });
    }
    Ok(path)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
