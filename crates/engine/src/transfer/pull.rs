//! Folders of a site to this machine: only what changed, checked, each file whole or not at all, and never outside
//! the folder it is pulled to, whatever the site says.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::FileType;
use trainyard_agent::beneath::Beneath;
use trainyard_agent::block::Unpacker;
use trainyard_agent::pipe::fetch::pieces;
use trainyard_agent::pipe::message::{Answer, Fetched, Request, Wanted};
use trainyard_agent::snapshot::decode;
use trainyard_core::id::RunId;

use super::{Progress, TransferError};
use crate::pipe::{Listed, ListedKind, Output, Pipe, PipeError};

/// What is not whole yet lies here, below the folder that is pulled to, and is continued next time.
const PARTS: &str = ".yard-parts";
/// Files in one request; the answer comes in one stream.
const MANY: usize = 2000;

/// What a pull brought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pulled {
    pub files: u64,
    /// Over the connection, unpacked.
    pub bytes: u64,
    pub unchanged: u64,
    /// Folders and files that are not there (yet).
    pub missing: Vec<String>,
    /// What the site named but nobody may have: a path that leads out of the folder.
    pub refused: Vec<String>,
}

/// Brings `from` (paths below the depot, files or folders) below `to`, each under its second name. What is there with
/// the same size and time is left alone; what only grew, or was cut last time, goes on where it ended.
pub fn pull(
    pipe: &mut Pipe,
    from: &[(String, String)],
    to: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Pulled, TransferError> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for (remote, local) in from {
        let listed = pipe.list(remote)?;
        if listed.is_empty() && pipe.kind_of(remote)?.is_none() {
            missing.push(remote.clone());
        }
        let below = |top: &str, path: &str| if path.is_empty() { top.to_owned() } else { format!("{top}/{path}") };
        found.extend(listed.into_iter().map(|mut entry| {
            let lies = below(remote, &entry.path);
            entry.path = below(local, &entry.path);
            Output { listed: entry, lies }
        }));
    }
    bring(pipe, found, missing, to, progress)
}

