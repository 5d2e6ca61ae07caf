//! What goes to a cluster: packages, named by what they hold, so that one that is there is never sent again.
//!
//! Ray unpacks them on the node that runs the job. The code goes as blobs in groups that depend on their contents alone:
//! of a project that changed a little most groups stay as they are, and an upload that was cut goes on where it ended.

use std::io::{self, Read, Write};
use std::path::Path;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use trainyard_agent::block::{BLOCK, Packer, RECORD, Record, Worth, looks_compressible};
use trainyard_agent::depot::Depot;
use trainyard_agent::order::Secrets;
use trainyard_agent::pipe::frame::{self, Tag};
use trainyard_agent::ray::{Seal, entry};
use trainyard_agent::snapshot::{Kind, Manifest};
use trainyard_core::id::Digest;

use super::{Agent, Ray, RayError};

/// Ray's own packages begin so; ours can be told from them.
const PREFIX: &str = trainyard_agent::ray::PREFIX;
/// A group of blobs ends when it has this much and its last blob's name is fit for an end, or it has the most.
const ENOUGH: u64 = 2 << 20;
const MOST: u64 = 32 << 20;

/// A package that can be made again at any time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) name: String,
    content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Manifest(Digest),
    Blobs(Vec<(Digest, u64)>),
}

fn name(kind: &str, hash: &str) -> String {
    format!("{PREFIX}{kind}_{}.zip", hash.get(..32).unwrap_or(hash))
}

/// The program that is the agent.
pub(crate) fn agent_package(hash: &str) -> String {
    name("agent", hash)
}

/// The packages of a snapshot, in an order that depends on nothing but the snapshot.
pub(crate) fn snapshot_packages(home: &Depot, digest: &Digest) -> io::Result<Vec<Parts>> {
    let manifest = Manifest::read(home, digest).map_err(io::Error::other)?;
    let mut blobs: Vec<(Digest, u64)> = manifest
        .entries
        .into_iter()
        .filter_map(|entry| match entry.kind {
            Kind::File { blob, size, .. } => Some((blob, size)),
            Kind::Folder | Kind::Link { .. } => None,
        })
        .collect();
    blobs.sort();
    blobs.dedup();
    let first = Parts { name: name("code", &digest.0), content: Content::Manifest(digest.clone()) };
    Ok(std::iter::once(first).chain(groups(blobs).into_iter().map(of_blobs)).collect())
}

fn groups(blobs: Vec<(Digest, u64)>) -> Vec<Vec<(Digest, u64)>> {
    let (mut groups, mut group, mut size) = (Vec::new(), Vec::new(), 0_u64);
    for (digest, bytes) in blobs {
        let is_end = digest.0.as_bytes().iter().rev().take(1).all(|digit| matches!(digit, b'0' | b'1'));
        if size.saturating_add(bytes) > MOST && !group.is_empty() {
            groups.push(std::mem::take(&mut group));
            size = 0;
        }
        group.push((digest, bytes));
        size = size.saturating_add(bytes);
        if size >= ENOUGH && is_end {
            groups.push(std::mem::take(&mut group));
            size = 0;
        }
    }
    groups.extend(Some(group).filter(|group| !group.is_empty()));
    groups
}

fn of_blobs(blobs: Vec<(Digest, u64)>) -> Parts {
    let mut hasher = blake3::Hasher::new();
    for (digest, _) in &blobs {
        hasher.update(digest.0.as_bytes());
    }
    Parts { name: name("blobs", hasher.finalize().to_hex().as_str()), content: Content::Blobs(blobs) }
}

impl Parts {
    fn size(&self) -> u64 {
        match &self.content {
            Content::Manifest(_) => 0,
            Content::Blobs(blobs) => blobs.iter().map(|(_, size)| size).sum(),
        }
    }

    fn make(&self, home: &Depot) -> io::Result<Vec<u8>> {
        let mut zip = Zip::default();
        match &self.content {
            Content::Manifest(digest) => {
                let text = fs_err::read(home.snapshot(digest))?;
                zip.store(entry::MANIFEST, &zstd::bulk::compress(&text, 3)?);
            }
            Content::Blobs(blobs) => zip.store(entry::BLOBS, &pack(home, blobs)?),
        }
        Ok(zip.finish())
    }
}

