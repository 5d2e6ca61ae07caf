//! Images that lie with a Docker or Podman daemon of this machine, or with a Docker elsewhere.
//!
//! What an image is the daemon tells at once. Its layers come in one tar whose list of contents is at the end, so that tar is
//! spooled to disk first, and only when a layer is wanted.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use trainyard_web::{Address, Body, Client, Identity, Limits, Retry, Settings, StatusCode, Trust, encode};

use crate::digest::Digest;
use crate::error::{Error, Reading, Result};
use crate::image::{Config, Image, Layer, Platform};
use crate::source::context::{self, ContextError, Whereabouts};
use crate::source::{Archive, Blob, Source};

#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    #[error(transparent)]
    Web(#[from] trainyard_web::Error),
    #[error(
        "nobody answers at {daemon}: see that it runs and that you may use it, or name a file made with `docker save`"
    )]
    Silent { daemon: String, source: Option<std::io::Error> },
    #[error("{daemon} has no image `{name}`: build or pull it, or use its full name")]
    Missing { daemon: String, name: String },
    #[error(
        "`{address}` of {named_by} cannot be used from here: `unix://…` and `tcp://…` can; or name a file made with `docker save`"
    )]
    Address { address: String, named_by: String },
    #[error(transparent)]
    Context(#[from] ContextError),
}

impl From<DaemonError> for Error {
    fn from(error: DaemonError) -> Self {
        Self::Source(Box::new(error))
    }
}

/// Where a daemon listens.
#[derive(Debug, Clone)]
pub struct Engine {
    client: Client,
}

impl Engine {
    /// Of a socket of this machine.
    pub fn at(socket: &Path) -> Result<Self> {
        Ok(Self { client: client(Address::socket(socket).map_err(DaemonError::from)?, Trust::default())? })
    }

    /// Docker's, where its client would look for it, or where it usually is.
    pub fn docker(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let Some(Whereabouts { host, certificates, is_tls, named_by }) =
            context::docker(&variable).map_err(DaemonError::from)?
        else {
            let folder = variable("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
            let own = folder.map(|folder| Path::new(&folder).join("docker.sock")).filter(|path| path.exists());
            return Self::at(&own.unwrap_or_else(|| PathBuf::from("/var/run/docker.sock")));
        };
        if let Some(path) = host.strip_prefix("unix://") {
            return Self::at(Path::new(path));
        }
        let Some(place) = host.strip_prefix("tcp://") else {
            return Err(DaemonError::Address { address: host, named_by }.into());
        };
        let scheme = if is_tls { "https" } else { "http" };
        let address = Address::parse(&format!("{scheme}://{place}")).map_err(DaemonError::from)?;
        let trust = certificates.filter(|_| is_tls).map_or_else(Trust::default, |folder| trust(&folder));
        Ok(Self { client: client(address, trust)? })
    }

    /// Podman's, where `CONTAINER_HOST` says or where it usually is, for this user before root.
    pub fn podman(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        if let Some(path) = variable("CONTAINER_HOST").as_deref().and_then(|host| host.strip_prefix("unix://")) {
            return Self::at(Path::new(path));
        }
        let own = variable("XDG_RUNTIME_DIR").map(|folder| Path::new(&folder).join("podman/podman.sock"));
        let own = own.filter(|path| path.exists());
        Self::at(&own.unwrap_or_else(|| PathBuf::from("/run/podman/podman.sock")))
    }

    /// Whether somebody answers.
    pub fn is_there(&self) -> bool {
        self.client.get("_ping").once().send(Body::None).is_ok()
    }
}

/// What of it is there.
fn trust(folder: &Path) -> Trust {
    let there = |name: &str| Some(folder.join(name)).filter(|path| path.exists());
    let identity = there("cert.pem").zip(there("key.pem")).map(|(certificate, key)| Identity { certificate, key });
    Trust { authorities: there("ca.pem").into_iter().collect(), identity, ..Trust::default() }
}

fn client(address: Address, trust: Trust) -> Result<Client> {
    // A large image is silent while the daemon puts it together.
    let limits = Limits { silence: std::time::Duration::from_secs(600), ..Limits::default() };
    let settings = Settings { trust, limits, retry: Retry { times: 1, ..Retry::default() }, ..Settings::of(address) };
    Ok(Client::new(settings).map_err(DaemonError::from)?)
}

/// Sockets have no port that could be wrong.
fn asking(error: trainyard_web::Error, address: &Address) -> DaemonError {
    let daemon = address.to_string();
    match error {
        trainyard_web::Error::Refused { .. } => DaemonError::Silent { daemon, source: None },
        trainyard_web::Error::Unreachable { source, .. } => DaemonError::Silent { daemon, source: Some(source) },
        error => error.into(),
    }
}

/// One image of a daemon.
pub struct Daemon {
    client: Client,
    id: String,
    image: Image,
    platform: Platform,
    spool: PathBuf,
    spooled: Option<(tempfile::TempPath, Archive)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    id: String,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    #[serde(default)]
    config: Value,
    #[serde(rename = "RootFS")]
    root_fs: RootFs,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RootFs {
    #[serde(default)]
    layers: Vec<Digest>,
}

impl Daemon {
    /// Asks what the image of this name is now; what the name means later does not matter. Layers are put into `spool`, a
    /// folder with room for all of the image, and removed from it at the end.
    pub fn open(engine: &Engine, name: &str, platform: Platform, spool: &Path) -> Result<Self> {
        let client = engine.client.clone();
        let place = format!("{}: {name}", client.address());
        let found: Inspected = match client.get(&path(name, "json")).json() {
            Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => {
                return Err(DaemonError::Missing { daemon: client.address().to_string(), name: name.to_owned() }.into());
            }
            other => other.map_err(|error| asking(error, client.address()))?,
        };
        let config = json!({
            "architecture": found.architecture, "os": found.os, "config": found.config,
            "rootfs": { "diff_ids": found.root_fs.layers },
        });
        let config = Config::parse(&place, config.to_string().as_bytes())?;
        let layer = |id: &Digest| Layer { digest: None, diff_id: Some(id.clone()), size: None };
        let layers = config.diff_ids.iter().map(layer).collect();
        let image = Image { config, layers };
        Ok(Self { client, id: found.id, image, platform, spool: spool.to_owned(), spooled: None })
    }

