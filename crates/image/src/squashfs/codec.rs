//! The ways to compress a block.

use serde::{Deserialize, Serialize};

/// A way to compress; the reader must have been built with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// Needs Linux 4.14 (2017) or a squashfuse built with it.
    #[default]
    Zstd,
    /// For every reader there is.
    Gzip,
    /// Nothing is compressed.
    None,
}

/// mksquashfs takes 15 unless it is told another, which is slower than gzip's best.
const ZSTD_LEVEL: i32 = 3;
/// Smaller than zlib's best level, in an eighth of the time.
const GZIP_LEVEL: i32 = 6;

impl Codec {
    /// Its number in the superblock.
    pub(crate) fn number(self) -> u16 {
        match self {
            // Somebody has to be named where nothing is compressed.
            Self::Gzip | Self::None => 1,
            Self::Zstd => 6,
        }
    }

    /// With its level: two outputs compressed the same way have the same word.
    pub(crate) fn word(self) -> String {
        match self {
            Self::Zstd => format!("zstd-{ZSTD_LEVEL}"),
            Self::Gzip => format!("gzip-{GZIP_LEVEL}"),
            Self::None => "none".to_owned(),
        }
    }

    pub(crate) fn compressor(self) -> Compressor {
        let kind = match self {
            Self::Zstd => {
                let made = zstd::bulk::Compressor::new(ZSTD_LEVEL);
                made.map_or(Kind::None, |made| Kind::Zstd(Box::new(made)))
            }
            Self::Gzip => {
                let level = libdeflater::CompressionLvl::new(GZIP_LEVEL).unwrap_or_default();
                Kind::Gzip(Box::new(libdeflater::Compressor::new(level)))
            }
            Self::None => Kind::None,
        };
        Compressor { kind, packed: Vec::new() }
    }
}

/// What compressing so many bytes may need, with whichever codec. With less, it would not always come to the same end.
pub(crate) const fn room(length: usize) -> usize {
    length + length / 64 + 512
}

/// One thread's state of a [`Codec`].
pub(crate) struct Compressor {
    kind: Kind,
    packed: Vec<u8>,
}

enum Kind {
    Zstd(Box<zstd::bulk::Compressor<'static>>),
    Gzip(Box<libdeflater::Compressor>),
    None,
}

impl Compressor {
    /// The compressed bytes, if they are fewer.
    pub(crate) fn compress(&mut self, block: &[u8]) -> Option<&[u8]> {
        let mut packed = std::mem::take(&mut self.packed);
        if packed.len() < room(block.len()) {
            packed.resize(room(block.len()), 0);
        }
        let length = self.compress_into(block, &mut packed);
        self.packed = packed;
        length.map(|length| &self.packed[..length])
    }

    /// The same at the beginning of `packed`, where there must be [`room`] for them; tells their number.
    pub(crate) fn compress_into(&mut self, block: &[u8], packed: &mut [u8]) -> Option<usize> {
        let length = match &mut self.kind {
            Kind::Zstd(zstd) => zstd.compress_to_buffer(block, packed).ok(),
            Kind::Gzip(gzip) => gzip.zlib_compress(block, packed).ok(),
            Kind::None => None,
        };
        length.filter(|length| *length < block.len())
    }
}
