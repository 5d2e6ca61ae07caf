//! Who we are at a registry: what `docker login` and `podman login` left, or a program of theirs keeps; and the certificates
//! that lie where both look for them.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use trainyard_web::{Identity, Secret, Trust};

use crate::source::Reference;

/// Where logins and certificates lie.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// The first that knows a registry is believed.
    pub logins: Vec<PathBuf>,
    /// Folders with a folder for each registry: `certs.d/host:port/ca.crt`.
    pub certificates: Vec<PathBuf>,
    /// User and password that somebody gave for just this; then no file is asked.
    pub given: Option<(String, Secret)>,
}

/// User and password, or a token that is changed for others.
#[derive(Debug, Clone)]
pub(crate) enum Login {
    Password { user: String, password: Secret },
    Token(Secret),
}

#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    #[error("cannot read the logins in {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is no Docker configuration: {why}", path.display())]
    Malformed { path: PathBuf, why: String },
    #[error("cannot ask `{program}` for the login at {host}, as {} says: {why}; install it, or log in anew", path.display())]
    Helper { program: String, host: String, path: PathBuf, why: String },
}

/// Some ask a key ring, which may ask a person.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct File {
    auths: Option<BTreeMap<String, Entry>>,
    cred_helpers: Option<BTreeMap<String, String>>,
    creds_store: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: Option<String>,
    identitytoken: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Kept {
    username: String,
    secret: String,
}

impl Places {
    /// Docker's and Podman's own, by the variables they look at.
    pub fn usual(variable: impl Fn(&str) -> Option<String>) -> Self {
        let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = path("HOME");
        let below_home = |rest: &str| home.as_ref().map(|home| home.join(rest));
        let docker = path("DOCKER_CONFIG").or_else(|| below_home(".docker"));
        let logins = [
            path("REGISTRY_AUTH_FILE"),
            docker.as_ref().map(|folder| folder.join("config.json")),
            path("XDG_RUNTIME_DIR").map(|folder| folder.join("containers/auth.json")),
            path("XDG_CONFIG_HOME").or_else(|| below_home(".config")).map(|folder| folder.join("containers/auth.json")),
        ];
        let certificates = [
            docker.map(|folder| folder.join("certs.d")),
            below_home(".config/containers/certs.d"),
            below_home(".config/docker/certs.d"),
            Some(PathBuf::from("/etc/containers/certs.d")),
            Some(PathBuf::from("/etc/docker/certs.d")),
        ];
        Self {
            logins: logins.into_iter().flatten().collect(),
            certificates: certificates.into_iter().flatten().collect(),
            given: None,
        }
    }

    pub(crate) fn login(&self, reference: &Reference) -> Result<Option<Login>, LoginError> {
        if let Some((user, password)) = &self.given {
            return Ok(Some(Login::Password { user: user.clone(), password: password.clone() }));
        }
        for path in &self.logins {
            let text = match std::fs::read(path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                read => read.map_err(|source| LoginError::Read { path: path.clone(), source })?,
            };
            let file: File = serde_json::from_slice(&text)
                .map_err(|error| LoginError::Malformed { path: path.clone(), why: error.to_string() })?;
            if let Some(login) = file.login(reference, path)? {
                return Ok(Some(login));
            }
        }
        Ok(None)
    }

    /// All `*.crt` are authorities; `NAME.cert` and `NAME.key` are what we show.
    pub(crate) fn trust(&self, reference: &Reference) -> Trust {
        let mut trust = Trust::default();
        for folder in self.certificates.iter().map(|folder| folder.join(&reference.host)) {
            let mut files: Vec<PathBuf> =
                std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
            files.sort();
            for file in files {
                match file.extension().and_then(|extension| extension.to_str()) {
                    Some("crt") => trust.authorities.push(file),
                    Some("cert") => {
                        trust.identity = Some(Identity { key: file.with_extension("key"), certificate: file })
                    }
                    _ => {}
                }
            }
        }
        trust
    }
}

impl File {
    fn login(&self, reference: &Reference, path: &Path) -> Result<Option<Login>, LoginError> {
        for name in reference.login_names() {
            if let Some(helper) = self.cred_helpers.as_ref().and_then(|helpers| helpers.get(&name))
                && let Some(login) = ask(helper, &name, path)?
            {
                return Ok(Some(login));
            }
            let entry = self.auths.as_ref().and_then(|auths| auths.get(&name));
            if let Some(login) = entry.map(|entry| entry.login(path)).transpose()?.flatten() {
                return Ok(Some(login));
            }
            if let Some(store) = self.creds_store.as_ref().filter(|store| !store.is_empty())
                && let Some(login) = ask(store, &name, path)?
            {
                return Ok(Some(login));
            }
        }
        Ok(None)
    }
}

