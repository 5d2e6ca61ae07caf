//! Images at a registry, by the OCI distribution protocol. Layers are read as they come, and from where they broke off when a
//! connection breaks; nothing is kept on disk.

use std::io::{self, Read};
use std::time::Duration;

use serde::Deserialize;
use trainyard_web::{
    Auth, Body, Client, Limits, Method, Request, Response, Retry, Secret, Settings, StatusCode, encode,
};

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::image::{Config, Image, Platform};
use crate::manifest::{Descriptor, MOST_BYTES, Manifest, choose};
use crate::source::login::{Login, LoginError, Places};
use crate::source::{Blob, Reference, Source};
use crate::verify::read_checked;

const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";
/// Indexes in indexes in indexes are nobody's honest work.
const DEEPEST: usize = 4;
/// Broken connections in a row, without a byte between them.
const MOST_BREAKS: u32 = 5;

#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error(transparent)]
    Web(#[from] trainyard_web::Error),
    #[error(transparent)]
    Login(#[from] LoginError),
    #[error("{host} does not let us see `{image}`: {}", if *known { "the login that is kept for it is not enough" } else { "log in with `docker login` or `podman login` first" })]
    Denied { host: String, image: String, known: bool },
    #[error("there is no image `{image}` at its registry: see that name and tag are right")]
    Missing { image: String },
    #[error("{host} wants a way of logging in that we do not know: `{way}`")]
    Way { host: String, way: String },
    #[error("{host} has no TLS, and without it only registries of this machine are used")]
    Plain { host: String },
}

impl From<RegistryError> for Error {
    fn from(error: RegistryError) -> Self {
        Self::Source(Box::new(error))
    }
}

/// One image at a registry.
#[derive(Debug)]
pub struct Registry {
    reference: Reference,
    platform: Platform,
    door: Door,
    layers: Vec<Descriptor>,
}

/// The way in. Cheap to clone, for each layer has its own.
#[derive(Debug, Clone)]
struct Door {
    client: Client,
    reference: Reference,
    login: Option<Login>,
    auth: Option<Auth>,
}

impl Registry {
    /// Asks the registry who may come in, and logs in with what `places` hold for it.
    pub fn open(reference: Reference, platform: Platform, places: &Places) -> Result<Self> {
        let door = Door::open(&reference, places)?;
        Ok(Self { reference, platform, door, layers: Vec::new() })
    }

    fn manifest(&mut self, wanted: &str, digest: Option<&Digest>) -> Result<Manifest> {
        let place = format!("{}: manifest {wanted}", self.reference);
        let path = format!("v2/{}/manifests/{}", self.reference.path, encode(wanted));
        let answer = self.door.ask(Method::GET, &path, |request| request.header("Accept", MANIFESTS))?;
        Manifest::parse(&place, &read_checked(answer, MOST_BYTES, &place, digest)?)
    }
}

impl Source for Registry {
    fn image(&mut self) -> Result<Image> {
        let pinned = self.reference.digest.clone();
        let wanted = self.reference.wanted().to_owned();
        let mut manifest = self.manifest(&wanted, pinned.as_ref())?;
        for _ in 0..DEEPEST {
            match manifest {
                Manifest::Index(list) => {
                    let chosen = choose(&list, &self.platform)?.digest.clone();
                    manifest = self.manifest(chosen.as_str(), Some(&chosen))?;
                }
                Manifest::Image { config, layers } => {
                    let place = format!("{}: configuration {}", self.reference, config.digest);
                    let answer = self.door.blob(&config.digest, 0)?;
                    let bytes = read_checked(answer, MOST_BYTES, &place, Some(&config.digest))?;
                    let image = Image::new(&self.reference.to_string(), Config::parse(&place, &bytes)?, &layers)?;
                    self.layers = layers;
                    return Ok(image);
                }
            }
        }
        Err(Error::malformed(self.reference.to_string(), "has indexes in indexes without end"))
    }

    fn layer(&mut self, index: usize) -> Result<Blob> {
        let missing = || Error::malformed(self.reference.to_string(), format!("has no layer {index}"));
        let layer = self.layers.get(index).ok_or_else(missing)?;
        let stream = Resuming { door: self.door.clone(), digest: layer.digest.clone(), at: 0, now: None, breaks: 0 };
        Ok(Blob::Stream(Box::new(stream)))
    }
}

impl Door {
    fn open(reference: &Reference, places: &Places) -> Result<Self, RegistryError> {
        let trust = places.trust(reference);
        let limits = Limits { silence: Duration::from_secs(60), ..Limits::default() };
        let client = |scheme: &str| {
            let settings = Settings::new(&format!("{scheme}://{}", reference.server()))?;
            Client::new(Settings { trust: trust.clone(), limits, ..settings })
        };
        let mut door = Self { client: client("https")?, reference: reference.clone(), login: None, auth: None };
        let greeted = match door.client.get("v2/").answer(Body::None) {
            Err(error @ trainyard_web::Error::Tls { .. }) => {
                if !reference.is_loopback() {
                    return Err(plain(reference, error));
                }
                door.client = client("http")?;
                door.client.get("v2/").answer(Body::None)?
            }
            other => other?,
        };
        if greeted.status() == StatusCode::UNAUTHORIZED {
            door.login = places.login(reference)?;
            door.knock(&greeted)?;
        }
        Ok(door)
    }

    /// Gets what opens the door, as an answer of 401 says.
    fn knock(&mut self, answer: &Response) -> Result<(), RegistryError> {
        let ways: Vec<Challenge> = answer.header_values("www-authenticate").filter_map(Challenge::parse).collect();
        if let Some(Challenge::Bearer { realm, service }) =
            ways.iter().find(|way| matches!(way, Challenge::Bearer { .. }))
        {
            self.auth = Some(Auth::Bearer(self.token(realm, service)?));
            return Ok(());
        }
        if ways.contains(&Challenge::Basic) {
            let Some(Login::Password { user, password }) = &self.login else { return Err(self.denied()) };
            self.auth = Some(Auth::Basic { user: user.clone(), password: password.clone() });
            return Ok(());
        }
        let way = answer.header("www-authenticate").unwrap_or_default().to_owned();
        Err(RegistryError::Way { host: self.reference.host.clone(), way })
    }

    /// The realm may be another server, which gets the login because the registry says so.
    fn token(&self, realm: &str, service: &str) -> Result<Secret, RegistryError> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(default)]
            token: String,
            #[serde(default)]
            access_token: String,
        }
        if !realm.starts_with("https://") && !self.reference.is_loopback() {
            return Err(RegistryError::Plain { host: realm.to_owned() });
        }
        let scope = format!("repository:{}:pull", self.reference.path);
        let asked = match &self.login {
            Some(Login::Token(token)) => {
                let pairs = [
                    ("grant_type", "refresh_token"),
                    ("refresh_token", token.reveal()),
                    ("service", service),
                    ("scope", &scope),
                    ("client_id", "trainyard"),
                ];
                let form: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={}", encode(value))).collect();
                let request = self.client.post(realm).header("Content-Type", "application/x-www-form-urlencoded");
                request.repeatable().send(Body::Bytes(form.join("&").as_bytes()))
            }
            login => {
                let request = self.client.get(realm).query("service", service).query("scope", &scope);
                let request = match login {
                    Some(Login::Password { user, password }) => {
                        request.auth(Auth::Basic { user: user.clone(), password: password.clone() })
                    }
                    _ => request,
                };
                request.send(Body::None)
            }
        };
        let answer = match asked {
            Err(error) if is_denial(error.status()) => return Err(self.denied()),
            other => other?,
        };
        let answer: Answer = answer.json()?;
        Ok(Secret::new(if answer.token.is_empty() { answer.access_token } else { answer.token }))
    }

    fn denied(&self) -> RegistryError {
        let (host, image) = (self.reference.host.clone(), self.reference.to_string());
        RegistryError::Denied { host, image, known: self.login.is_some() }
    }

    /// A token that has expired is renewed once.
    fn ask(
        &mut self,
        method: Method,
        path: &str,
        dress: impl for<'a> Fn(Request<'a>) -> Request<'a>,
    ) -> Result<Response, RegistryError> {
        let send = |door: &Self| {
            let request = dress(door.client.request(method.clone(), path));
            let request = if let Some(auth) = &door.auth { request.auth(auth.clone()) } else { request };
            request.answer(Body::None)
        };
        let mut answer = send(self)?;
        if answer.status() == StatusCode::UNAUTHORIZED {
            self.knock(&answer)?;
            answer = send(self)?;
        }
        match answer.status() {
            StatusCode::NOT_FOUND => Err(RegistryError::Missing { image: self.reference.to_string() }),
            status if is_denial(Some(status)) => Err(self.denied()),
            _ => Ok(answer.success()?),
        }
    }

    /// A blob from this byte on.
    fn blob(&mut self, digest: &Digest, from: u64) -> Result<Response, RegistryError> {
        let path = format!("v2/{}/blobs/{digest}", self.reference.path);
        let mut answer =
            self.ask(Method::GET, &path, |request| if from == 0 { request } else { request.from_byte(from) })?;
        if from > 0 && answer.status() != StatusCode::PARTIAL_CONTENT {
            // A server that begins anew: what we have is passed over.
            let passed = io::copy(&mut answer.by_ref().take(from), &mut io::sink());
            passed.map_err(|error| trainyard_web::Error::from_io(error, &path))?;
        }
        Ok(answer)
    }
}

