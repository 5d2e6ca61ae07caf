//! A folder that holds a root file system.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::entry::{Device, Entries, Entry, Kind, Meta, Piece, Xattrs};
use crate::error::{Error, Reading, Result};
use crate::image::{Config, Image, Layer};
use crate::source::{Blob, Source};

/// An image of one layer: the folder as it is.
pub struct Folder {
    path: PathBuf,
    config: Config,
}

impl Folder {
    pub fn new(path: impl Into<PathBuf>, config: Config) -> Self {
        Self { path: path.into(), config }
    }
}

impl Source for Folder {
    fn image(&mut self) -> Result<Image> {
        let layer = Layer { digest: None, diff_id: None, size: None };
        Ok(Image { config: self.config.clone(), layers: vec![layer] })
    }

    fn layer(&mut self, _: usize) -> Result<Blob> {
        Ok(Blob::Folder(self.path.clone()))
    }
}

/// The entries below a folder, in the order of their names. What belongs to the user who looks is root's, as in any image.
pub(crate) struct Walk {
    root: PathBuf,
    /// What is still to come, the next one last; below the root.
    ahead: Vec<OsString>,
    /// Files with several names, by device and inode.
    linked: HashMap<(u64, u64), Vec<u8>>,
    owner: (u32, u32),
    current: Option<(PathBuf, File)>,
    left: u64,
}

impl Walk {
    pub(crate) fn new(root: &Path) -> Self {
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let ahead = vec![OsString::new()];
        Self { root: root.to_owned(), ahead, linked: HashMap::new(), owner, current: None, left: 0 }
    }

    fn push_children(&mut self, below: &Path, path: &Path) -> Result<()> {
        let what = || path.display().to_string();
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path).reading(what)? {
            names.push(below.join(entry.reading(what)?.file_name()).into_os_string());
        }
        names.sort_unstable_by(|a, b| b.cmp(a));
        self.ahead.extend(names);
        Ok(())
    }

    fn kind(&mut self, below: &Path, path: &Path, found: &Metadata) -> Result<Kind> {
        let what = || path.display().to_string();
        let file_type = found.file_type();
        if file_type.is_dir() {
            self.push_children(below, path)?;
            return Ok(Kind::Folder);
        }
        if found.nlink() > 1 {
            let name = below.as_os_str().as_bytes().to_vec();
            let first = self.linked.entry((found.dev(), found.ino())).or_insert_with(|| name.clone());
            if *first != name {
                return Ok(Kind::Hardlink(first.clone()));
            }
        }
        let device = || Device { major: rustix::fs::major(found.rdev()), minor: rustix::fs::minor(found.rdev()) };
        Ok(if file_type.is_file() {
            self.current = Some((path.to_owned(), File::open(path).reading(what)?));
            self.left = found.len();
            Kind::File(found.len())
        } else if file_type.is_symlink() {
            Kind::Symlink(std::fs::read_link(path).reading(what)?.into_os_string().into_vec())
        } else if file_type.is_block_device() {
            Kind::Block(device())
        } else if file_type.is_char_device() {
            Kind::Char(device())
        } else if file_type.is_fifo() {
            Kind::Fifo
        } else {
            Kind::Socket
        })
    }

    fn meta(&self, path: &Path, found: &Metadata) -> Meta {
        let own = |id: u32, mine: u32| if id == mine { 0 } else { id };
        Meta {
            mode: u16::try_from(found.mode() & 0o7777).unwrap_or_default(),
            uid: own(found.uid(), self.owner.0),
            gid: own(found.gid(), self.owner.1),
            mtime: u32::try_from(found.mtime().clamp(0, i64::from(u32::MAX))).unwrap_or_default(),
            xattrs: xattrs(path),
        }
    }
}

/// Those that can be read; a file system may have none at all.
fn xattrs(path: &Path) -> Xattrs {
    let mut list = vec![0; 64 << 10];
    let Ok(length) = rustix::fs::llistxattr(path, list.as_mut_slice()) else { return Xattrs::new() };
    let mut found = Xattrs::new();
    for name in list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 64 << 10];
        if let Ok(length) = rustix::fs::lgetxattr(path, name, value.as_mut_slice()) {
            value.truncate(length);
            found.push((name.to_vec(), value));
        }
    }
    found.sort_unstable();
    found
}

impl Entries for Walk {
    fn next(&mut self) -> Result<Option<Entry>> {
        (self.current, self.left) = (None, 0);
        let Some(below) = self.ahead.pop() else { return Ok(None) };
        let below = PathBuf::from(below);
        let path = self.root.join(&below);
        let found = path.symlink_metadata().reading(|| path.display().to_string())?;
        let kind = self.kind(&below, &path, &found)?;
        let meta = self.meta(&path, &found);
        Ok(Some(Entry { path: below.into_os_string().into_vec(), kind, meta }))
    }

    fn piece(&mut self) -> Result<Option<Piece>> {
        let length = std::mem::take(&mut self.left);
        Ok((length > 0).then_some(Piece::Data(length)))
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<()> {
        let Some((path, file)) = &mut self.current else { return Ok(()) };
        file.read_exact(buffer).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                Error::malformed(path.display().to_string(), "became shorter while it was read")
            }
            _ => Error::reading(error, || path.display().to_string()),
        })
    }
}
