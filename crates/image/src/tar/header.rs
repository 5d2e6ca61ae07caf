//! The 512 bytes before each entry of a tar.

use crate::entry::Device;

pub(crate) const BLOCK: usize = 512;

/// A header whose checksum is right.
pub(crate) struct Header([u8; BLOCK]);

impl Header {
    /// Nothing where the checksum is wrong.
    pub(crate) fn new(bytes: [u8; BLOCK]) -> Option<Self> {
        let header = Self(bytes);
        let told = header.number(148, 8)?;
        // Its own field counts as blanks. In a form that compilers make quick: there are several headers for each small file.
        let outside = [&bytes[..148], &bytes[156..]];
        let sum = outside.iter().map(|part| i64::from(sum(part))).sum::<i64>() + 8 * 32;
        // Some old programs added the bytes as signed numbers.
        let signed = || {
            let negative = outside.iter().flat_map(|part| part.iter()).filter(|byte| **byte >= 0x80).count();
            sum - 256 * i64::try_from(negative).unwrap_or_default()
        };
        (told == sum || told == signed()).then_some(header)
    }

    pub(crate) fn kind(&self) -> u8 {
        self.0[156]
    }

    /// The name, with the prefix that ustar puts elsewhere.
    pub(crate) fn path(&self) -> Vec<u8> {
        let name = text(&self.0[..100]);
        let is_ustar = &self.0[257..263] == b"ustar\0";
        let prefix = if is_ustar { text(&self.0[345..500]) } else { &[] };
        if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
    }

    pub(crate) fn link(&self) -> Vec<u8> {
        text(&self.0[157..257]).to_vec()
    }

    pub(crate) fn mode(&self) -> Option<i64> {
        self.number(100, 8)
    }

    pub(crate) fn uid(&self) -> Option<i64> {
        self.number(108, 8)
    }

    pub(crate) fn gid(&self) -> Option<i64> {
        self.number(116, 8)
    }

    pub(crate) fn size(&self) -> Option<i64> {
        self.number(124, 12)
    }

    pub(crate) fn mtime(&self) -> Option<i64> {
        self.number(136, 12)
    }

    /// Nothing where the numbers are larger than the kernel's.
    pub(crate) fn device(&self) -> Option<Device> {
        let major = u32::try_from(self.number(329, 8)?).ok()?;
        let minor = u32::try_from(self.number(337, 8)?).ok()?;
        (major < 1 << 12 && minor < 1 << 20).then_some(Device { major, minor })
    }

    /// GNU's old sparse format: four stretches, whether more follow, and the real length.
    pub(crate) fn sparse(&self) -> Option<(Stretches, bool, u64)> {
        let real = u64::try_from(self.number(483, 12)?).ok()?;
        Some((stretches(&self.0[386..482])?, self.0[482] != 0, real))
    }

    fn number(&self, at: usize, length: usize) -> Option<i64> {
        number(&self.0[at..at + length])
    }
}

/// Offset and length of what is data.
pub(crate) type Stretches = Vec<(u64, u64)>;

/// Up to the first empty one.
pub(crate) fn stretches(bytes: &[u8]) -> Option<Stretches> {
    let mut found = Vec::new();
    for pair in bytes.chunks_exact(24) {
        let (offset, length) = pair.split_at(12);
        if offset[0] == 0 {
            break;
        }
        found.push((u64::try_from(number(offset)?).ok()?, u64::try_from(number(length)?).ok()?));
    }
    Some(found)
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().map(|byte| u32::from(*byte)).sum()
}

fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Octal digits, or with the first bit set the number itself, highest byte first.
fn number(field: &[u8]) -> Option<i64> {
    let (first, rest) = field.split_first()?;
    if first & 0x80 == 0 {
        return octal(field);
    }
    let negative = first & 0x40 != 0;
    let start = if negative { i128::from(first | 0x80) - 256 } else { i128::from(first & 0x3f) };
    let mut value = start;
    for byte in rest {
        value = value.checked_mul(256)? + i128::from(*byte);
    }
    i64::try_from(value).ok()
}

fn octal(field: &[u8]) -> Option<i64> {
    let text = field.split(|byte| *byte == 0).next()?.trim_ascii();
    let digits = text.iter().all(|byte| matches!(byte, b'0'..=b'7'));
    if !digits {
        return None;
    }
    Some(text.iter().fold(0, |value, byte| value * 8 + i64::from(byte - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_binary() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"   644 \0"), Some(0o644));
        assert_eq!(number(b"\0\0\0\0\0\0\0\0"), Some(0));
        assert_eq!(number(b"\x80\0\0\0\0\0\x01\0"), Some(256));
        assert_eq!(number(b"\xff\xff\xff\xff\xff\xff\xff\xff"), Some(-1));
        assert_eq!(number(b"\xbf\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), None);
        assert_eq!(number(b"0000649\0"), None);
    }
}
