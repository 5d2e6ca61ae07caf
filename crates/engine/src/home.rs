//! Where yard keeps its own files on this machine.

use std::io;
use std::path::{Path, PathBuf};

use trainyard_agent::depot::Depot;

/// The user's settings, ledger, depot and socket.
#[derive(Debug, Clone)]
pub struct Home {
    config: PathBuf,
    state: PathBuf,
    data: PathBuf,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot use yard's home {}", path.display())]
pub struct HomeError {
    pub path: PathBuf,
    pub source: io::Error,
}

impl Home {
    /// Everything in one folder; `YARD_HOME`.
    pub fn in_folder(root: &Path) -> Self {
        Self { config: root.to_owned(), state: root.to_owned(), data: root.to_owned() }
    }

    /// The XDG folders: `~/.config`, `~/.local/state` and `~/.local/share`, each with `trainyard` below.
    pub fn in_folders(config: &Path, state: &Path, data: &Path) -> Self {
        let [config, state, data] = [config, state, data].map(|folder| folder.join("trainyard"));
        Self { config, state, data }
    }

    /// Only the user may look inside: logs and settings are nobody else's business.
    pub fn prepare(&self) -> Result<(), HomeError> {
        for path in [&self.state, &self.data] {
            make_private(path).map_err(|source| HomeError { path: path.clone(), source })?;
        }
        Ok(())
    }

    pub fn settings(&self) -> PathBuf {
        self.config.join("config.toml")
    }

    pub fn ledger(&self) -> PathBuf {
        self.state.join("ledger.db")
    }

    pub fn lock(&self) -> PathBuf {
        self.state.join("yardmaster.lock")
    }

    pub fn yardmaster_log(&self) -> PathBuf {
        self.state.join("yardmaster.log")
    }

    /// What the files of this project hashed to; see [`crate::snapshot::scan`].
    pub fn scan_cache(&self, project: &Path) -> PathBuf {
        let name = blake3::hash(project.as_os_str().as_encoded_bytes()).to_hex();
        self.state.join("scans").join(name.get(..32).unwrap_or_default())
    }

    /// What is known about a site.
    pub fn site(&self, target: &str) -> PathBuf {
        self.state.join("sites").join(format!("{target}.json"))
    }

    /// Metrics that were fetched from sites.
    pub fn curves(&self) -> PathBuf {
        self.state.join("curves")
    }

    /// Sockets of kept connections. Their paths must be short, wherever the home is.
    pub fn sockets(&self) -> PathBuf {
        let name = blake3::hash(self.state.as_os_str().as_encoded_bytes()).to_hex();
        let user = rustix::process::getuid().as_raw();
        let name = name.get(..8).unwrap_or_default();
        std::env::temp_dir().join(format!("yard-{user}-{name}"))
    }

    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Images that were converted here; see [`crate::images`].
    pub fn images(&self) -> PathBuf {
        self.data.join("images")
    }

    /// The depot of the local target, unless its settings name another.
    pub fn depot(&self) -> Depot {
        Depot::new(self.data.join("depot"))
    }
}

/// A path as people write it: `~/` is the user's home, and what is not absolute starts at `base`.
pub fn locate(path: &Path, base: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => base.join(path),
    }
}

fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}