fn is_denial(status: Option<StatusCode>) -> bool {
    matches!(status, Some(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN))
}

/// Whether it has no TLS, or TLS that we cannot speak.
fn plain(reference: &Reference, error: trainyard_web::Error) -> RegistryError {
    if error.to_string().contains("does not speak TLS") {
        RegistryError::Plain { host: reference.host.clone() }
    } else {
        error.into()
    }
}

/// How a registry wants to be told who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Challenge {
    Basic,
    Bearer { realm: String, service: String },
}

impl Challenge {
    /// `Bearer realm="…",service="…"`
    fn parse(header: &str) -> Option<Self> {
        let (scheme, mut rest) = header.split_once(' ').unwrap_or((header, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service) = (String::new(), String::new());
        while let Some((key, after)) = rest.split_once('=') {
            let (value, after) = match after.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => after.split_at(after.find(',').unwrap_or(after.len())),
            };
            match key.trim_matches([' ', ',']).to_ascii_lowercase().as_str() {
                "realm" => value.clone_into(&mut realm),
                "service" => value.clone_into(&mut service),
                _ => {}
            }
            rest = after;
        }
        (!realm.is_empty()).then_some(Self::Bearer { realm, service })
    }
}

/// A layer that is read on after a break.
struct Resuming {
    door: Door,
    digest: Digest,
    at: u64,
    now: Option<Response>,
    breaks: u32,
}

