//! Where an image of the file comes from.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use trainyard_core::spec::{ImageSpec, Login, SecretRef};
use trainyard_image::{
    Archive, Build, Builder, Config, Daemon, Engine, Error, Folder, Layout, Places, Platform, Reference, Registry,
    Result, Secret, Source,
};

use super::{ImageError, Wanted};
use crate::home::locate;

/// What a person's shell and folders add to the words of the file.
pub struct Around<'a> {
    pub project: &'a Path,
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

/// `spool` is a folder for what cannot be read as it comes.
pub(super) fn open(
    wanted: &Wanted,
    around: &Around<'_>,
    spool: &Path,
    on_line: &mut dyn FnMut(&str),
) -> Result<Box<dyn Source>, ImageError> {
    let failed = |source: Error| ImageError::Convert { profile: wanted.profile.clone(), source };
    let refused = |why: String| ImageError::Profile { profile: wanted.profile.clone(), why };
    let here = |path: &str| locate(Path::new(path), around.project);
    let (platform, variable) = (Platform::here(), around.variable);
    let opened: Result<Box<dyn Source>> = match &wanted.spec {
        ImageSpec::Archive { path, reference } => {
            Archive::open(here(path), reference.clone(), platform).map(|source| Box::new(source) as _)
        }
        ImageSpec::Oci { path, reference } => Ok(Box::new(Layout::new(here(path), reference.clone(), platform))),
        ImageSpec::Folder(path) => folder(here(path)).map_err(refused).map(Ok)?,
        ImageSpec::Docker(name) => Engine::docker(variable)
            .and_then(|engine| Daemon::open(&engine, name, platform, spool))
            .map(|source| Box::new(source) as _),
        ImageSpec::Podman(name) => Engine::podman(variable)
            .and_then(|engine| Daemon::open(&engine, name, platform, spool))
            .map(|source| Box::new(source) as _),
        ImageSpec::Dockerfile { file, context, args } => {
            let none =
                || refused("neither Docker (with its daemon), Podman nor Buildah is here to build it".to_owned());
            let build = Build {
                builder: Builder::find(variable).ok_or_else(none)?,
                context: here(context),
                dockerfile: here(file),
                target: None,
                arguments: args.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
                variables: Vec::new(),
                platform,
                spool: spool.to_owned(),
            };
            build.run(on_line)
        }
        ImageSpec::Registry { reference, login } => {
            let mut places = Places::usual(variable);
            if let Some(login) = login {
                let password = password(login, around).map_err(refused)?;
                places.given = Some((login.username.clone(), Secret::new(password)));
            }
            Reference::parse(reference)
                .and_then(|reference| Registry::open(reference, platform, &places))
                .map(|source| Box::new(source) as _)
        }
        ImageSpec::Sif(path) => {
            return Err(refused(format!("{path} is a finished image; there is nothing to convert")));
        }
    };
    opened.map_err(failed)
}

fn folder(path: PathBuf) -> Result<Box<dyn Source>, String> {
    match std::fs::metadata(&path) {
        Ok(data) if data.is_dir() => {}
        Ok(_) => return Err(format!("{} is no folder", path.display())),
        Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
    }
    let config = Config { architecture: Platform::here().architecture, os: "linux".to_owned(), ..Config::default() };
    Ok(Box::new(Folder::new(path, config)))
}

fn password(login: &Login, around: &Around<'_>) -> Result<String, String> {
    match &login.password {
        SecretRef::Env(name) => {
            (around.variable)(name).ok_or_else(|| format!("the password comes from {name}, which is not set"))
        }
        SecretRef::File(path) => {
            let path = locate(path, around.project);
            let read = std::fs::read_to_string(&path);
            let read = read.map_err(|error| format!("the password in {} cannot be read: {error}", path.display()))?;
            Ok(read.trim_end_matches(['\n', '\r']).to_owned())
        }
        SecretRef::Command(words) => said_by(words, around.project),
    }
}

fn said_by(words: &[String], project: &Path) -> Result<String, String> {
    let Some((program, arguments)) = words.split_first() else {
        return Err("the password's command is empty".to_owned());
    };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(project).stdin(Stdio::null()).stderr(Stdio::null());
    let failed = |why: String| format!("the password's command `{program}` {why}");
    let ran = command.output().map_err(|error| failed(format!("cannot be started: {error}")))?;
    if !ran.status.success() {
        return Err(failed(format!("ended with {}", ran.status)));
    }
    let said = String::from_utf8(ran.stdout).map_err(|_| failed("says what is no text".to_owned()))?;
    Ok(said.trim_end_matches(['\n', '\r']).to_owned())
}
