//! Images that arrive: put together from what other images here have, and from what is sent.
//!
//! An image is a list of chunks, and its name is the hash of that list; so whatever each chunk's hash agrees with is in its
//! right place. The part file survives a cut, and nothing but right bytes is ever written to it: several who bring the same
//! image at once write the same.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use trainyard_core::spec::format_size;

use super::frame::Body;
use super::store::keep_fresh;
use crate::crew::{hands, share};
use crate::depot::{Depot, ImageName};
use crate::disk::{Durability, replace};

/// Of the list: hash and length.
pub const RECORD: usize = 36;
/// A block of any squashfs.
pub const CHUNK_MOST: u32 = 1 << 20;
/// 150 GB in blocks of the usual size.
const LIST_MOST: u64 = 64 << 20;
/// Other images that are looked into, the newest first.
const NEIGHBOURS: usize = 16;
/// Left over on a disk, for those who write beside us.
const MARGIN: u64 = 16 << 20;
/// Chunks that one thread looks at before the next news.
const PORTION: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    pub hash: [u8; 32],
    pub length: u32,
}

impl Chunk {
    pub fn append(&self, list: &mut Vec<u8>) {
        list.extend_from_slice(&self.hash);
        list.extend_from_slice(&self.length.to_le_bytes());
    }

    fn is(&self, bytes: &[u8]) -> bool {
        *blake3::hash(bytes).as_bytes() == self.hash
    }
}

/// A list as it lies beside an image and goes over the wire.
fn parse(list: &[u8]) -> io::Result<Vec<Chunk>> {
    let (records, rest) = list.as_chunks::<RECORD>();
    let chunk = |record: &[u8; RECORD]| {
        let (hash, length) = record.split_first_chunk::<32>()?;
        let length = u32::from_le_bytes(length.try_into().ok()?);
        (length > 0 && length <= CHUNK_MOST).then_some(Chunk { hash: *hash, length })
    };
    let chunks: Option<Vec<Chunk>> = records.iter().map(chunk).collect();
    chunks.filter(|_| rest.is_empty()).ok_or_else(|| refused("its list of chunks is damaged"))
}

/// The name of an image by its contents.
pub fn digest(chunks: impl IntoIterator<Item = Chunk>) -> String {
    let mut hasher = blake3::Hasher::new();
    for chunk in chunks {
        hasher.update(&chunk.length.to_le_bytes());
        hasher.update(&chunk.hash);
    }
    hasher.finalize().to_hex().to_string()
}

/// What is told while an image is put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News<'a> {
    /// So many bytes were looked for.
    Looked(u64),
    /// Chunks by their numbers in the list, four bytes each.
    Missing(&'a [u8]),
}

impl<'a> News<'a> {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Looked(bytes) => [&[0], bytes.to_le_bytes().as_slice()].concat(),
            Self::Missing(numbers) => [&[1], *numbers].concat(),
        }
    }

    pub fn decode(frame: &'a [u8]) -> Option<Self> {
        match frame.split_first()? {
            (0, bytes) => Some(Self::Looked(u64::from_le_bytes(bytes.try_into().ok()?))),
            (1, numbers) => Some(Self::Missing(numbers)),
            _ => None,
        }
    }
}

/// Whoever asks is about to use it. One that was cut or emptied, whatever did that, is not there.
pub(super) fn has(depot: &Depot, image: &ImageName) -> bool {
    let path = depot.image(image);
    let is_whole = |data: &std::fs::Metadata| data.is_file() && size_told(&path).is_none_or(|size| size == data.len());
    let found = std::fs::symlink_metadata(&path).ok().filter(is_whole);
    found.inspect(|data| keep_fresh(data.mtime().saturating_mul(1_000_000_000), || path)).is_some()
}

/// An image of which something may be missing.
pub(super) struct Arrival {
    depot: Depot,
    image: ImageName,
    list: Vec<u8>,
    chunks: Vec<Chunk>,
    offsets: Vec<u64>,
    size: u64,
    file: File,
    /// Bytes from before a cut may be in it.
    is_old: bool,
    there: Vec<bool>,
}

