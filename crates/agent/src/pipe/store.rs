//! Blobs and snapshots that arrive: verified as they come, each published whole. What arrived whole before a cut stays.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType};
use trainyard_core::id::Digest;

use super::blobs::{Begun, Blobs, named};
use super::edit::{self, Edit};
use super::frame::Body;
use super::message::is_digest;
use crate::beneath::Facts;
use crate::block::{self, Record, Unpacker};
use crate::crew::{hands, share};
use crate::depot::Depot;
use crate::disk::{Durability, replace};
use crate::pack::{self, Packs};
use crate::snapshot::{Entry, Kind, Manifest};

/// A manifest of a million files; more is no project.
const MANIFEST_MOST: usize = 256 << 20;
/// Of the compressor's memory, as a power of two: what a hostile peer can make us take.
const WINDOW: u32 = 23;
/// Blocks that wait for one lane.
const WAITING: usize = 8;
/// Below this a second thread that looks for blobs costs more than it brings.
const WORTH_A_THREAD: usize = 500;

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
        let bytes = unpack(size, packed)?;
        let manifest = Manifest::parse(&bytes, digest).map_err(|error| refused(&error.to_string()))?;
        Self::new(depot, digest, bytes, manifest.entries)
    }

    /// From a snapshot that is here. What both have was here when that one was published, and nobody cleans it away
    /// while that one is fresh. `None` if the way does not lead there.
    pub(super) fn from_edits(
        depot: &Depot,
        digest: &Digest,
        base: &Digest,
        size: u64,
        packed: &mut impl Read,
    ) -> io::Result<Option<Self>> {
        let edits: Vec<Edit> = serde_json::from_slice(&unpack(size, packed)?)?;
        let Some(old) = text(depot, base) else { return Ok(None) };
        let made = edit::apply(&old, &edits, MANIFEST_MOST);
        let made = made.ok().filter(|(bytes, _)| blake3::hash(bytes).to_hex().as_str() == digest.0);
        made.map(|(bytes, entries)| Self::new(depot, digest, bytes, entries)).transpose()
    }

    fn new(depot: &Depot, digest: &Digest, bytes: Vec<u8>, entries: Vec<Entry>) -> io::Result<Self> {
        let blobs = entries.into_iter().filter_map(|entry| match entry.kind {
            Kind::File { blob, size, .. } => Some((blob, size)),
            Kind::Folder | Kind::Link { .. } => None,
        });
        let mut offer = Self { digest: digest.clone(), bytes, lacking: blobs.collect() };
        if !offer.lacking.keys().all(is_digest) {
            return Err(refused("a blob has no proper name"));
        }
        offer.look(depot)?;
        Ok(offer)
    }

    pub(super) fn digest(&self) -> &Digest {
        &self.digest
    }

    fn look(&mut self, depot: &Depot) -> io::Result<()> {
        self.look_into_packs(depot);
        self.look_for_files(depot)
    }

    /// Where many are looked for, many may be.
    fn look_into_packs(&mut self, depot: &Depot) {
        if self.lacking.is_empty() {
            return;
        }
        let packs = Packs::read(depot);
        let mut used = BTreeSet::new();
        self.lacking.retain(|digest, size| {
            let place = packs.place(digest).filter(|_| packs.size(digest) == Some(*size));
            used.extend(place.map(|place| packs.path(place)));
            place.is_none()
        });
        for path in used {
            let modified = rustix::fs::lstat(path).map_or(0, |found| Facts::from(found).modified);
            keep_fresh(modified, || path.to_owned());
        }
    }

    /// A blob of another length is one that a power cut left short.
    fn look_for_files(&mut self, depot: &Depot) -> io::Result<()> {
        let Ok(folder) = File::open(depot.blobs()) else { return Ok(()) };
        let blobs: Vec<(&Digest, &u64)> = self.lacking.iter().collect();
        let there = share(&blobs, hands(blobs.len() / WORTH_A_THREAD), |(digest, size)| {
            let found = rustix::fs::statat(&folder, Depot::blob_name(digest), AtFlags::SYMLINK_NOFOLLOW);
            let Ok(facts) = found.map(Facts::from) else { return Ok(false) };
            keep_fresh(facts.modified, || depot.blob(digest));
            Ok::<_, io::Error>(facts.kind == FileType::RegularFile && facts.size == **size)
        })?;
        let mut there = there.into_iter();
        self.lacking.retain(|_, _| there.next() != Some(true));
        Ok(())
    }

    /// What was stored whole a moment ago need not be looked for.
    pub(super) fn note(&mut self, stored: &HashSet<[u8; 32]>) {
        for digest in stored {
            self.lacking.remove(&named(*digest));
        }
    }

    pub(super) fn lacking(&self) -> &BTreeMap<Digest, u64> {
        &self.lacking
    }

    /// The manifest last, so that a snapshot that is there is whole. Blobs are not synced, so syncing the manifest would
    /// promise nothing; after a power cut its hash and their lengths tell what must be sent again.
    pub(super) fn publish(&mut self, depot: &Depot) -> io::Result<bool> {
        self.look(depot)?;
        if !self.lacking.is_empty() {
            return Ok(false);
        }
        fs_err::create_dir_all(depot.snapshots())?;
        replace(&depot.snapshot(&self.digest), &self.bytes, Durability::Cached)?;
        Ok(true)
    }
}

