//! Files beside a run, through the server, which has them wherever it likes.

use std::path::{Component, Path};

use fs_err::File;
use serde::Deserialize;
use trainyard_web::{Body, encode};

use super::mlflow::{FileEntry, Mlflow, path};
use super::{Artifact, ServerRun, TrackingError};

/// A file at the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// With `/` between folders.
    pub name: String,
    pub size: u64,
}

#[derive(Deserialize)]
struct ListAnswer {
    #[serde(default)]
    files: Vec<FileEntry>,
}

impl Mlflow {
    /// Replaces what is there.
    pub fn upload(&self, run: &ServerRun, artifact: &Artifact) -> Result<(), TrackingError> {
        let mut file = File::open(&artifact.path)?;
        let length = file.metadata()?.len();
        let place = place(run, &acceptable(&artifact.name))?;
        self.client().put(&place).send(Body::Stream(&mut file, Some(length)))?;
        Ok(())
    }

    /// All files, in all folders.
    pub fn artifacts(&self, run: &ServerRun) -> Result<Vec<Listed>, TrackingError> {
        let mut files = Vec::new();
        let mut folders = vec![None::<String>];
        while let Some(folder) = folders.pop() {
            let question = self.client().get(&path("artifacts/list")).query("run_id", &run.run_id);
            let question = if let Some(folder) = &folder { question.query("path", folder) } else { question };
            for entry in question.json::<ListAnswer>()?.files {
                let is_below = folder.as_ref().is_none_or(|folder| entry.path.len() > folder.len());
                if !is_inside(&entry.path) || !is_below {
                    return Err(TrackingError::Escapes { name: entry.path });
                }
                if entry.is_dir {
                    folders.push(Some(entry.path));
                } else {
                    files.push(Listed { name: entry.path, size: entry.file_size });
                }
            }
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    /// Into a file of this name below `folder`; it appears whole or not at all.
    pub fn download(&self, run: &ServerRun, name: &str, folder: &Path) -> Result<u64, TrackingError> {
        if !is_inside(name) {
            return Err(TrackingError::Escapes { name: name.to_owned() });
        }
        let to = folder.join(name);
        let parent = to.parent().unwrap_or(folder);
        fs_err::create_dir_all(parent)?;
        let part = parent.join(format!(".part-{}-{}", std::process::id(), uuid::Uuid::now_v7().simple()));
        let fetched = (|| {
            let mut file = File::create_new(&part)?;
            let bytes = self.client().get(&place(run, name)?).send(Body::None)?.copy_to(&mut file)?;
            fs_err::rename(&part, &to)?;
            Ok(bytes)
        })();
        if fetched.is_err() {
            drop(fs_err::remove_file(&part));
        }
        fetched
    }
}

/// The proxy's path of a file. Only what the server itself keeps can be reached through it.
fn place(run: &ServerRun, name: &str) -> Result<String, TrackingError> {
    let no_proxy = || TrackingError::NoProxy { uri: run.artifact_uri.clone() };
    let rest = run.artifact_uri.strip_prefix("mlflow-artifacts:").ok_or_else(no_proxy)?;
    // `mlflow-artifacts:/1/…`, or with the server's own address in front.
    let root = match rest.strip_prefix("//") {
        Some(rest) => rest.split_once('/').map_or("", |(_, path)| path),
        None => rest.trim_start_matches('/'),
    };
    let segments = root.split('/').chain(name.split('/')).filter(|segment| !segment.is_empty()).map(encode);
    Ok(format!("api/2.0/mlflow-artifacts/artifacts/{}", segments.collect::<Vec<_>>().join("/")))
}

/// The server refuses what looks like an address or leads elsewhere.
pub(super) fn acceptable(name: &str) -> String {
    let letters =
        name.chars().map(|letter| if letter.is_control() || "#?%\\:".contains(letter) { '_' } else { letter });
    let name: String = letters.collect();
    let segments = name.split('/').filter(|segment| !segment.is_empty() && *segment != ".");
    segments.map(|segment| if segment == ".." { "_" } else { segment }).collect::<Vec<_>>().join("/")
}

fn is_inside(name: &str) -> bool {
    !name.is_empty()
        && !name.contains('\0')
        && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::RunStatus;
    use super::*;

    fn run(uri: &str) -> ServerRun {
        ServerRun {
            run_id: "r".to_owned(),
            name: String::new(),
            status: RunStatus::Running,
            started: 0,
            ended: None,
            artifact_uri: uri.to_owned(),
            params: Default::default(),
            tags: Default::default(),
            newest: Default::default(),
        }
    }

    #[test]
    fn places_are_below_the_run() {
        let at = |uri: &str, name: &str| place(&run(uri), name).unwrap();
        let root = "api/2.0/mlflow-artifacts/artifacts";
        assert_eq!(at("mlflow-artifacts:/1/r/artifacts", "a b/c"), format!("{root}/1/r/artifacts/a%20b/c"));
        assert_eq!(at("mlflow-artifacts://host:5000/1/r/artifacts", "x"), format!("{root}/1/r/artifacts/x"));
        assert!(matches!(place(&run("s3://bucket/1"), "x"), Err(TrackingError::NoProxy { .. })));
    }

    #[test]
    fn names_lead_nowhere_else() {
        assert_eq!(acceptable("/a/../b#c/./d"), "a/_/b_c/d");
        for name in ["", "/etc/passwd", "../x", "a/../../x", "a\0"] {
            assert!(!is_inside(name), "{name}");
        }
        assert!(is_inside("a/b c/größe"));
    }
}
