//! Blobs and snapshots that arrive: verified as they come, each published whole. What arrived whole before a cut stays.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use trainyard_core::id::Digest;

use super::block::{self, Record, Unpacker};
use super::frame::Body;
use super::message::is_digest;
use crate::depot::Depot;
use crate::disk::{Durability, replace};
use crate::snapshot::{Kind, Manifest};

/// A manifest of a million files; more is no project.
const MANIFEST_MOST: usize = 256 << 20;
/// Of the compressor's memory, as a power of two: what a hostile peer can make us take.
const WINDOW: u32 = 23;
/// Blocks that wait for one lane.
const WAITING: usize = 4;

/// A snapshot that the other side wants to be here.
#[derive(Debug)]
pub(super) struct Offer {
    digest: Digest,
    bytes: Vec<u8>,
    /// With their sizes; what was found here is not looked for again.
    lacking: BTreeMap<Digest, u64>,
}

impl Offer {
    pub(super) fn read(depot: &Depot, digest: &Digest, size: u64, packed: &mut impl Read) -> io::Result<Self> {
        let size =
            usize::try_from(size).ok().filter(|size| *size <= MANIFEST_MOST).ok_or_else(|| refused("too large"))?;
        let mut bytes = Vec::new();
        // One byte more than promised shows that the promise was wrong.
        let mut decoder = zstd::stream::read::Decoder::new(packed)?;
        decoder.window_log_max(WINDOW)?;
        decoder.take(size as u64 + 1).read_to_end(&mut bytes)?;
        let manifest = Manifest::parse(&bytes, digest).map_err(|error| refused(&error.to_string()))?;
        let mut blobs = BTreeMap::new();
        for entry in manifest.entries {
            if let Kind::File { blob, size, .. } = entry.kind {
                if !is_digest(&blob) {
                    return Err(refused("a blob has no proper name"));
                }
                blobs.insert(blob, size);
            }
        }
        let mut offer = Self { digest: digest.clone(), bytes, lacking: blobs };
        offer.look(depot);
        Ok(offer)
    }

    pub(super) fn digest(&self) -> &Digest {
        &self.digest
    }

    /// A blob of another length is one that a power cut left short.
    fn look(&mut self, depot: &Depot) {
        self.lacking.retain(|digest, size| {
            let path = depot.blob(digest);
            !std::fs::symlink_metadata(&path).is_ok_and(|data| {
                keep_fresh(&path, &data);
                data.is_file() && data.len() == *size
            })
        });
    }

    pub(super) fn lacking(&self) -> &BTreeMap<Digest, u64> {
        &self.lacking
    }

    /// The manifest last, so that a snapshot that is there is whole. Blobs are not synced, so syncing the manifest would
    /// promise nothing; after a power cut its hash and their lengths tell what must be sent again.
    pub(super) fn publish(&mut self, depot: &Depot) -> io::Result<bool> {
        self.look(depot);
        if !self.lacking.is_empty() {
            return Ok(false);
        }
        fs_err::create_dir_all(depot.snapshots())?;
        replace(&depot.snapshot(&self.digest), &self.bytes, Durability::Cached)?;
        Ok(true)
    }
}

/// Whoever asks is about to use it.
pub(super) fn has(depot: &Depot, digest: &Digest) -> bool {
    let path = depot.snapshot(digest);
    let is_there = is_digest(digest) && Manifest::read(depot, digest).is_ok();
    if let (true, Ok(data)) = (is_there, std::fs::symlink_metadata(&path)) {
        keep_fresh(&path, &data);
    }
    is_there
}

/// What nobody needs is left alone for an hour by those who clean; what is used again says so long before.
const FRESH: Duration = Duration::from_secs(1200);

fn keep_fresh(path: &Path, data: &std::fs::Metadata) {
    let is_stale = data.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > FRESH));
    if is_stale && let Ok(file) = File::open(path) {
        // Not ours: then its owner is the one who cleans.
        drop(file.set_modified(SystemTime::now()));
    }
}

/// Stores what arrives. The answer names blobs whose bytes were not what their name says.
pub(super) fn put(depot: &Depot, body: &mut Body<'_, impl Read>) -> io::Result<Vec<Digest>> {
    let wrong = Mutex::new(BTreeSet::new());
    let lanes = std::thread::available_parallelism().map_or(2, usize::from).clamp(1, 4);
    std::thread::scope(|scope| {
        let (senders, workers): (Vec<_>, Vec<_>) = (0..lanes)
            .map(|_| {
                let (sender, blocks) = sync_channel(WAITING);
                let wrong = &wrong;
                (sender, scope.spawn(move || Lane::new(depot, wrong)?.store(&blocks)))
            })
            .unzip();
        let read = hand_out(body, &senders);
        drop(senders);
        let failed = |_| io::Error::other("a thread of the agent failed");
        let stored: io::Result<Vec<()>> =
            workers.into_iter().map(|worker| worker.join().map_err(failed).flatten()).collect();
        // A lane that failed, as on a full disk, says more than the reader it left alone.
        stored.and(read)
    })?;
    Ok(wrong.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect())
}