impl Resuming {
    fn attempt(&mut self, buffer: &mut [u8]) -> Result<usize, RegistryError> {
        let answer = match &mut self.now {
            Some(answer) => answer,
            None => self.now.insert(self.door.blob(&self.digest, self.at)?),
        };
        answer.read(buffer).map_err(|error| trainyard_web::Error::from_io(error, self.digest.as_str()).into())
    }
}

impl Read for Resuming {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.attempt(buffer) {
                Ok(count) => {
                    self.at += count as u64;
                    self.breaks = 0;
                    return Ok(count);
                }
                Err(RegistryError::Web(error)) if error.may_pass() && self.breaks < MOST_BREAKS => {
                    self.now = None;
                    self.breaks += 1;
                    let pause = Retry::default().first * 2_u32.pow(self.breaks);
                    std::thread::sleep(pause);
                }
                Err(error) => return Err(Error::from(error).into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let bearer = |realm: &str, service: &str| {
            Some(Challenge::Bearer { realm: realm.to_owned(), service: service.to_owned() })
        };
        let hub = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#;
        assert_eq!(Challenge::parse(hub), bearer("https://auth.docker.io/token", "registry.docker.io"));
        assert_eq!(Challenge::parse("bearer service=x, realm=https://a/t"), bearer("https://a/t", "x"));
        assert_eq!(Challenge::parse(r#"Basic realm="x""#), Some(Challenge::Basic));
        for odd in ["", "Negotiate", "Bearer", "Bearer realm=\"x", "Bearer ===,,=\"\"", "Bearer service=x"] {
            assert_eq!(Challenge::parse(odd), None, "{odd}");
        }
    }
}