fn unpack(size: u64, packed: &mut impl Read) -> io::Result<Vec<u8>> {
    let size = usize::try_from(size).ok().filter(|size| *size <= MANIFEST_MOST).ok_or_else(|| refused("too large"))?;
    let mut bytes = Vec::new();
    // One byte more than promised shows that the promise was wrong.
    let mut decoder = zstd::stream::read::Decoder::new(packed)?;
    decoder.window_log_max(WINDOW)?;
    decoder.take(size as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A snapshot that came in files: its manifest under zstd, and its blobs as they are sent over a pipe. What is here
/// already is not looked at again.
pub(crate) fn take_in(depot: &Depot, digest: &Digest, manifest: &Path, blobs: &[PathBuf]) -> io::Result<()> {
    if has(depot, digest) {
        return Ok(());
    }
    let mut offer = Offer::read(depot, digest, MANIFEST_MOST as u64, &mut File::open(manifest)?)?;
    if !offer.lacking.is_empty() {
        for path in blobs {
            let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
            offer.note(&put(depot, &mut Body::new(&mut file))?.whole);
        }
    }
    if offer.publish(depot)? { Ok(()) } else { Err(refused("not all of it arrived")) }
}

/// Whoever asks is about to use it.
pub(super) fn has(depot: &Depot, digest: &Digest) -> bool {
    text(depot, digest).is_some()
}

fn text(depot: &Depot, digest: &Digest) -> Option<Vec<u8>> {
    let text = is_digest(digest).then(|| Manifest::text(depot, digest)).flatten()?;
    let path = depot.snapshot(digest);
    if let Ok(found) = rustix::fs::lstat(&path) {
        keep_fresh(Facts::from(found).modified, || path);
    }
    Some(text)
}

/// What nobody needs is left alone for an hour by those who clean; what is used again says so long before.
const FRESH: Duration = Duration::from_secs(1200);

pub(super) fn keep_fresh(modified: i64, path: impl FnOnce() -> PathBuf) {
    let modified = UNIX_EPOCH + Duration::from_nanos(u64::try_from(modified).unwrap_or(0));
    let is_stale = modified.elapsed().is_ok_and(|age| age > FRESH);
    if is_stale && let Ok(file) = File::open(path()) {
        // Not ours: then its owner is the one who cleans.
        drop(file.set_modified(SystemTime::now()));
    }
}

/// What became of blobs that arrived.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pub(super) whole: HashSet<[u8; 32]>,
    /// Their bytes were not what their name says.
    pub(super) wrong: BTreeSet<[u8; 32]>,
}

/// Stores what arrives.
pub(super) fn put(depot: &Depot, body: &mut Body<'_, impl Read>) -> io::Result<Stored> {
    let blobs = Blobs::new(depot);
    let lanes = std::thread::available_parallelism().map_or(2, usize::from).clamp(1, 4);
    std::thread::scope(|scope| {
        let (senders, workers): (Vec<_>, Vec<_>) = (0..lanes)
            .map(|_| {
                let (sender, blocks) = sync_channel(WAITING);
                let blobs = &blobs;
                (sender, scope.spawn(move || Lane::new(depot, blobs).store(&blocks)))
            })
            .unzip();
        let read = hand_out(body, &senders);
        drop(senders);
        let failed = |_| io::Error::other("a thread of the agent failed");
        let mut all = Stored::default();
        // All are waited for. One that failed, as on a full disk, says more than the reader it left alone.
        let stored: Vec<_> = workers.into_iter().map(|worker| worker.join().map_err(failed).flatten()).collect();
        for stored in stored {
            let stored = stored?;
            all.whole.extend(stored.whole);
            all.wrong.extend(stored.wrong);
        }
        read.map(|()| all)
    })
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
    blobs: &'a Blobs<'a>,
    packs: pack::Writer<'a>,
    growing: HashMap<[u8; 32], Growing<'a>>,
    stored: Stored,
}

/// A blob of which more is to come.
struct Growing<'a> {
    begun: Begun<'a>,
    hasher: blake3::Hasher,
    written: u64,
}

