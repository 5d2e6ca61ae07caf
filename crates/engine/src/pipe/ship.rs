//! The program that becomes the agent: this very file, named by its content.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::PipeError;

#[derive(Debug, Clone)]
pub(super) struct Program {
    path: PathBuf,
    hash: String,
    size: u64,
    machine: &'static str,
}

/// Device, inode, size and time of change.
type Mark = (u64, u64, u64, i64, i64);

impl Program {
    pub(super) fn look(path: &Path) -> Result<Self, PipeError> {
        let failed = |error: io::Error| PipeError::Refused(format!("{}: {error}", path.display()));
        let mut file = File::open(path).map_err(failed)?;
        let data = file.metadata().map_err(failed)?;
        let machine = machine(&mut file).map_err(failed)?;
        let mark = (data.dev(), data.ino(), data.len(), data.mtime(), data.mtime_nsec());
        let hash = match remembered(&mark) {
            Some(hash) => hash,
            None => {
                let mut hasher = blake3::Hasher::new();
                let mut whole = File::open(path).map_err(failed)?;
                io::copy(&mut whole, &mut hasher).map_err(failed)?;
                let hash = hasher.finalize().to_hex().to_string();
                known().insert(mark, hash.clone());
                hash
            }
        };
        Ok(Self { path: path.to_owned(), hash, size: data.len(), machine })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn open(&self) -> io::Result<File> {
        File::open(&self.path)
    }

    pub(super) fn hash(&self) -> &str {
        &self.hash
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The file's name in `bin/`.
    pub(super) fn name(&self) -> String {
        format!("yard-{}", self.hash.get(..16).unwrap_or_default())
    }

    /// Asked before anything is sent, in the words of `uname`.
    pub(super) fn suits(&self, system: &str, machine: &str, host: &str) -> Result<(), String> {
        if system == "Linux" && (machine == self.machine || self.machine.is_empty()) {
            return Ok(());
        }
        let ours = if self.machine.is_empty() { "another machine" } else { self.machine };
        Err(format!(
            "`{host}` is {system} on {machine}, this yard is for Linux on {ours}: give one built for {machine} with --agent PATH"
        ))
    }

    /// Puts a copy in place, whole or not at all, if there is none.
    pub(super) fn copy_to(&self, place: &Path) -> io::Result<()> {
        if place.metadata().is_ok_and(|data| data.len() == self.size) {
            return Ok(());
        }
        if let Some(folder) = place.parent() {
            fs_err::create_dir_all(folder)?;
        }
        let beside = place.with_extension(format!("{}.tmp", uuid::Uuid::now_v7().simple()));
        let copied = fs_err::copy(&self.path, &beside)
            .and_then(|_| fs_err::set_permissions(&beside, std::fs::Permissions::from_mode(0o755)))
            .and_then(|()| fs_err::rename(&beside, place));
        if copied.is_err() {
            drop(fs_err::remove_file(&beside));
        }
        copied
    }
}

fn known() -> std::sync::MutexGuard<'static, HashMap<Mark, String>> {
    static KNOWN: OnceLock<Mutex<HashMap<Mark, String>>> = OnceLock::new();
    KNOWN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

fn remembered(mark: &Mark) -> Option<String> {
    known().get(mark).cloned()
}

/// What `uname -m` says where this file runs; empty for one that we do not know.
fn machine(file: &mut File) -> io::Result<&'static str> {
    let mut head = [0; 20];
    file.read_exact(&mut head)?;
    if !head.starts_with(b"\x7fELF") {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a program for Linux"));
    }
    let [.., low, high] = head;
    Ok(match u16::from_le_bytes([low, high]) {
        62 => "x86_64",
        183 => "aarch64",
        243 => "riscv64",
        21 => "ppc64le",
        _ => "",
    })
}
