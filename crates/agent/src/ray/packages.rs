//! What came with a Ray job.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use trainyard_core::id::Digest;

use super::missing;
use crate::depot::Depot;
use crate::order::Secrets;
use crate::pipe::store;

/// Names of our packages begin so.
pub const PREFIX: &str = "_ray_pkg_yard_";
/// The variable with the seal.
pub const SEAL: &str = "YARD_SEAL";
/// What lies in packages.
pub mod entry {
    pub const AGENT: &str = "yard";
    pub const MANIFEST: &str = "manifest.zst";
    pub const BLOBS: &str = "blobs";
    pub const PARCEL: &str = "parcel.zst";
    pub const SECRETS: &str = "secrets";
    pub const REQUEST: &str = "request";
    pub const HANDOVER: &str = "handover.zst";
}

/// What makes secrets in a package unreadable for those who see only the package. Used once.
pub struct Seal(Vec<u8>);

impl Seal {
    pub fn new(key: Vec<u8>) -> Self {
        Self(key)
    }

    pub fn text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
        digits.collect::<Option<Vec<u8>>>().map(Self)
    }

    /// Seals, and opens what was sealed.
    pub fn apply(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = vec![0; bytes.len()];
        let key = blake3::derive_key("trainyard 2026 secrets in a package for Ray", &self.0);
        blake3::Hasher::new_keyed(&key).finalize_xof().fill(&mut stream);
        bytes.iter().zip(stream).map(|(byte, mask)| byte ^ mask).collect()
    }
}

/// Folders that Ray has put on Python's path.
pub struct Packages {
    ours: Vec<PathBuf>,
    /// What else is on the path.
    others: Option<OsString>,
}

impl Packages {
    pub fn look() -> Self {
        let path = std::env::var_os("PYTHONPATH").unwrap_or_default();
        let is_ours =
            |folder: &PathBuf| folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        let (ours, others): (Vec<PathBuf>, Vec<PathBuf>) = std::env::split_paths(&path).partition(is_ours);
        let others = std::env::join_paths(others.iter().filter(|path| !path.as_os_str().is_empty())).ok();
        Self { ours, others: others.filter(|path| !path.is_empty()) }
    }

    fn all(&self, entry: &str) -> Vec<PathBuf> {
        self.ours.iter().map(|folder| folder.join(entry)).filter(|path| path.is_file()).collect()
    }

    pub(super) fn find(&self, entry: &str) -> Option<PathBuf> {
        self.all(entry).into_iter().next()
    }

    /// What was packed; `None` if no package has it.
    pub fn unpack(&self, entry: &str) -> io::Result<Option<Vec<u8>>> {
        self.find(entry).map(|path| zstd::stream::decode_all(File::open(path)?)).transpose()
    }

    /// The code that came, into a depot.
    pub fn take_in(&self, depot: &Depot, digest: &Digest) -> io::Result<()> {
        let manifest = self.find(entry::MANIFEST).ok_or_else(|| missing(entry::MANIFEST))?;
        store::take_in(depot, digest, &manifest, &self.all(entry::BLOBS))
    }

    /// Python's path without our packages.
    pub(super) fn others(&self) -> Option<&OsStr> {
        self.others.as_deref()
    }

    pub(super) fn secrets(&self) -> io::Result<Secrets> {
        let Some(path) = self.find(entry::SECRETS) else { return Ok(Secrets::default()) };
        let seal = std::env::var(SEAL).ok().and_then(|text| Seal::parse(&text));
        let seal = seal.ok_or_else(|| io::Error::other("the seal of the secrets did not arrive"))?;
        let mut sealed = Vec::new();
        File::open(path)?.read_to_end(&mut sealed)?;
        Ok(serde_json::from_slice(&seal.apply(&sealed))?)
    }
}
