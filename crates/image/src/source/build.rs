//! Images from a Dockerfile, built by the Docker, Podman or Buildah that is there.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use crate::error::{Error, Reading, Result};
use crate::image::Platform;
use crate::source::Source;
use crate::source::daemon::{Daemon, Engine, Spooled};

/// Who builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Builder {
    Docker,
    Podman,
    Buildah,
}

impl Builder {
    fn program(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Buildah => "buildah",
        }
    }

    /// The first that is installed; Docker only where its daemon answers.
    pub fn find(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let folders = variable("PATH").unwrap_or_default();
        let is_installed =
            |builder: &Self| std::env::split_paths(&folders).any(|folder| folder.join(builder.program()).is_file());
        let works = |builder: &Self| {
            *builder != Self::Docker || Engine::docker(&variable).is_ok_and(|engine| engine.is_there())
        };
        [Self::Docker, Self::Podman, Self::Buildah].into_iter().filter(is_installed).find(works)
    }
}

/// What is built.
#[derive(Debug, Clone)]
pub struct Build {
    pub builder: Builder,
    /// The folder that `COPY` copies from.
    pub context: PathBuf,
    pub dockerfile: PathBuf,
    /// The stage to stop at.
    pub target: Option<String>,
    pub arguments: Vec<(String, String)>,
    /// On top of our own environment.
    pub variables: Vec<(String, String)>,
    pub platform: Platform,
    /// With room for the whole image, as long as it is read.
    pub spool: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("cannot start `{program}`")]
    Start { program: &'static str, source: std::io::Error },
    #[error("`{program}` ended with {status}; it said last: {said}")]
    Failed { program: &'static str, status: std::process::ExitStatus, said: String },
}

/// Lines that an error repeats.
const LAST_LINES: usize = 12;

impl Build {
    /// `on_line` hears what the builder says.
    pub fn run(&self, on_line: &mut dyn FnMut(&str)) -> Result<Box<dyn Source>> {
        std::fs::metadata(&self.dockerfile).reading(|| self.dockerfile.display().to_string())?;
        let folder = tempfile::Builder::new().prefix("build-").tempdir_in(&self.spool);
        let folder = folder.map_err(|source| Error::Write { path: self.spool.clone(), source })?;
        let id_file = folder.path().join("id");
        self.call(&self.build_arguments(&id_file), on_line)?;
        let id = std::fs::read_to_string(&id_file).reading(|| id_file.display().to_string())?.trim().to_owned();
        let archive = folder.path().join("image.tar");
        match self.builder {
            Builder::Docker => {
                let variable = |name: &str| self.variable(name);
                let daemon = Daemon::open(&Engine::docker(variable)?, &id, self.platform.clone(), &self.spool)?;
                return Ok(Box::new(daemon));
            }
            Builder::Podman => {
                let save = ["save", "--format", "docker-archive", "--output"].map(OsString::from);
                self.call(&[&save[..], &[archive.into_os_string(), id.into()]].concat(), on_line)?;
            }
            Builder::Buildah => {
                let mut to = OsString::from("docker-archive:");
                to.push(archive);
                self.call(&["push".into(), id.into(), to], on_line)?;
            }
        }
        Ok(Box::new(Spooled::open(folder, "image.tar", self.platform.clone())?))
    }

    fn build_arguments(&self, id_file: &Path) -> Vec<OsString> {
        let mut all: Vec<OsString> = vec!["build".into(), "--iidfile".into(), id_file.into()];
        all.extend(["--file".into(), self.dockerfile.clone().into_os_string()]);
        all.extend(["--platform".into(), format!("{}/{}", self.platform.os, self.platform.architecture).into()]);
        if let Some(target) = &self.target {
            all.extend(["--target".into(), target.into()]);
        }
        for (name, value) in &self.arguments {
            all.extend(["--build-arg".into(), format!("{name}={value}").into()]);
        }
        all.push("--".into());
        all.push(self.context.clone().into_os_string());
        all
    }

    fn variable(&self, name: &str) -> Option<String> {
        let own = self.variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        own.or_else(|| std::env::var(name).ok())
    }

    fn call(&self, arguments: &[OsString], on_line: &mut dyn FnMut(&str)) -> Result<()> {
        let program = self.builder.program();
        let variables = self.variables.iter().map(|(name, value)| (name, value));
        let mut command = Command::new(program);
        command.args(arguments).envs(variables).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |error: BuildError| Error::Source(Box::new(error));
        let mut child = command.spawn().map_err(|source| failed(BuildError::Start { program, source }))?;
        let (sender, lines) = mpsc::channel();
        let readers = (
            child.stdout.take().map(|out| listen(out, sender.clone())),
            child.stderr.take().map(|out| listen(out, sender)),
        );
        let mut last = VecDeque::new();
        for line in lines {
            on_line(&line);
            last.push_back(line);
            if last.len() > LAST_LINES {
                last.pop_front();
            }
        }
        drop(readers);
        let status = child.wait().reading(|| program.to_owned())?;
        if status.success() {
            return Ok(());
        }
        let said = Vec::from(last).join("; ");
        Err(failed(BuildError::Failed { program, status, said }))
    }
}

fn listen(output: impl Read + Send + 'static, to: mpsc::Sender<String>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(std::io::Result::ok) {
            if to.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                return;
            }
        }
    })
}
