//! Files below one folder, whatever their names say: no `..`, no absolute path, no link on the way leads out of it.
//!
//! Folders are opened one by one without following links, since `openat2` is missing on kernels that clusters
//! still run (4.18 in RHEL 8).

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

/// What lies at a path; links are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    pub kind: FileType,
    pub size: u64,
    pub mode: u32,
    /// Nanoseconds since 1970.
    pub modified: i64,
    pub device: u64,
    pub inode: u64,
}

impl From<rustix::fs::Stat> for Facts {
    fn from(stat: rustix::fs::Stat) -> Self {
        let nanoseconds = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
        Self {
            kind: FileType::from_raw_mode(stat.st_mode),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mode: stat.st_mode & 0o7777,
            modified: stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(nanoseconds),
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}

/// A folder that nothing is done outside of. The folder itself may be reached through links.
#[derive(Debug)]
pub struct Beneath {
    path: PathBuf,
    folder: OwnedFd,
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Beneath {
    pub fn open(path: &Path) -> io::Result<Self> {
        let folder = rustix::fs::open(path, FOLDER, Mode::empty()).map_err(|error| named(error, path))?;
        Ok(Self { path: path.to_owned(), folder })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// An absolute path below the folder is taken as well; anything that could lead out is refused.
    fn relative<'a>(&self, path: &'a Path) -> io::Result<&'a Path> {
        let path = path.strip_prefix(&self.path).unwrap_or(path);
        if path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Ok(path);
        }
        Err(outside(path))
    }

    /// The folder that holds `path`, and its name there.
    fn parent<'a>(&self, path: &'a Path, missing: Missing) -> io::Result<(OwnedFd, &'a OsStr)> {
        let relative = self.relative(path)?;
        let name = relative.file_name().ok_or_else(|| outside(path))?;
        let parent = relative.parent().unwrap_or(Path::new(""));
        Ok((self.descend(parent, missing)?, name))
    }