impl Arrival {
    /// Takes the room that the image needs, or says that there is not enough.
    pub(super) fn begin(depot: &Depot, image: ImageName, body: &mut impl Read) -> io::Result<Self> {
        let mut list = Vec::new();
        body.take(LIST_MOST + 1).read_to_end(&mut list)?;
        if list.len() as u64 > LIST_MOST {
            return Err(refused("it is too large"));
        }
        let chunks = parse(&list)?;
        if digest(chunks.iter().copied()) != image.digest() {
            return Err(refused("its list of chunks is not what its name says"));
        }
        let mut size = 0;
        let begins = |chunk: &Chunk| {
            let offset = size;
            size += u64::from(chunk.length);
            offset
        };
        let offsets = chunks.iter().map(begins).collect();
        fs_err::create_dir_all(depot.images())?;
        let (file, is_old) = open_part(&part(depot, &image), size)?;
        let there = vec![false; chunks.len()];
        Ok(Self { depot: depot.clone(), image, list, chunks, offsets, size, file, is_old, there })
    }

    pub(super) fn image(&self) -> &ImageName {
        &self.image
    }

    /// Finds what is there already: in the part file from before a cut, and in other images.
    pub(super) fn assemble(mut self, tell: &mut dyn FnMut(News<'_>) -> io::Result<()>) -> io::Result<Self> {
        let neighbours = Neighbours::find(&self.depot, &self.chunks);
        let looked = AtomicU64::new(0);
        let numbers: Vec<usize> = (0..self.chunks.len()).collect();
        let portions: Vec<&[usize]> = numbers.chunks(PORTION).collect();
        let work = |portion: &&[usize]| -> io::Result<Vec<bool>> {
            portion.iter().map(|number| self.find(*number, &neighbours, &looked)).collect()
        };
        let there = std::thread::scope(|scope| {
            let worker = scope.spawn(|| share(&portions, hands(portions.len()), work));
            let mut told = 0;
            while !worker.is_finished() {
                std::thread::park_timeout(Duration::from_millis(100));
                let now = looked.load(Ordering::Relaxed);
                if now != told {
                    tell(News::Looked(now))?;
                    told = now;
                }
            }
            worker.join().map_err(|_| io::Error::other("a thread of the agent failed"))?
        })?;
        self.there = there.concat();
        let missing = self.there.iter().zip(0_u32..).filter(|(there, _)| !**there);
        let missing: Vec<u8> = missing.flat_map(|(_, number)| number.to_le_bytes()).collect();
        for portion in missing.chunks(1 << 20) {
            tell(News::Missing(portion))?;
        }
        Ok(self)
    }

    fn find(&self, number: usize, neighbours: &Neighbours, looked: &AtomicU64) -> io::Result<bool> {
        let (Some(chunk), Some(offset)) = (self.chunks.get(number), self.offsets.get(number)) else { return Ok(false) };
        looked.fetch_add(u64::from(chunk.length), Ordering::Relaxed);
        let mut bytes = vec![0; chunk.length as usize];
        if self.is_old && self.file.read_exact_at(&mut bytes, *offset).is_ok() && chunk.is(&bytes) {
            return Ok(true);
        }
        let is_near = neighbours.read(chunk, &mut bytes);
        if is_near {
            self.file.write_all_at(&bytes, *offset)?;
        }
        Ok(is_near)
    }

    /// Takes what is sent, and publishes the image when nothing is missing any more.
    pub(super) fn take(&mut self, body: &mut Body<'_, impl Read>) -> io::Result<bool> {
        while let Some(frame) = body.frame()? {
            let mut rest = frame.as_slice();
            while let Some((number, after)) = rest.split_first_chunk::<4>() {
                let number = u32::from_le_bytes(*number) as usize;
                let place = self.chunks.get(number).zip(self.offsets.get(number));
                let (chunk, offset) = place.ok_or_else(|| refused("a chunk arrived that is none of it"))?;
                let cut = after.split_at_checked(chunk.length as usize);
                let (bytes, after) = cut.ok_or_else(|| refused("a chunk arrived that is too short"))?;
                if !chunk.is(bytes) {
                    return Err(refused("a chunk arrived damaged; it is safe to try again"));
                }
                self.file.write_all_at(bytes, *offset)?;
                if let Some(there) = self.there.get_mut(number) {
                    *there = true;
                }
                rest = after;
            }
        }
        if self.there.iter().all(|there| *there) {
            return self.publish().map(|()| true);
        }
        Ok(false)
    }

    /// The list first: an image without one is an image, a list without its image is nothing.
    fn publish(&self) -> io::Result<()> {
        let path = self.depot.image(&self.image);
        self.file.set_len(self.size)?;
        self.file.set_permissions(std::fs::Permissions::from_mode(0o444))?;
        self.file.set_modified(std::time::SystemTime::now())?;
        self.file.sync_all()?;
        replace(&list_of(&path), &self.list, Durability::Synced)?;
        match fs_err::rename(part(&self.depot, &self.image), &path) {
            // Somebody else brought it this moment; it is the same file.
            Err(error) if error.kind() == io::ErrorKind::NotFound && has(&self.depot, &self.image) => {}
            renamed => renamed?,
        }
        File::open(self.depot.images())?.sync_all()
    }
}

/// The length of an image, by the list beside it.
fn size_told(image: &Path) -> Option<u64> {
    let chunks = parse(&std::fs::read(list_of(image)).ok()?).ok()?;
    Some(chunks.iter().map(|chunk| u64::from(chunk.length)).sum())
}

fn part(depot: &Depot, image: &ImageName) -> PathBuf {
    beside(&depot.image(image), ".part")
}

fn list_of(image: &Path) -> PathBuf {
    beside(image, ".chunks")
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// With whether something is in it. All the room at once, where the file system can do that: a full disk or a quota is known before anything is sent.
fn open_part(path: &Path, size: u64) -> io::Result<(File, bool)> {
    let file = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    let file = file.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    let data = file.metadata()?;
    let taken = (data.blocks() * 512).min(size);
    let folder = path.parent().unwrap_or(path);
    let space = rustix::fs::statvfs(folder)?;
    let (free, need) = (space.f_bavail.saturating_mul(space.f_frsize), size - taken);
    let reserved = if need + MARGIN > free {
        Err(io::Error::from(io::ErrorKind::StorageFull))
    } else {
        match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size) {
            Err(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT) => Err(io::ErrorKind::StorageFull.into()),
            // Not every file system can; then it is seen while it arrives.
            _ => file.set_len(size),
        }
    };
    if let Err(error) = reserved {
        if taken == 0 {
            // Nothing of it is worth keeping.
            drop(std::fs::remove_file(path));
        }
        if error.kind() != io::ErrorKind::StorageFull {
            return Err(error);
        }
        return Err(io::Error::other(format!(
            "the disk at {} has {} left for you, the image needs {}",
            folder.display(),
            format_size(free),
            format_size(need)
        )));
    }
    Ok((file, taken > 0))
}

/// Where other images have what is wanted.
#[derive(Default)]
struct Neighbours {
    files: Vec<File>,
    places: HashMap<[u8; 32], (usize, u64)>,
}

impl Neighbours {
    /// One that is gone or damaged helps nobody, and hurts nobody.
    fn find(depot: &Depot, wanted: &[Chunk]) -> Self {
        let mut found = Self::default();
        let mut wanted: HashMap<[u8; 32], ()> = wanted.iter().map(|chunk| (chunk.hash, ())).collect();
        for image in newest(&depot.images()).into_iter().take(NEIGHBOURS) {
            let (Ok(file), Ok(list)) = (File::open(&image), std::fs::read(list_of(&image))) else { continue };
            let Ok(chunks) = parse(&list) else { continue };
            let mut offset = 0;
            for chunk in chunks {
                if wanted.remove(&chunk.hash).is_some() {
                    found.places.insert(chunk.hash, (found.files.len(), offset));
                }
                offset += u64::from(chunk.length);
            }
            found.files.push(file);
        }
        found
    }

    fn read(&self, chunk: &Chunk, bytes: &mut [u8]) -> bool {
        let Some((file, offset)) = self.places.get(&chunk.hash) else { return false };
        let read = self.files.get(*file).is_some_and(|file| file.read_exact_at(bytes, *offset).is_ok());
        read && chunk.is(bytes)
    }
}

fn newest(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let image = |entry: std::fs::DirEntry| {
        ImageName::parse(entry.file_name().to_str()?)?;
        Some((entry.metadata().ok()?.modified().ok()?, entry.path()))
    };
    let mut images: Vec<_> = entries.filter_map(image).collect();
    images.sort_unstable_by(|a, b| b.cmp(a));
    images.into_iter().map(|(_, path)| path).collect()
}

fn refused(why: &str) -> io::Error {
    io::Error::other(format!("the image is refused: {why}"))
}