fn hand_out(body: &mut Body<'_, impl Read>, lanes: &[SyncSender<Vec<u8>>]) -> io::Result<()> {
    while let Some(packed) = body.frame()? {
        let lane = lanes.get(usize::from(block::lane(&packed)) % lanes.len().max(1));
        if lane.is_none_or(|lane| lane.send(packed).is_err()) {
            return Err(io::Error::other("nobody takes the blocks"));
        }
    }
    Ok(())
}

/// One thread that unpacks, verifies and writes.
struct Lane<'a> {
    depot: &'a Depot,
    wrong: &'a Mutex<BTreeSet<Digest>>,
    unpacker: Unpacker,
    begun: HashMap<[u8; 32], Begun>,
}

/// A blob of which more is to come.
struct Begun {
    file: Temporary,
    hasher: blake3::Hasher,
    written: u64,
}

impl<'a> Lane<'a> {
    fn new(depot: &'a Depot, wrong: &'a Mutex<BTreeSet<Digest>>) -> io::Result<Self> {
        Ok(Self { depot, wrong, unpacker: Unpacker::new()?, begun: HashMap::new() })
    }

    fn store(mut self, blocks: &Receiver<Vec<u8>>) -> io::Result<()> {
        for packed in blocks {
            let block = self.unpacker.unpack(packed)?;
            for record in block::records(&block) {
                let record = record?;
                if record.offset == 0 && record.bytes.len() as u64 == record.total {
                    self.whole(&record)?;
                } else {
                    self.piece(&record)?;
                }
            }
        }
        Ok(())
    }

    fn whole(&self, record: &Record<'_>) -> io::Result<()> {
        let digest = named(record.digest);
        if *blake3::hash(record.bytes).as_bytes() != record.digest {
            self.refuse(digest);
            return Ok(());
        }
        let blob = self.depot.blob(&digest);
        let mut file = Temporary::beside(&blob)?;
        file.file.write_all(record.bytes)?;
        file.publish(&blob)
    }

    fn piece(&mut self, record: &Record<'_>) -> io::Result<()> {
        let digest = named(record.digest);
        if record.offset == 0 {
            let file = Temporary::beside(&self.depot.blob(&digest))?;
            self.begun.insert(record.digest, Begun { file, hasher: blake3::Hasher::new(), written: 0 });
        }
        let begun = self.begun.get_mut(&record.digest).filter(|begun| begun.written == record.offset);
        let Some(begun) = begun else { return Err(refused("a piece of a file arrived out of order")) };
        begun.file.file.write_all(record.bytes)?;
        begun.hasher.update(record.bytes);
        begun.written += record.bytes.len() as u64;
        if begun.written < record.total {
            return Ok(());
        }
        let Some(begun) = self.begun.remove(&record.digest) else { return Ok(()) };
        if *begun.hasher.finalize().as_bytes() == record.digest {
            return begun.file.publish(&self.depot.blob(&digest));
        }
        self.refuse(digest);
        Ok(())
    }

    fn refuse(&self, digest: Digest) {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).insert(digest);
    }
}

fn named(digest: [u8; 32]) -> Digest {
    Digest(blake3::Hash::from_bytes(digest).to_hex().to_string())
}

/// A file that is gone unless it is published.
struct Temporary {
    file: File,
    path: PathBuf,
    published: bool,
}

impl Temporary {
    fn beside(blob: &Path) -> io::Result<Self> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = blob.with_extension(format!("{}-{count}-{:08x}.tmp", std::process::id(), mark()));
        let open = || File::options().write(true).create_new(true).mode(0o444).open(&path);
        let file = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs_err::create_dir_all(blob.parent().unwrap_or(blob))?;
                open()
            }
            other => other,
        };
        let file = file.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        Ok(Self { file, path, published: false })
    }

    fn publish(mut self, blob: &Path) -> io::Result<()> {
        fs_err::rename(&self.path, blob)?;
        self.published = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.published {
            drop(std::fs::remove_file(&self.path));
        }
    }
}

/// Tells this process from one with the same number on another machine that shares the disk.
fn mark() -> u32 {
    static MARK: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *MARK.get_or_init(|| {
        let now = SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let hash = blake3::hash(format!("{host} {}", now.as_nanos()).as_bytes());
        let [a, b, c, d, ..] = *hash.as_bytes();
        u32::from_le_bytes([a, b, c, d])
    })
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("the snapshot is refused: {why}"))
}
