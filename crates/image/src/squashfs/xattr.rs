//! Extended attributes: each set of them once, and inodes name the set by number.

use crate::entry::Xattrs;
use crate::squashfs::codec::Compressor;
use crate::squashfs::metadata::Metadata;

/// Their number in the table for each prefix; what has another is not stored.
const PREFIXES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

/// The table as it will stand in the output from `start` on, and where in the output its head is.
pub(crate) fn table(sets: &[Xattrs], start: u64, compressor: &mut Compressor) -> Option<(Vec<u8>, u64)> {
    if sets.is_empty() {
        return None;
    }
    let mut values = Metadata::new(compressor);
    let mut list = Vec::new();
    for set in sets {
        let reference = values.reference().number();
        let mut size = 0;
        for (name, value) in set {
            let bytes = encoded(name, value);
            size += bytes.len();
            values.write(&bytes);
        }
        list.extend(reference.to_le_bytes());
        list.extend(number(set.len()).to_le_bytes());
        list.extend(number(size).to_le_bytes());
    }
    let (mut bytes, _) = values.finish();
    let mut ids = Metadata::new(compressor);
    ids.write(&list);
    let (list, starts) = ids.finish();
    let list_start = start + bytes.len() as u64;
    bytes.extend(list);
    let head = start + bytes.len() as u64;
    bytes.extend(start.to_le_bytes());
    bytes.extend(number(sets.len()).to_le_bytes());
    bytes.extend([0; 4]);
    starts.iter().for_each(|block| bytes.extend((list_start + block).to_le_bytes()));
    Some((bytes, head))
}

fn encoded(name: &[u8], value: &[u8]) -> Vec<u8> {
    let found = PREFIXES.iter().position(|prefix| name.starts_with(prefix)).unwrap_or_default();
    let rest = name.strip_prefix(PREFIXES[found]).unwrap_or(name);
    let mut bytes = Vec::new();
    bytes.extend(u16::try_from(found).unwrap_or_default().to_le_bytes());
    bytes.extend(u16::try_from(rest.len()).unwrap_or_default().to_le_bytes());
    bytes.extend(rest);
    bytes.extend(number(value.len()).to_le_bytes());
    bytes.extend(value);
    bytes
}

fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
