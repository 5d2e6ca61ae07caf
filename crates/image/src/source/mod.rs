//! Where images come from.

use std::io::Read;
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::image::Image;
use crate::range::FileRange;

mod archive;
mod build;
mod context;
mod daemon;
mod folder;
mod layout;
mod login;
mod oci;
mod reference;
mod registry;

pub use archive::Archive;
pub use build::{Build, BuildError, Builder};
pub use context::ContextError;
pub use daemon::{Daemon, DaemonError, Engine};
pub use folder::Folder;
pub(crate) use folder::Walk;
pub use layout::Layout;
pub use login::{LoginError, Places};
pub use reference::Reference;
pub use registry::{Registry, RegistryError};

/// Gives one image. Its manifest and configuration are checked by the source, with [`crate::Digest::check`]; the bytes of
/// layers are checked by whoever reads them, while they pass.
pub trait Source: Send {
    /// What the image is. Asked once, before any layer.
    fn image(&mut self) -> Result<Image>;

    /// A layer's bytes as they are stored, from the beginning; 0 is the lowest. Layers are asked for from the highest to the
    /// lowest, in most cases once, and again where an image cannot be laid out in one go.
    fn layer(&mut self, index: usize) -> Result<Blob>;
}

/// The bytes of a layer: a tar, plain or compressed with gzip or zstd, which is seen from the bytes themselves.
pub enum Blob {
    /// Read from the beginning to the end, once.
    Stream(Box<dyn Read + Send>),
    /// Part of a file, which can be read at any place.
    Range(FileRange),
    /// No tar at all, but the files themselves.
    Folder(PathBuf),
}

/// Files that are found by name: a folder's, or an archive's.
pub(crate) trait Named {
    /// What stands before a name in messages.
    fn place(&self) -> String;

    fn find(&self, name: &str) -> Result<Option<FileRange>>;

    fn needed(&self, name: &str) -> Result<FileRange> {
        self.find(name)?.ok_or_else(|| Error::malformed(self.place(), format!("lacks `{name}`: is it an image?")))
    }
}