impl Entry {
    fn login(&self, path: &Path) -> Result<Option<Login>, LoginError> {
        let full = |text: &&String| !text.is_empty();
        if let Some(token) = self.identitytoken.as_ref().filter(full) {
            return Ok(Some(Login::Token(Secret::new(token.clone()))));
        }
        let Some(auth) = self.auth.as_ref().filter(full) else { return Ok(None) };
        // Not a word of what it holds.
        let malformed =
            || LoginError::Malformed { path: path.to_owned(), why: "an `auth` is no user and password".to_owned() };
        let bytes = BASE64_STANDARD.decode(auth.trim()).map_err(|_| malformed())?;
        let text = String::from_utf8(bytes).map_err(|_| malformed())?;
        let (user, password) = text.split_once(':').ok_or_else(malformed)?;
        Ok(Some(known(user, password.trim_end_matches('\0'))))
    }
}

fn known(user: &str, secret: &str) -> Login {
    let password = Secret::new(secret.to_owned());
    if user == "<token>" { Login::Token(password) } else { Login::Password { user: user.to_owned(), password } }
}

/// `docker-credential-NAME get`, which reads a registry's name and writes JSON. `None` when it knows nothing.
fn ask(helper: &str, host: &str, path: &Path) -> Result<Option<Login>, LoginError> {
    let program = format!("docker-credential-{helper}");
    let failed = |why: String| LoginError::Helper {
        program: program.clone(),
        host: host.to_owned(),
        path: path.to_owned(),
        why,
    };
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if !helper.chars().all(is_name) {
        return Err(failed("it is no name of a program".to_owned()));
    }
    let mut command = Command::new(&program);
    command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    if let Some(mut input) = child.stdin.take() {
        // One that does not listen says so by its answer.
        drop(input.write_all(format!("{host}\n").as_bytes()));
    }
    let Some(mut output) = child.stdout.take() else { return Ok(None) };
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        output.by_ref().take(1 << 20).read_to_end(&mut text).map(|_| text)
    });
    let until = Instant::now() + PATIENCE;
    while !reader.is_finished() {
        if Instant::now() >= until {
            drop(child.kill());
            drop(child.wait());
            return Err(failed(format!("it does not answer within {PATIENCE:?}")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let status = child.wait().map_err(|error| failed(error.to_string()))?;
    let text = reader.join().map_err(|_| failed("its answer was lost".to_owned()))?;
    let text = text.map_err(|error| failed(error.to_string()))?;
    if !status.success() {
        let said = String::from_utf8_lossy(&text).trim().to_owned();
        let knows_nothing = said.contains("not found") || said.contains("no credentials");
        return if knows_nothing {
            Ok(None)
        } else {
            Err(failed(format!("it says `{}`", crate::error::shown(said.as_bytes()))))
        };
    }
    let kept: Kept =
        serde_json::from_slice(&text).map_err(|_| failed("its answer is not what it should be".to_owned()))?;
    Ok(Some(known(&kept.username, &kept.secret)))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn found(config: &str, reference: &str) -> Result<Option<Login>, LoginError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        std::fs::write(&path, config).unwrap();
        let places =
            Places { logins: vec![folder.path().join("missing"), path], certificates: Vec::new(), given: None };
        places.login(&Reference::parse(reference).unwrap())
    }

    #[test]
    fn logins_are_found_by_any_of_their_names() {
        let config = r#"{"auths":{"https://index.docker.io/v1/":{"auth":"bWU6aHVudGVyMg=="},"a.example:5000":{"identitytoken":"t"},"b.example":{}},"credsStore":""}"#;
        let Some(Login::Password { user, password }) = found(config, "busybox").unwrap() else { panic!() };
        assert_eq!((user.as_str(), password.reveal()), ("me", "hunter2"));
        assert!(matches!(found(config, "a.example:5000/x").unwrap(), Some(Login::Token(_))));
        assert!(found(config, "b.example/x").unwrap().is_none());
        assert!(found(config, "c.example/x").unwrap().is_none());
        assert!(found("{}", "busybox").unwrap().is_none());
    }

    #[test]
    fn damage_is_told_without_the_secret() {
        let error = found(r#"{"auths":{"a.example":{"auth":"aHVudGVyMg=="}}}"#, "a.example/x").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"));
        assert!(found("[", "busybox").is_err());
        let missing = found(r#"{"credHelpers":{"a.example":"no-such-thing"}}"#, "a.example/x").unwrap_err();
        assert!(missing.to_string().contains("docker-credential-no-such-thing"), "{missing}");
        assert!(found(r#"{"credsStore":"../evil"}"#, "a.example/x").is_err());
    }
}