/// The same for outputs of a run, as its program would see them.
pub fn pull_outputs(
    pipe: &mut Pipe,
    run: RunId,
    outputs: &[String],
    to: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Pulled, TransferError> {
    let (found, missing) = pipe.outputs(run, outputs)?;
    bring(pipe, found, missing, to, progress)
}

fn bring(
    pipe: &mut Pipe,
    found: Vec<Output>,
    missing: Vec<String>,
    to: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Pulled, TransferError> {
    let failed = |source| TransferError::Write { path: to.to_owned(), source };
    fs_err::create_dir_all(to).map_err(failed)?;
    let place = Place::open(to).map_err(failed)?;
    let mut pulled = Pulled { missing, ..Pulled::default() };
    let mut files = Vec::new();
    for entry in found {
        place.take(entry, &mut files, &mut pulled)?;
    }
    let mut going = Progress { bytes: 0, of: files.iter().map(|file| file.entry.size).sum(), wire: 0 };
    for portion in files.chunks(MANY) {
        place.fetch(pipe, portion, &mut going, progress, &mut pulled)?;
    }
    place.tidy();
    Ok(pulled)
}

impl Pipe {
    /// Whether an empty listing is that of an empty folder.
    fn kind_of(&mut self, path: &str) -> Result<Option<()>, PipeError> {
        let request = Request::List { folder: path.to_owned() };
        match self.closed_ask(&request)? {
            Answer::Tree { there } => Ok(there.then_some(())),
            _ => Err(PipeError::Dropped),
        }
    }
}

/// A file to be brought.
struct Needed {
    remote: String,
    local: PathBuf,
    entry: Listed,
}

struct Place {
    root: Beneath,
    _lock: OwnedFd,
}

impl Place {
    fn open(to: &Path) -> io::Result<Self> {
        let root = Beneath::open(&std::path::absolute(to)?)?;
        root.make_folder(Path::new(PARTS))?;
        let lock = OwnedFd::from(root.write(&Path::new(PARTS).join("lock"), 0o600)?);
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| io::Error::new(io::ErrorKind::ResourceBusy, "another pull is at work there"))?;
        Ok(Self { root, _lock: lock })
    }

    /// Folders and links are made at once; files that differ are needed.
    fn take(&self, found: Output, files: &mut Vec<Needed>, pulled: &mut Pulled) -> Result<(), TransferError> {
        let Output { listed: entry, lies } = found;
        let path: PathBuf = decode(&entry.path).components().collect();
        let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        if !inside || path.as_os_str().is_empty() || path.starts_with(PARTS) {
            pulled.refused.push(entry.path);
            return Ok(());
        }
        let failed = |source| TransferError::Write { path: self.root.path().join(&path), source };
        match &entry.kind {
            ListedKind::Folder => self.make_folder(&path).map_err(failed),
            ListedKind::Link { to } => self.link(&path, &decode(to)).map_err(failed),
            ListedKind::File => {
                if self.is_same(&path, &entry) {
                    pulled.unchanged += 1;
                } else {
                    files.push(Needed { remote: lies, local: path, entry });
                }
                Ok(())
            }
        }
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        // Something else may have been there at the last pull, a link perhaps.
        if self.root.facts(path).is_ok_and(|facts| facts.kind != FileType::Directory) {
            self.root.remove(path)?;
        }
        self.root.make_folder(path).map(drop)
    }

    fn link(&self, path: &Path, to: &Path) -> io::Result<()> {
        if self.root.read_link(path).is_ok_and(|there| there == to) {
            return Ok(());
        }
        self.clear(path)?;
        self.root.link(path, to)
    }

    /// Makes way for a file or link where a folder was.
    fn clear(&self, path: &Path) -> io::Result<()> {
        match self.root.facts(path) {
            Ok(facts) if facts.kind == FileType::Directory => self.root.remove(path),
            _ => Ok(()),
        }
    }

    fn is_same(&self, path: &Path, entry: &Listed) -> bool {
        self.root.facts(path).is_ok_and(|facts| {
            facts.kind == FileType::RegularFile && facts.size == entry.size && facts.modified == entry.modified
        })
    }

    fn fetch(
        &self,
        pipe: &mut Pipe,
        needed: &[Needed],
        going: &mut Progress,
        progress: &mut dyn FnMut(Progress),
        pulled: &mut Pulled,
    ) -> Result<(), TransferError> {
        let mut wanted = Vec::with_capacity(needed.len());
        for file in needed {
            let (have, digest) = self.prepare(file).map_err(|source| self.unwritable(file, source))?;
            wanted.push(Wanted { path: file.remote.clone(), have, digest });
        }
        let Answer::Fetching = pipe.ask(&Request::Fetch { files: wanted.clone() }, &[])? else {
            return Err(PipeError::Dropped.into());
        };
        let mut unpacker =
            Unpacker::new().map_err(|source| TransferError::Write { path: self.root.path().to_owned(), source })?;
        let mut open: Option<Growing> = None;
        pipe.blocks(|packed| {
            going.wire += packed.len() as u64;
            let block = unpacker.unpack(&packed).map_err(|_| PipeError::Dropped)?;
            for piece in pieces(block) {
                let piece = piece.map_err(|_| PipeError::Dropped)?;
                let index = usize::try_from(piece.index).unwrap_or(usize::MAX);
                let (Some(file), Some(asked)) = (needed.get(index), wanted.get(index)) else {
                    return Err(PipeError::Dropped.into());
                };
                let failed = |source| self.unwritable(file, source);
                match piece.head {
                    Fetched::Gone => open = None,
                    Fetched::Begin { start, size, mode, modified } => {
                        if start != 0 && start != asked.have {
                            return Err(PipeError::Dropped.into());
                        }
                        going.bytes += start.min(size);
                        open = Some(self.begin(file, start, size, mode, modified).map_err(failed)?);
                    }
                    Fetched::More => {
                        let growing = open.as_mut().ok_or(PipeError::Dropped)?;
                        growing.add(piece.bytes).map_err(failed)?;
                        pulled.bytes += piece.bytes.len() as u64;
                        going.bytes += piece.bytes.len() as u64;
                    }
                    Fetched::End { digest } => {
                        let growing = open.take().ok_or(PipeError::Dropped)?;
                        if growing.hasher.finalize().to_hex().as_str() != digest {
                            return Err(PipeError::Refused(format!("{} arrived damaged", file.remote)).into());
                        }
                        self.publish(file, &growing).map_err(failed)?;
                        pulled.files += 1;
                    }
                }
            }
            progress(*going);
            Ok(())
        })
    }

    fn unwritable(&self, file: &Needed, source: io::Error) -> TransferError {
        TransferError::Write { path: self.root.path().join(&file.local), source }
    }

    fn part(file: &Needed) -> PathBuf {
        let hash = blake3::hash(file.local.as_os_str().as_encoded_bytes()).to_hex();
        Path::new(PARTS).join(hash.get(..32).unwrap_or_default())
    }

    /// How much of it is here: in a part of the last time, or in the file as it was.
    fn prepare(&self, file: &Needed) -> io::Result<(u64, String)> {
        let part = Self::part(file);
        let is_file = |path: &Path| {
            self.root.facts(path).is_ok_and(|facts| facts.kind == FileType::RegularFile && facts.size > 0)
        };
        if !is_file(&part) && is_file(&file.local) {
            let facts = self.root.facts(&file.local)?;
            if facts.size <= file.entry.size {
                let mut copy = self.root.write(&part, 0o600)?;
                io::copy(&mut self.root.read(&file.local)?, &mut copy)?;
            }
        }
        if !is_file(&part) {
            return Ok((0, String::new()));
        }
        let mut hasher = blake3::Hasher::new();
        let have = io::copy(&mut self.root.read(&part)?, &mut hasher)?;
        Ok((have, hasher.finalize().to_hex().to_string()))
    }

    fn begin(&self, file: &Needed, start: u64, size: u64, mode: u32, modified: i64) -> io::Result<Growing> {
        let mut open = self.root.write(&Self::part(file), 0o600)?;
        open.set_len(start)?;
        open.seek(io::SeekFrom::Start(start))?;
        Ok(Growing { file: open, hasher: blake3::Hasher::new(), left: size.saturating_sub(start), mode, modified })
    }

    fn publish(&self, file: &Needed, growing: &Growing) -> io::Result<()> {
        use rustix::fs::{Mode, Timespec, Timestamps};
        // Never set-user-id, and always ours to read and replace.
        rustix::fs::fchmod(&growing.file, Mode::from_raw_mode(growing.mode & 0o777 | 0o600))?;
        let time = Timespec {
            tv_sec: growing.modified.div_euclid(1_000_000_000),
            tv_nsec: growing.modified.rem_euclid(1_000_000_000),
        };
        rustix::fs::futimens(&growing.file, &Timestamps { last_access: time, last_modification: time })?;
        self.clear(&file.local)?;
        self.root.rename(&Self::part(file), &file.local)
    }

    /// Only when nothing is left to go on with.
    fn tidy(&self) {
        let parts = Path::new(PARTS);
        let only_lock = self.root.open_folder(parts).and_then(|folder| trainyard_agent::beneath::names(&folder));
        if only_lock.is_ok_and(|names| names.len() <= 1) {
            drop(self.root.remove(parts));
        }
    }
}

struct Growing {
    file: File,
    hasher: blake3::Hasher,
    left: u64,
    mode: u32,
    modified: i64,
}

impl Growing {
    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.left = self
            .left
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the site sends more than it said"))?;
        self.hasher.update(bytes);
        self.file.write_all(bytes)
    }
}

impl Pipe {
    /// The frames of an answer's body, one by one. After an error the pipe is of no use: the rest was not read.
    fn blocks(&mut self, mut take: impl FnMut(Vec<u8>) -> Result<(), TransferError>) -> Result<(), TransferError> {
        loop {
            match self.frame()? {
                Some(packed) => take(packed)?,
                None => return Ok(()),
            }
        }
    }
}
