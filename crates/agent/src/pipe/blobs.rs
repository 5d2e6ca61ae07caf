//! The folders of a depot's blobs, each opened once: what is written there needs no walk from the root, and lands in
//! the folder that was looked at whatever becomes of its path.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{AtFlags, Mode, OFlags};
use trainyard_core::id::Digest;

use crate::depot::Depot;
use crate::disk::unique;

pub(super) struct Blobs<'a> {
    depot: &'a Depot,
    /// By the first byte of the digest.
    folders: [OnceLock<OwnedFd>; 256],
}

impl<'a> Blobs<'a> {
    pub(super) fn new(depot: &'a Depot) -> Self {
        Self { depot, folders: [const { OnceLock::new() }; 256] }
    }

    /// A small blob, written under its own name at once: half of what it costs is in the folder's entries. One that a
    /// kill or a full disk leaves short is known by its length, as after a power cut, and whoever sends it again puts
    /// another file in its place.
    pub(super) fn put(&self, digest: [u8; 32], bytes: &[u8]) -> io::Result<()> {
        let path = self.depot.blob(&named(digest));
        let folder = self.folder(digest, path.parent().unwrap_or(&path))?;
        match create(folder, path.file_name().unwrap_or_default()) {
            Ok(mut file) => file.write_all(bytes).map_err(|error| at(&path, error)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let mut begun = self.begin(digest)?;
                begun.file.write_all(bytes)?;
                begun.publish()
            }
            Err(error) => Err(at(&path, error)),
        }
    }

    /// A file that becomes the blob when it is published, and is gone if it never is.
    pub(super) fn begin(&self, digest: [u8; 32]) -> io::Result<Begun<'_>> {
        let path = self.depot.blob(&named(digest));
        let folder = self.folder(digest, path.parent().unwrap_or(&path))?;
        let name = path.file_name().unwrap_or_default().to_owned();
        let mut beside = name.clone();
        beside.push(format!(".{}.tmp", unique()));
        let file = create(folder, &beside).map_err(|error| at(&path, error))?;
        Ok(Begun { file, folder, name, beside, published: false })
    }

    fn folder(&self, digest: [u8; 32], path: &Path) -> io::Result<BorrowedFd<'_>> {
        let [first, ..] = digest;
        let Some(place) = self.folders.get(usize::from(first)) else { return Err(io::ErrorKind::NotFound.into()) };
        if let Some(folder) = place.get() {
            return Ok(folder.as_fd());
        }
        fs_err::create_dir_all(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| at(path, error.into()))?;
        Ok(place.get_or_init(|| folder).as_fd())
    }
}

fn create(folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o444))?))
}

pub(super) struct Begun<'a> {
    pub(super) file: File,
    folder: BorrowedFd<'a>,
    name: OsString,
    beside: OsString,
    published: bool,
}

impl Begun<'_> {
    pub(super) fn publish(mut self) -> io::Result<()> {
        rustix::fs::renameat(self.folder, &self.beside, self.folder, &self.name)
            .map_err(|error| at(Path::new(&self.name), error.into()))?;
        self.published = true;
        Ok(())
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if !self.published {
            let _ = rustix::fs::unlinkat(self.folder, &self.beside, AtFlags::empty());
        }
    }
}

pub(super) fn named(digest: [u8; 32]) -> Digest {
    Digest(blake3::Hash::from_bytes(digest).to_hex().to_string())
}

fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
