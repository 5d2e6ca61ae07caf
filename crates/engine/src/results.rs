//! Bringing home what runs have made.

use std::io;
use std::path::{Path, PathBuf};

use trainyard_agent::depot::Depot;
use trainyard_agent::view::View;
use trainyard_core::id::RunId;

/// What was copied, and what was there already.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pulled {
    pub files: usize,
    pub bytes: u64,
    pub unchanged: usize,
    /// Outputs that the run has not made (yet).
    pub missing: Vec<String>,
}

/// Copies a run's outputs. A file that is there with the same size and time is not copied again; each one appears
/// whole or not at all. Links are copied as links, and nothing is written outside `to`.
pub fn pull(depot: &Depot, run: RunId, outputs: &[String], to: &Path) -> io::Result<Pulled> {
    let view = View::of(depot, run);
    let mut pulled = Pulled::default();
    for output in outputs {
        let path = Path::new(output.trim_end_matches('/'));
        match view.find(path) {
            Some(from) => copy(&view, path, &from, &to.join(path), &mut pulled)?,
            None => pulled.missing.push(output.clone()),
        }
    }
    Ok(pulled)
}

/// The files of a run's outputs, by their names in the working folder; links are left out.
pub fn files(depot: &Depot, run: RunId, outputs: &[String]) -> io::Result<Vec<(String, PathBuf)>> {
    let view = View::of(depot, run);
    let mut found = Vec::new();
    for output in outputs {
        let path = Path::new(output.trim_end_matches('/'));
        if let Some(from) = view.find(path) {
            list(&view, path, &from, &mut found)?;
        }
    }
    Ok(found)
}

fn list(view: &View, name: &Path, at: &Path, found: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    let data = fs_err::symlink_metadata(at)?;
    if data.is_dir() {
        return view.list(name)?.iter().try_for_each(|seen| list(view, &name.join(&seen.name), &seen.path, found));
    }
    if let Some(text) = name.to_str().filter(|_| data.is_file()) {
        found.push((text.to_owned(), at.to_owned()));
    }
    Ok(())
}

/// `from` is where `output` of the working folder really lies.
fn copy(view: &View, output: &Path, from: &Path, to: &Path, pulled: &mut Pulled) -> io::Result<()> {
    let data = fs_err::symlink_metadata(from)?;
    if data.is_dir() {
        fs_err::create_dir_all(to)?;
        for seen in view.list(output)? {
            copy(view, &output.join(&seen.name), &seen.path, &to.join(&seen.name), pulled)?;
        }
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        fs_err::create_dir_all(parent)?;
    }
    if data.is_symlink() {
        return link(&fs_err::read_link(from)?, to);
    }
    if data.is_file() { copy_file(from, &data, to, pulled) } else { Ok(()) }
}

fn link(target: &Path, to: &Path) -> io::Result<()> {
    if fs_err::read_link(to).is_ok_and(|there| there == target) {
        return Ok(());
    }
    match fs_err::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs_err::os::unix::fs::symlink(target, to)
}

fn copy_file(from: &Path, data: &std::fs::Metadata, to: &Path, pulled: &mut Pulled) -> io::Result<()> {
    let modified = data.modified()?;
    let same = |there: std::fs::Metadata| {
        there.is_file() && there.len() == data.len() && there.modified().is_ok_and(|at| at == modified)
    };
    if fs_err::symlink_metadata(to).is_ok_and(same) {
        pulled.unchanged += 1;
        return Ok(());
    }
    let beside = beside(to);
    let bytes = fs_err::copy(from, &beside)?;
    std::fs::File::options().write(true).open(&beside)?.set_modified(modified)?;
    fs_err::rename(&beside, to)?;
    pulled.files += 1;
    pulled.bytes += bytes;
    Ok(())
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}