impl<'a> Lane<'a> {
    fn new(depot: &'a Depot, blobs: &'a Blobs<'a>) -> Self {
        Self { blobs, packs: pack::Writer::new(depot), growing: HashMap::new(), stored: Stored::default() }
    }

    fn store(mut self, blocks: &Receiver<Vec<u8>>) -> io::Result<Stored> {
        let mut unpacker = Unpacker::new()?;
        for packed in blocks {
            let mut whole = Vec::new();
            for record in block::records(unpacker.unpack(&packed)?) {
                let record = record?;
                if record.offset > 0 || record.bytes.len() as u64 != record.total {
                    self.piece(&record)?;
                } else if *blake3::hash(record.bytes).as_bytes() == record.digest {
                    whole.push(record);
                } else {
                    self.stored.wrong.insert(record.digest);
                }
            }
            self.whole(&packed, &whole)?;
        }
        Ok(self.stored)
    }

    /// What of a block is whole and what its names say.
    fn whole(&mut self, packed: &[u8], records: &[Record<'_>]) -> io::Result<()> {
        if pack::is_worth(records) {
            self.packs.add(packed, records)?;
        } else {
            records.iter().try_for_each(|record| self.blobs.put(record.digest, record.bytes))?;
        }
        self.stored.whole.extend(records.iter().map(|record| record.digest));
        Ok(())
    }

    fn piece(&mut self, record: &Record<'_>) -> io::Result<()> {
        if record.offset == 0 {
            let begun = self.blobs.begin(record.digest)?;
            self.growing.insert(record.digest, Growing { begun, hasher: blake3::Hasher::new(), written: 0 });
        }
        let growing = self.growing.get_mut(&record.digest).filter(|growing| growing.written == record.offset);
        let Some(growing) = growing else { return Err(refused("a piece of a file arrived out of order")) };
        growing.begun.file.write_all(record.bytes)?;
        growing.hasher.update(record.bytes);
        growing.written += record.bytes.len() as u64;
        if growing.written < record.total {
            return Ok(());
        }
        let Some(growing) = self.growing.remove(&record.digest) else { return Ok(()) };
        if *growing.hasher.finalize().as_bytes() != record.digest {
            self.stored.wrong.insert(record.digest);
            return Ok(());
        }
        growing.begun.publish()?;
        self.stored.whole.insert(record.digest);
        Ok(())
    }
}

pub(super) fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("the snapshot is refused: {why}"))
}
