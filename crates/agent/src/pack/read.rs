//! What is in the packs of a depot, and what it says.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use trainyard_core::id::Digest;

use super::index::{Name, groups};
use crate::block::{Unpacker, records};
use crate::depot::Depot;

/// A pack and what it holds.
#[derive(Debug)]
pub(super) struct Pack {
    pub(super) path: PathBuf,
    pub(super) names: Vec<(Name, Block)>,
}

/// Where a block is in its pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Block {
    offset: u64,
    length: u32,
}

impl Pack {
    /// Whatever is wrong with a pack, what can be read of it is true.
    fn read(path: PathBuf) -> Self {
        let end = std::fs::metadata(&path).map_or(0, |data| data.len());
        let index = std::fs::read(path.with_extension("index")).unwrap_or_default();
        let mut names = Vec::new();
        for group in groups(&index) {
            // After a power cut the index may be on the disk and the block not.
            if group.offset.saturating_add(u64::from(group.length)) <= end {
                let block = Block { offset: group.offset, length: group.length };
                names.extend(group.names.into_iter().map(|name| (name, block)));
            }
        }
        Self { path, names }
    }
}

/// All packs of a depot.
pub(super) fn all(depot: &Depot) -> Vec<Pack> {
    let entries = std::fs::read_dir(depot.packs()).into_iter().flatten().flatten();
    let is_pack = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "pack");
    entries.map(|entry| entry.path()).filter(is_pack).map(Pack::read).collect()
}

/// Where a content is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    pack: u32,
    block: Block,
}

/// What is in the packs of a depot, at one moment.
#[derive(Debug, Default)]
pub struct Packs {
    paths: Vec<PathBuf>,
    contents: HashMap<[u8; 32], (Place, u32)>,
}

impl Packs {
    pub fn read(depot: &Depot) -> Self {
        Self::new(all(depot))
    }

    /// Of one pack alone.
    pub(super) fn of(path: &Path) -> Self {
        Self::new(vec![Pack::read(path.to_owned())])
    }

    fn new(all: Vec<Pack>) -> Self {
        let mut packs = Self::default();
        for (number, pack) in (0..).zip(all) {
            let place = |block| Place { pack: number, block };
            packs.contents.extend(pack.names.into_iter().map(|(name, block)| (name.digest, (place(block), name.size))));
            packs.paths.push(pack.path);
        }
        packs
    }

    pub fn is_empty(&self) -> bool {
        self.contents.is_empty()
    }

    /// How many bytes a content has, if it is here.
    pub fn size(&self, digest: &Digest) -> Option<u64> {
        self.find(digest).map(|(_, size)| u64::from(*size))
    }

    pub(crate) fn place(&self, digest: &Digest) -> Option<Place> {
        self.find(digest).map(|(place, _)| *place)
    }

    fn find(&self, digest: &Digest) -> Option<&(Place, u32)> {
        self.contents.get(blake3::Hash::from_hex(&digest.0).ok()?.as_bytes())
    }

    pub(crate) fn path(&self, place: Place) -> &Path {
        self.paths.get(place.pack as usize).map_or(Path::new(""), PathBuf::as_path)
    }

    /// Calls `take` with each content of a block. What it is given is what its name says.
    pub(crate) fn open<E: From<io::Error>>(
        &self,
        place: Place,
        mut take: impl FnMut(Digest, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut packed = vec![0; place.block.length as usize];
        File::open(self.path(place))?.read_exact_at(&mut packed, place.block.offset)?;
        for record in records(Unpacker::new()?.unpack(&packed)?) {
            let record = record?;
            let hash = blake3::hash(record.bytes);
            if *hash.as_bytes() == record.digest {
                take(Digest(hash.to_hex().to_string()), record.bytes)?;
            }
        }
        Ok(())
    }
}

/// A small content, wherever the depot has it; `None` if it has not, or not as it was.
pub fn content(depot: &Depot, packs: &Packs, digest: &Digest) -> Option<Vec<u8>> {
    let is_it = |bytes: &Vec<u8>| blake3::hash(bytes).to_hex().as_str() == digest.0;
    std::fs::read(depot.blob(digest)).ok().filter(is_it).or_else(|| {
        let mut found = None;
        let opened: io::Result<()> = packs.open(packs.place(digest)?, |name, bytes| {
            if name == *digest {
                found = Some(bytes.to_vec());
            }
            Ok(())
        });
        opened.ok().and(found)
    })
}