/// As they are sent over a pipe.
fn pack(home: &Depot, blobs: &[(Digest, u64)]) -> io::Result<Vec<u8>> {
    let mut packer = Packer::new()?;
    let (mut out, mut block) = (Vec::new(), Vec::with_capacity(BLOCK));
    let mut close = |block: &mut Vec<u8>| -> io::Result<()> {
        if !block.is_empty() {
            let worth = if looks_compressible(block) { Worth::Compressing } else { Worth::SendingAsIs };
            frame::write(&mut out, Tag::Body, &packer.pack(0, block, worth)?)?;
            block.clear();
        }
        Ok(())
    };
    for (name, size) in blobs {
        let digest = *blake3::Hash::from_hex(&name.0).map_err(io::Error::other)?.as_bytes();
        let bytes = fs_err::read(home.blob(name))?;
        if bytes.len() as u64 != *size {
            return Err(io::Error::other(format!("{} is damaged", home.blob(name).display())));
        }
        let pieces = bytes.chunks(BLOCK - RECORD).collect::<Vec<_>>();
        let pieces = if pieces.is_empty() { vec![&[][..]] } else { pieces };
        let mut offset = 0;
        for piece in pieces {
            if block.len() + RECORD + piece.len() > BLOCK {
                close(&mut block)?;
            }
            Record { digest, total: *size, offset, bytes: piece }.append(&mut block);
            offset += piece.len() as u64;
        }
    }
    close(&mut block)?;
    frame::write(&mut out, Tag::End, &[])?;
    Ok(out)
}

/// What is sent with a job besides code, under the name of its entry, and its secrets. These are of no use without the seal,
/// which does not lie in the package.
pub(crate) fn letter_package(
    what: Option<(&str, &impl serde::Serialize)>,
    sealed: Option<Vec<u8>>,
) -> io::Result<(String, Vec<u8>)> {
    let mut zip = Zip::default();
    if let Some((entry, value)) = what {
        zip.store(entry, &zstd::bulk::compress(&serde_json::to_vec(value)?, 3)?);
    }
    if let Some(sealed) = &sealed {
        zip.store(entry::SECRETS, sealed);
    }
    let bytes = zip.finish();
    Ok((name("parcel", blake3::hash(&bytes).to_hex().as_str()), bytes))
}

/// A request to an agent; see [`super::wire`]. Under a name of its own, though others may ask the same: Ray removes a package
/// some time after the job that it was for, whoever has sent it again meanwhile.
pub(super) fn request_package(request: &[u8]) -> (String, Vec<u8>) {
    let mut zip = Zip::default();
    zip.store(entry::REQUEST, request);
    (name("request", &uuid::Uuid::new_v4().simple().to_string()), zip.finish())
}

/// The seal and what it closes; nothing where there are no secrets.
pub(crate) fn seal_secrets(secrets: &Secrets) -> io::Result<Option<(Seal, Vec<u8>)>> {
    let is_some = !secrets.0.is_empty();
    Ok(if is_some { Some(seal(&serde_json::to_vec(secrets)?)) } else { None })
}

fn seal(secrets: &[u8]) -> (Seal, Vec<u8>) {
    let seal = Seal::new([uuid::Uuid::new_v4().into_bytes(), uuid::Uuid::new_v4().into_bytes()].concat());
    let sealed = seal.apply(secrets);
    (seal, sealed)
}

/// Sends what the cluster lacks of the agent and a snapshot that lies in the depot at home.
pub(crate) fn send(
    ray: &Ray,
    agent: &Agent,
    home: &Depot,
    digest: &Digest,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), RayError> {
    send_agent(ray, &agent.path, &agent.hash)?;
    let packages = snapshot_packages(home, digest).map_err(RayError::Package)?;
    let mut missing = Vec::new();
    for package in packages {
        if !ray.has_package(&package.name)? {
            missing.push(package);
        }
    }
    let (mut sent, all) = (0, missing.iter().map(Parts::size).sum());
    for package in missing {
        let bytes = package.make(home).map_err(RayError::Package)?;
        ray.put_package(&package.name, &bytes)?;
        sent += package.size();
        progress(sent, all);
    }
    Ok(())
}

/// The agent is a few megabytes, and the same until yard itself changes.
pub(crate) fn send_agent(ray: &Ray, program: &Path, hash: &str) -> Result<(), RayError> {
    let name = agent_package(hash);
    if ray.has_package(&name)? {
        return Ok(());
    }
    let mut zip = Zip::default();
    let packed = fs_err::File::open(program).and_then(|file| zip.deflate(entry::AGENT, file));
    packed.map_err(RayError::Package)?;
    ray.put_package(&name, &zip.finish())
}

/// As much of a zip archive as Ray needs.
#[derive(Default)]
struct Zip {
    bytes: Vec<u8>,
    directory: Vec<u8>,
    count: u16,
}

