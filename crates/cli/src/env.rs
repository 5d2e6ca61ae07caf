//! Every environment variable yard reads, in one place.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use trainyard_core::plan::container::ENGINE_SETTINGS;
use trainyard_engine::home::Home;

/// All of yard's own files in this folder, instead of the XDG folders.
const YARD_HOME: &str = "YARD_HOME";

/// What a local run sees of the shell it was submitted from. Not everything: the ledger remembers it, and a shell
/// holds secrets. What else a program needs is named in `jobs.NAME.env`.
const HANDED_ON: [&str; 27] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "CONDA_EXE",
    "CONDA_PYTHON_EXE",
    "PYTHONPATH",
    "PYTHONHOME",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_DEVICE_ORDER",
    "MUJOCO_GL",
    "PYOPENGL_PLATFORM",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "OMP_NUM_THREADS",
];

fn path(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

pub(crate) fn home() -> Home {
    if let Some(root) = path(YARD_HOME) {
        let root = std::path::absolute(&root).unwrap_or(root);
        return Home::in_folder(&root);
    }
    let user = path("HOME").unwrap_or_else(|| PathBuf::from("/"));
    let folder =
        |name: &str, default: &str| path(name).filter(|path| path.is_absolute()).unwrap_or_else(|| user.join(default));
    Home::in_folders(
        &folder("XDG_CONFIG_HOME", ".config"),
        &folder("XDG_STATE_HOME", ".local/state"),
        &folder("XDG_DATA_HOME", ".local/share"),
    )
}

pub(crate) fn handed_on() -> BTreeMap<String, String> {
    let pass = |name: &str| HANDED_ON.contains(&name) || ENGINE_SETTINGS.contains(&name) || name.starts_with("LC_");
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    std::env::vars_os().filter_map(text).filter(|(name, _)| pass(name)).collect()
}

/// Secrets that came with a controller. Their names are no names of shells, so nothing else is meant.
pub(crate) fn handed_secrets() -> BTreeMap<String, String> {
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    std::env::vars_os().filter_map(text).filter(|(name, _)| name.contains('/')).collect()
}

/// The value of a secret that the file refers to by name.
pub(crate) fn secret(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What Docker, Podman and registries are configured with; read for them as they would.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

pub(crate) fn wants_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Where a program that runs under yard may write its metrics.
pub(crate) fn metrics() -> Option<PathBuf> {
    path("YARD_METRICS")
}

/// What to call instead of `ssh`, with its first arguments; split as a shell would.
pub(crate) fn ssh() -> Result<Vec<String>, String> {
    match std::env::var("YARD_SSH") {
        Ok(text) if !text.trim().is_empty() => {
            shlex::split(&text).ok_or_else(|| format!("YARD_SSH: `{text}` has a quote that does not end"))
        }
        _ => Ok(vec!["ssh".to_owned()]),
    }
}

/// The pause between questions to a site, in milliseconds; for tests, and for controllers, which are beside their site.
pub(crate) fn pace() -> Option<std::time::Duration> {
    let text = std::env::var("YARD_PACE").ok()?;
    text.parse().ok().map(std::time::Duration::from_millis)
}
