//! What was compressed before: an index beside each finished image says where in it the compressed form of which block lies.
//!
//! The next conversion copies those blocks instead of compressing them again, and whoever sends images finds in the same index
//! what the other side has already.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Reading, Result};
use crate::fingerprint::{KEPT, Print, Prints};

const MAGIC: &[u8; 8] = b"YARDIDX2";
/// Of one block in the file: fingerprint and hash, offset, length, and whether it is compressed.
const RECORD: usize = 32 + 32 + 8 + 4 + 4;
/// No image has more blocks; a damaged index is not to fill the memory.
const MOST_BYTES: u64 = 1 << 30;

/// Of any squashfs.
const LARGEST_BLOCK: usize = 1 << 20;

/// A stored block's place in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// Before it was compressed.
    pub(crate) plain: Print,
    /// BLAKE3 of what is stored.
    pub(crate) stored: [u8; 32],
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) is_packed: bool,
}

/// Where the index of an image is.
pub fn index_path(image: &Path) -> PathBuf {
    let mut name = image.as_os_str().to_owned();
    name.push(".index");
    name.into()
}

/// Blocks of earlier images, by what they are before compression.
#[derive(Debug)]
pub(crate) struct Reuse {
    prints: Prints,
    known: HashMap<Print, Place>,
}

#[derive(Debug, Clone)]
struct Place {
    file: Arc<File>,
    stretch: Stretch,
}

impl Reuse {
    /// From earlier images. One that is gone, damaged or compressed in another way helps nobody, and hurts nobody. The first one's
    /// key is taken on, so that in the end all images of a folder have the same.
    pub(crate) fn new(images: &[PathBuf], codec: &str) -> io::Result<Self> {
        let (mut known, mut prints) = (HashMap::new(), None);
        for image in images {
            let Ok(index) = Index::read(image) else { continue };
            let Ok(file) = File::open(image) else { continue };
            let file = Arc::new(file);
            if index.codec == codec && *prints.get_or_insert(index.prints) == index.prints {
                let place = |stretch: Stretch| (stretch.plain, Place { file: Arc::clone(&file), stretch });
                known.extend(index.stretches.into_iter().map(place));
            }
        }
        let prints = prints.map_or_else(Prints::new, Ok)?;
        Ok(Self { prints, known })
    }

    /// What takes the fingerprints that are found here.
    pub(crate) fn prints(&self) -> &Prints {
        &self.prints
    }

    /// Puts a block's stored bytes at the beginning of `room`, if an earlier image has it, and has it still.
    pub(crate) fn find(&self, plain: &Print, room: &mut [u8]) -> Option<Stretch> {
        let Place { file, stretch } = self.known.get(plain)?;
        let bytes = room.get_mut(..stretch.length as usize)?;
        file.read_exact_at(bytes, stretch.offset).ok()?;
        (*blake3::hash(bytes).as_bytes() == stretch.stored).then_some(*stretch)
    }
}

/// What lies beside a finished image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) codec: String,
    pub(crate) prints: Prints,
    pub(crate) stretches: Vec<Stretch>,
}

impl Index {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(u8::try_from(self.codec.len()).unwrap_or_default());
        bytes.extend(self.codec.as_bytes());
        bytes.extend(self.prints.keep());
        for stretch in &self.stretches {
            bytes.extend(stretch.plain);
            bytes.extend(stretch.stored);
            bytes.extend(stretch.offset.to_le_bytes());
            bytes.extend(stretch.length.to_le_bytes());
            bytes.extend(u32::from(stretch.is_packed).to_le_bytes());
        }
        let hash = blake3::hash(&bytes);
        bytes.extend(hash.as_bytes());
        bytes
    }

    /// The index of `image`.
    pub(crate) fn read(image: &Path) -> Result<Self> {
        let path = index_path(image);
        let what = || path.display().to_string();
        let mut bytes = Vec::new();
        File::open(&path).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes)).reading(what)?;
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "it is no index, or a damaged one");
        Self::decode(&bytes).ok_or_else(damaged).reading(what)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, hash) = bytes.split_last_chunk::<32>()?;
        if blake3::hash(body).as_bytes() != hash {
            return None;
        }
        let (length, rest) = body.strip_prefix(MAGIC)?.split_first()?;
        let (codec, rest) = rest.split_at_checked(usize::from(*length))?;
        let (prints, records) = rest.split_first_chunk::<KEPT>()?;
        let codec = String::from_utf8(codec.to_vec()).ok()?;
        let stretches: Option<Vec<Stretch>> = records.chunks(RECORD).map(record).collect();
        Some(Self { codec, prints: Prints::read(prints), stretches: stretches? })
    }
}

fn record(bytes: &[u8]) -> Option<Stretch> {
    let (plain, rest) = bytes.split_first_chunk::<32>()?;
    let (stored, rest) = rest.split_first_chunk::<32>()?;
    let (offset, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let is_packed = rest.first()? == &1;
    let (offset, length) = (u64::from_le_bytes(*offset), u32::from_le_bytes(*length));
    let fits = length as usize <= LARGEST_BLOCK;
    fits.then_some(Stretch { plain: *plain, stored: *stored, offset, length, is_packed })
}
