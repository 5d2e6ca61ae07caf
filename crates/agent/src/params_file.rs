//! A file of parameters, made from a template of the project before the program starts.

use std::io;
use std::path::Path;

use trainyard_core::plan::arguments::{ArgumentError, parameter_file};
use trainyard_core::spec::{JobSpec, ParamsFile};
use trainyard_core::template::Values;

use crate::beneath::Beneath;
use crate::view::View;

/// A template is written by people.
const LARGEST: u64 = 16_000_000;

#[derive(Debug, thiserror::Error)]
pub enum ParamsFileError {
    #[error("`params-file.template`: there is no file `{0}` in the project")]
    Missing(String),
    #[error("`params-file.template`: `{0}` is larger than 16 MB")]
    TooLarge(String),
    #[error("`params-file.template`: cannot read `{path}` as text: {source}")]
    Read { path: String, source: io::Error },
    #[error("`params-file`: {error}{}", cause(.error))]
    Fill { error: ArgumentError },
    #[error("`params-file.to`: cannot write `{path}`: {source}")]
    Write { path: String, source: io::Error },
}

fn cause(error: &ArgumentError) -> String {
    std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default()
}

/// Whether the file could be made from the template in this folder. Writes nothing.
pub fn check(job: &JobSpec, values: &Values<'_>, folder: &Path) -> Result<(), ParamsFileError> {
    let Some(file) = &job.params_file else { return Ok(()) };
    filled(job, file, values, &View::plain(folder.to_owned())).map(drop)
}

/// Makes the file anew for every attempt, so that it is right whatever the program did to it. Never outside the working
/// folder, wherever links lead.
pub(crate) fn write(job: &JobSpec, values: &Values<'_>, view: &View) -> Result<(), ParamsFileError> {
    let Some(file) = &job.params_file else { return Ok(()) };
    let filled = filled(job, file, values, view)?;
    let written = Beneath::open(view.folder()).and_then(|folder| put(&folder, Path::new(&file.to), filled.as_bytes()));
    written.map_err(|source| ParamsFileError::Write { path: file.to.clone(), source })
}

fn filled(job: &JobSpec, file: &ParamsFile, values: &Values<'_>, view: &View) -> Result<String, ParamsFileError> {
    let text = read(file, view)?;
    parameter_file(job, file, &text, values).map_err(|error| ParamsFileError::Fill { error })
}

fn read(file: &ParamsFile, view: &View) -> Result<String, ParamsFileError> {
    let missing = || ParamsFileError::Missing(file.template.clone());
    let path = view.follow(Path::new(&file.template)).ok_or_else(missing)?;
    let failed = |source| ParamsFileError::Read { path: file.template.clone(), source };
    let facts = std::fs::metadata(&path).map_err(failed)?;
    if !facts.is_file() {
        return Err(missing());
    }
    if facts.len() > LARGEST {
        return Err(ParamsFileError::TooLarge(file.template.clone()));
    }
    std::fs::read_to_string(&path).map_err(failed)
}

fn put(folder: &Beneath, to: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = to.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        folder.make_folder(parent)?;
    }
    folder.replace(to, bytes, 0o644)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use trainyard_core::spec::{Layer, load};
    use trainyard_core::value::{Params, Value};

    use super::*;

    fn job(to: &str) -> JobSpec {
        let text = format!(
            "[jobs.a]\ncommand = ['a', '{{param.d}}']\nparams-style = 'file'\n\
             params-file = {{ template = 'conf/t.yaml', to = '{to}' }}\nparams = {{ lr = 0.1, d = 1 }}"
        );
        let config = load(&[Layer { name: "trainyard.toml".to_owned(), text }], &[], "any").unwrap().config;
        config.jobs["a"].clone()
    }

    fn make(view: &View, to: &str) -> Result<(), String> {
        let job = job(to);
        let params = Params::from([("lr".to_owned(), Value::Float(1e-3)), ("d".to_owned(), Value::Int(2))]);
        let values = Values {
            seed: Some(7),
            run: String::new(),
            name: String::new(),
            job: "a".to_owned(),
            attempt: 1,
            checkpoint: None,
            size: job.size(),
            params: &params,
        };
        write(&job, &values, view).map_err(|error| error.to_string())
    }

    #[test]
    fn what_shows_through_is_filled_in_above() {
        let root = tempfile::tempdir().unwrap();
        let (upper, lower) = (root.path().join("upper"), root.path().join("lower"));
        fs_err::create_dir_all(&upper).unwrap();
        fs_err::create_dir_all(lower.join("conf")).unwrap();
        fs_err::write(lower.join("conf/t.yaml"), "lr: {param.lr}\nseed: {seed}\nx: ${seed} {{seed}} {y}\n").unwrap();
        let view = View::layered(upper.clone(), lower.clone());
        for _attempt in 0..2 {
            make(&view, "conf/run/c.yaml").unwrap();
        }
        let made = fs_err::read_to_string(upper.join("conf/run/c.yaml")).unwrap();
        assert_eq!(made, "lr: 0.001\nseed: 7\nx: ${seed} {{seed}} {y}\n");
        assert!(!lower.join("conf/run").exists());
    }

    #[test]
    fn what_cannot_be_made_is_said() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("work");
        fs_err::create_dir_all(folder.join("conf")).unwrap();
        let view = View::plain(folder.clone());
        let missing = make(&view, "c.yaml").unwrap_err();
        assert!(missing.contains("there is no file `conf/t.yaml` in the project"), "{missing}");
        fs_err::write(folder.join("conf/t.yaml"), "a: {param.d}").unwrap();
        let lost = make(&view, "c.yaml").unwrap_err();
        assert!(lost.contains("the parameter `lr` is nowhere in `conf/t.yaml`"), "{lost}");
        fs_err::write(folder.join("conf/t.yaml"), "a: {param.lrr} {param.lr}").unwrap();
        let typo = make(&view, "c.yaml").unwrap_err();
        assert!(typo.contains("unknown placeholder `{param.lrr}`"), "{typo}");
        assert!(!folder.join("c.yaml").exists());
    }

    #[test]
    fn no_link_leads_out() {
        let root = tempfile::tempdir().unwrap();
        let (folder, outside) = (root.path().join("work"), root.path().join("outside"));
        fs_err::create_dir_all(folder.join("conf")).unwrap();
        fs_err::create_dir_all(&outside).unwrap();
        fs_err::write(folder.join("conf/t.yaml"), "{param.lr}").unwrap();
        std::os::unix::fs::symlink(&outside, folder.join("out")).unwrap();
        std::os::unix::fs::symlink(outside.join("target"), folder.join("link")).unwrap();
        assert!(make(&View::plain(folder.clone()), "out/c.yaml").is_err());
        make(&View::plain(folder.clone()), "link").unwrap();
        assert_eq!(fs_err::read_to_string(folder.join("link")).unwrap(), "0.001");
        assert_eq!(fs_err::read_dir(&outside).unwrap().count(), 0);
    }
}