const STORED: u16 = 0;
const DEFLATED: u16 = 8;

impl Zip {
    fn store(&mut self, name: &str, content: &[u8]) {
        let mut crc = Crc::new();
        crc.update(content);
        self.add(name, STORED, crc.sum(), content, content.len());
    }

    fn deflate(&mut self, name: &str, mut content: impl Read) -> io::Result<()> {
        let mut crc = Crc::new();
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        let (mut buffer, mut size) = (vec![0; 1 << 17], 0);
        loop {
            let count = content.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            let piece = buffer.get(..count).unwrap_or_default();
            crc.update(piece);
            encoder.write_all(piece)?;
            size += count;
        }
        let packed = encoder.finish()?;
        self.add(name, DEFLATED, crc.sum(), &packed, size);
        Ok(())
    }

    /// Every package is smaller than what 32 bits can count: Ray takes none of more than 100 MB.
    fn add(&mut self, name: &str, method: u16, crc: u32, packed: &[u8], size: usize) {
        let four = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
        let offset = four(self.bytes.len());
        let mut facts = Vec::new();
        facts.extend(20_u16.to_le_bytes());
        facts.extend(0_u16.to_le_bytes());
        facts.extend(method.to_le_bytes());
        // The first day that zip knows: equal contents make equal packages.
        facts.extend([0, 0, 0x21, 0]);
        facts.extend(crc.to_le_bytes());
        facts.extend(four(packed.len()));
        facts.extend(four(size));
        facts.extend(u16::try_from(name.len()).unwrap_or(0).to_le_bytes());
        facts.extend([0, 0]);
        self.bytes.extend(b"PK\x03\x04");
        self.bytes.extend(&facts);
        self.bytes.extend(name.as_bytes());
        self.bytes.extend(packed);
        self.directory.extend(b"PK\x01\x02\x14\x03");
        self.directory.extend(&facts);
        self.directory.extend([0; 6]);
        self.directory.extend((0o100_644_u32 << 16).to_le_bytes());
        self.directory.extend(offset);
        self.directory.extend(name.as_bytes());
        self.count += 1;
    }

    fn finish(mut self) -> Vec<u8> {
        let start = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        let length = u32::try_from(self.directory.len()).unwrap_or(u32::MAX);
        self.bytes.append(&mut self.directory);
        self.bytes.extend(b"PK\x05\x06\0\0\0\0");
        self.bytes.extend(self.count.to_le_bytes());
        self.bytes.extend(self.count.to_le_bytes());
        self.bytes.extend(length.to_le_bytes());
        self.bytes.extend(start.to_le_bytes());
        self.bytes.extend([0, 0]);
        self.bytes
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn blob(number: u32, size: u64) -> (Digest, u64) {
        (Digest(blake3::hash(&number.to_le_bytes()).to_hex().to_string()), size)
    }

    #[test]
    fn a_small_change_leaves_most_groups() {
        let mut blobs: Vec<_> = (0..2000).map(|number| blob(number, 100_000)).collect();
        blobs.sort();
        let names = |blobs: &[(Digest, u64)]| {
            groups(blobs.to_vec()).into_iter().map(|group| of_blobs(group).name).collect::<Vec<_>>()
        };
        let before = names(&blobs);
        assert!(before.len() > 5, "{}", before.len());
        blobs[1000] = blob(9999, 100_000);
        blobs.sort();
        let after = names(&blobs);
        let new = after.iter().filter(|name| !before.contains(name)).count();
        assert!(new <= 3, "{new} of {}", after.len());
        let largest = groups(blobs).iter().map(|group| group.iter().map(|(_, size)| size).sum::<u64>()).max();
        assert!(largest.unwrap() <= MOST);
    }

    #[test]
    fn python_reads_our_archives() {
        let mut zip = Zip::default();
        zip.store("stored", b"as it is");
        zip.deflate("deflated", &b"again and again and again"[..]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zip");
        std::fs::write(&path, zip.finish()).unwrap();
        let script = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; print([z.read(n) for n in z.namelist()])";
        let output = std::process::Command::new("python3").args(["-c", script]).arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(said.trim(), "[b'as it is', b'again and again and again']", "{output:?}");
    }

    #[test]
    fn what_is_sealed_shows_nothing() {
        let (seal, sealed) = seal(b"hunter2");
        assert_ne!(sealed, b"hunter2");
        assert_eq!(seal.apply(&sealed), b"hunter2");
    }
}