    /// The daemon's own, for whom the same means unchanged.
    pub fn id(&self) -> &str {
        &self.id
    }

    fn fetch(&self) -> Result<(tempfile::TempPath, Archive)> {
        let writing = |source| Error::Write { path: self.spool.clone(), source };
        let mut file = tempfile::Builder::new().prefix("image-").tempfile_in(&self.spool).map_err(writing)?;
        let answer = self.client.get(&path(&self.id, "get")).once().send(Body::None).map_err(DaemonError::from)?;
        answer.copy_to(file.as_file_mut()).map_err(DaemonError::from)?;
        let path = file.into_temp_path();
        let mut archive = Archive::open(path.to_path_buf(), None, self.platform.clone())?;
        if archive.image()?.config.diff_ids != self.image.config.diff_ids {
            return Err(Error::malformed(&self.id, "was saved with other layers than the daemon names"));
        }
        Ok((path, archive))
    }
}

impl Source for Daemon {
    fn image(&mut self) -> Result<Image> {
        Ok(self.image.clone())
    }

    fn layer(&mut self, index: usize) -> Result<Blob> {
        let (_, archive) = match &mut self.spooled {
            Some(spooled) => spooled,
            None => self.spooled.insert(self.fetch()?),
        };
        archive.layer(index)
    }
}

fn path(name: &str, what: &str) -> String {
    let segments: Vec<String> = name.split('/').map(encode).collect();
    format!("images/{}/{what}", segments.join("/"))
}

/// An archive that is removed with its source.
pub(crate) struct Spooled {
    archive: Archive,
    _folder: tempfile::TempDir,
}

impl Spooled {
    pub(crate) fn open(folder: tempfile::TempDir, name: &str, platform: Platform) -> Result<Self> {
        let path = folder.path().join(name);
        std::fs::metadata(&path).reading(|| path.display().to_string())?;
        Ok(Self { archive: Archive::open(path, None, platform)?, _folder: folder })
    }
}

impl Source for Spooled {
    fn image(&mut self) -> Result<Image> {
        self.archive.image()
    }

    fn layer(&mut self, index: usize) -> Result<Blob> {
        self.archive.layer(index)
    }
}
