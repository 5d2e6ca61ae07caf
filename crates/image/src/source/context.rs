//! Which Docker a person means, as the variables and the configuration of Docker's own client say, in its order: `DOCKER_HOST`,
//! then the context that `DOCKER_CONTEXT` or `docker context use` names.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::digest::Digest;

/// Where a Docker listens.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Whereabouts {
    pub(crate) host: String,
    /// A folder with `ca.pem`, `cert.pem` and `key.pem`, or some of them.
    pub(crate) certificates: Option<PathBuf>,
    pub(crate) is_tls: bool,
    /// For people.
    pub(crate) named_by: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    #[error("there is no Docker context `{name}`, which {named_by} names: `docker context ls` lists those there are")]
    Missing { name: String, named_by: String, source: std::io::Error },
    #[error("{} is no configuration of Docker", path.display())]
    Malformed { path: PathBuf, source: serde_json::Error },
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Settings {
    current_context: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Context {
    endpoints: Endpoints,
}

#[derive(Deserialize)]
struct Endpoints {
    docker: Endpoint,
}

/// That a context wants nothing verified is passed over: it is verified.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Endpoint {
    host: String,
}

/// Nothing where neither says anything: then it is where it usually is.
pub(crate) fn docker(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Whereabouts>, ContextError> {
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    if let Some(host) = variable("DOCKER_HOST") {
        let certificates = variable("DOCKER_CERT_PATH").map(PathBuf::from);
        let is_tls = variable("DOCKER_TLS_VERIFY").is_some() || certificates.is_some();
        return Ok(Some(Whereabouts { host, certificates, is_tls, named_by: "`DOCKER_HOST`".to_owned() }));
    }
    let usual = || variable("HOME").map(|home| Path::new(&home).join(".docker"));
    let Some(folder) = variable("DOCKER_CONFIG").map(PathBuf::from).or_else(usual) else { return Ok(None) };
    let named = match variable("DOCKER_CONTEXT") {
        Some(name) => Some((name, "`DOCKER_CONTEXT`".to_owned())),
        None => current(&folder.join("config.json"))?,
    };
    match named {
        Some((name, named_by)) if name != "default" => context(&folder, name, named_by).map(Some),
        _ => Ok(None),
    }
}

fn current(path: &Path) -> Result<Option<(String, String)>, ContextError> {
    // Most people have none, and one that cannot be read is the client's business.
    let Ok(bytes) = std::fs::read(path) else { return Ok(None) };
    let settings: Settings = parsed(path, &bytes)?;
    let name = settings.current_context.filter(|name| !name.is_empty());
    Ok(name.map(|name| (name, path.display().to_string())))
}

fn context(folder: &Path, name: String, named_by: String) -> Result<Whereabouts, ContextError> {
    let digest = Digest::of(name.as_bytes());
    let path = folder.join("contexts/meta").join(digest.hex()).join("meta.json");
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(source) => return Err(ContextError::Missing { name, named_by, source }),
    };
    let context: Context = parsed(&path, &bytes)?;
    let certificates = folder.join("contexts/tls").join(digest.hex()).join("docker");
    let certificates = Some(certificates).filter(|folder| folder.is_dir());
    let (host, is_tls) = (context.endpoints.docker.host, certificates.is_some());
    Ok(Whereabouts { host, certificates, is_tls, named_by: format!("the Docker context `{name}`") })
}

fn parsed<'a, T: Deserialize<'a>>(path: &Path, bytes: &'a [u8]) -> Result<T, ContextError> {
    serde_json::from_slice(bytes).map_err(|source| ContextError::Malformed { path: path.to_owned(), source })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// What Docker's client writes, with two contexts.
    fn configured() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, host) in [("lab", "tcp://lab:2376"), ("own", "unix:///run/user/7/docker.sock")] {
            let id = Digest::of(name.as_bytes()).hex().to_owned();
            let meta = folder.path().join("contexts/meta").join(&id);
            std::fs::create_dir_all(&meta).unwrap();
            let text = format!(
                r#"{{"Name":"{name}","Metadata":{{}},"Endpoints":{{"docker":{{"Host":"{host}","SkipTLSVerify":false}}}}}}"#
            );
            std::fs::write(meta.join("meta.json"), text).unwrap();
            if name == "lab" {
                std::fs::create_dir_all(folder.path().join("contexts/tls").join(&id).join("docker")).unwrap();
            }
        }
        folder
    }

    fn asked(folder: &Path, more: &[(&str, &str)]) -> Result<Option<Whereabouts>, ContextError> {
        docker(|name| {
            let set = more.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            set.or_else(|| (name == "DOCKER_CONFIG").then(|| folder.to_str().unwrap().to_owned()))
        })
    }

    #[test]
    fn the_order_is_that_of_the_client() {
        let folder = configured();
        let host = |more: &[(&str, &str)]| asked(folder.path(), more).unwrap().map(|found| found.host);
        assert_eq!(host(&[]), None);
        assert_eq!(host(&[("DOCKER_CONTEXT", "own")]).unwrap(), "unix:///run/user/7/docker.sock");
        std::fs::write(folder.path().join("config.json"), r#"{"auths":{},"currentContext":"lab"}"#).unwrap();
        let lab = asked(folder.path(), &[]).unwrap().unwrap();
        assert!(lab.host == "tcp://lab:2376" && lab.is_tls && lab.certificates.is_some(), "{lab:?}");
        assert_eq!(host(&[("DOCKER_CONTEXT", "own"), ("DOCKER_HOST", "")]).unwrap(), "unix:///run/user/7/docker.sock");
        assert_eq!(host(&[("DOCKER_CONTEXT", "default")]), None);
        assert_eq!(host(&[("DOCKER_CONTEXT", "own"), ("DOCKER_HOST", "tcp://x")]).unwrap(), "tcp://x");
    }

    #[test]
    fn what_is_not_there_or_damaged_is_named() {
        let folder = configured();
        let missing = asked(folder.path(), &[("DOCKER_CONTEXT", "gone")]).unwrap_err();
        assert!(missing.to_string().contains("no Docker context `gone`, which `DOCKER_CONTEXT` names"), "{missing}");
        std::fs::write(folder.path().join("config.json"), "{").unwrap();
        let damaged = asked(folder.path(), &[]).unwrap_err();
        assert!(damaged.to_string().contains("config.json is no configuration of Docker"), "{damaged}");
    }
}
