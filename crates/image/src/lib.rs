//! OCI and Docker images become one squashfs file: `.sif` for apptainer and singularity, `.sqsh` for enroot. Or one tar of their
//! layers, for other Dockers and Podmans.
//!
//! A [`Source`] tells an image's configuration and gives its layers. They are laid over each other without being unpacked,
//! and what is left is compressed on all cores straight into the output. The same image gives the same bytes,
//! whatever the kind of source and the number of threads. Nothing here needs root, a daemon or another
//! program, except where an image lies with a daemon and where somebody's login is kept by another program.

mod chunk;
mod convert;
mod digest;
mod dress;
mod entry;
mod error;
mod fingerprint;
mod flatten;
mod image;
mod layer;
mod manifest;
mod progress;
mod range;
mod reuse;
mod save;
mod shared;
mod sif;
mod source;
mod squashfs;
mod tar;
mod tree;
mod verify;

pub use chunk::{Chunk, chunks, digest};
pub use convert::{Converted, Format, Options, convert};
pub use digest::Digest;
pub use error::{Error, Result};
pub use image::{Config, Image, Layer, Nothing, Platform, RunConfig};
pub use manifest::{Descriptor, Manifest, Named as NamedPlatform, choose};
pub use progress::Progress;
pub use range::FileRange;
pub use reuse::index_path;
pub use save::engine_name;
pub use source::{
    Archive, Blob, Build, BuildError, Builder, ContextError, Daemon, DaemonError, Engine, Folder, Layout, LoginError,
    Places, Reference, Registry, RegistryError, Source,
};
pub use squashfs::Codec;
pub use trainyard_web::Secret;