    fn descend(&self, relative: &Path, missing: Missing) -> io::Result<OwnedFd> {
        let mut at = self.folder.try_clone()?;
        for part in relative.components() {
            let name = part.as_os_str();
            let open = |at: &OwnedFd| rustix::fs::openat(at, name, FOLDER | OFlags::NOFOLLOW, Mode::empty());
            let next = match open(&at) {
                Err(Errno::NOENT) if missing == Missing::Make => {
                    match rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => open(&at),
                        Err(error) => Err(error),
                    }
                }
                other => other,
            };
            at = next.map_err(|error| self.refused(error, relative))?;
        }
        Ok(at)
    }

    /// A link in the way is what `NOFOLLOW` answers with `NOTDIR` or `LOOP`.
    fn refused(&self, error: Errno, relative: &Path) -> io::Error {
        let path = self.path.join(relative);
        if matches!(error, Errno::LOOP | Errno::NOTDIR) {
            let why = format!("{} leads through a link or a file", path.display());
            return io::Error::new(io::ErrorKind::PermissionDenied, why);
        }
        named(error, &path)
    }

    pub fn facts(&self, path: &Path) -> io::Result<Facts> {
        if self.relative(path)?.as_os_str().is_empty() {
            return Ok(rustix::fs::fstat(&self.folder)?.into());
        }
        let (parent, name) = self.parent(path, Missing::Fails)?;
        let stat = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW);
        Ok(stat.map_err(|error| named(error, path))?.into())
    }

    /// For reading; only ordinary files, so that a named pipe cannot make us wait for ever.
    pub fn read(&self, path: &Path) -> io::Result<File> {
        let (parent, name) = self.parent(path, Missing::Fails)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file =
            rustix::fs::openat(&parent, name, flags, Mode::empty()).map_err(|error| self.refused(error, path))?;
        let file = File::from(file);
        if file.metadata()?.is_file() {
            return Ok(file);
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} is not a file", path.display())))
    }

    /// Makes the folder and those above it.
    pub fn make_folder(&self, path: &Path) -> io::Result<OwnedFd> {
        self.descend(self.relative(path)?, Missing::Make)
    }

    /// Opens the folder without making it.
    pub fn open_folder(&self, path: &Path) -> io::Result<OwnedFd> {
        self.descend(self.relative(path)?, Missing::Fails)
    }

    /// Whole or not at all; the folders above are made.
    pub fn replace(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        use io::Write;
        let (parent, name) = self.parent(path, Missing::Make)?;
        let beside = temporary();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&parent, &beside, flags, Mode::from_raw_mode(mode));
        let mut file = File::from(file.map_err(|error| named(error, path))?);
        let written = file.write_all(bytes).and_then(|()| file.sync_data());
        let placed = written
            .and_then(|()| rustix::fs::renameat(&parent, &beside, &parent, name).map_err(|error| named(error, path)));
        if placed.is_err() {
            let _ = rustix::fs::unlinkat(&parent, &beside, AtFlags::empty());
        }
        placed
    }

    /// Moves a file or folder that lies below us to another place below us.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (old, old_name) = self.parent(from, Missing::Fails)?;
        let (new, new_name) = self.parent(to, Missing::Make)?;
        rustix::fs::renameat(&old, old_name, &new, new_name).map_err(|error| named(error, to))
    }

    /// Opens for writing, making file and folders as needed; a link in its place is refused.
    pub fn write(&self, path: &Path, mode: u32) -> io::Result<File> {
        let (parent, name) = self.parent(path, Missing::Make)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(mode));
        Ok(File::from(file.map_err(|error| self.refused(error, path))?))
    }

    /// Puts a link in place, over an older file or link.
    pub fn link(&self, path: &Path, to: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path, Missing::Make)?;
        let beside = temporary();
        rustix::fs::symlinkat(to, &parent, &beside).map_err(|error| named(error, path))?;
        let placed = rustix::fs::renameat(&parent, &beside, &parent, name).map_err(|error| named(error, path));
        if placed.is_err() {
            let _ = rustix::fs::unlinkat(&parent, &beside, AtFlags::empty());
        }
        placed
    }

    pub fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let (parent, name) = self.parent(path, Missing::Fails)?;
        let target = rustix::fs::readlinkat(&parent, name, Vec::new()).map_err(|error| named(error, path))?;
        Ok(bytes_path(target.as_bytes()).to_owned())
    }

    /// Removes a file, a link or a whole tree; what is not there is fine. Links are removed, not followed.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = match self.parent(path, Missing::Fails) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        remove_at(&parent, name).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Make,
    Fails,
}

fn remove_at(parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let folder = rustix::fs::openat(parent, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
    // Trees of snapshots are read-only; if it cannot be changed, the removal below says so.
    let _ = rustix::fs::fchmod(&folder, Mode::RWXU);
    for entry in names(&folder)? {
        remove_at(&folder, &entry)?;
    }
    match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The names in a folder, without `.` and `..`.
pub fn names(folder: &OwnedFd) -> io::Result<Vec<std::ffi::OsString>> {
    let mut found = Vec::new();
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            found.push(bytes_path(name).as_os_str().to_owned());
        }
    }
    Ok(found)
}

/// Facts of an entry of an open folder.
pub fn facts_at(folder: &OwnedFd, name: &OsStr) -> io::Result<Facts> {
    Ok(rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?.into())
}

pub fn bytes_path(bytes: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(OsStr::from_bytes(bytes))
}

/// A name that no other writer uses at the same time.
fn temporary() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let nanoseconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let mark = blake3::hash(format!("{} {count} {nanoseconds}", std::process::id()).as_bytes()).to_hex();
    format!(".{}.tmp", mark.get(..16).unwrap_or_default())
}

fn outside(path: &Path) -> io::Error {
    let why = format!("{} does not lie below the folder", path.display());
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

fn named(error: Errno, path: &Path) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
