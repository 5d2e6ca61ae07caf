//! The entries of a layer in little memory, until all layers are known.

use std::collections::HashMap;

use crate::entry::{Device, Entry, Kind, Meta, Xattrs};

#[derive(Default)]
pub(crate) struct List {
    bytes: Vec<u8>,
    xattrs: Vec<Xattrs>,
    known: HashMap<Xattrs, u32>,
}

/// Beside names: kind, size or device, mode, owners, time, attributes, lengths.
const FIXED: usize = 1 + 8 + 2 + 4 * 4 + 2 * 4;

impl List {
    /// What an entry needs.
    pub(crate) fn cost(entry: &Entry) -> usize {
        let xattrs: usize = entry.meta.xattrs.iter().map(|(name, value)| name.len() + value.len() + 64).sum();
        FIXED + entry.path.len() + link(&entry.kind).len() + xattrs
    }

    pub(crate) fn push(&mut self, entry: &Entry) {
        let (tag, value) = match &entry.kind {
            Kind::File(size) => (0, *size),
            Kind::Folder => (1, 0),
            Kind::Symlink(_) => (2, 0),
            Kind::Hardlink(_) => (3, 0),
            Kind::Block(device) => (4, packed(*device)),
            Kind::Char(device) => (5, packed(*device)),
            Kind::Fifo => (6, 0),
            Kind::Socket => (7, 0),
        };
        let Meta { mode, uid, gid, mtime, xattrs } = &entry.meta;
        let (link, out) = (link(&entry.kind), &mut self.bytes);
        out.push(tag);
        out.extend(value.to_le_bytes());
        out.extend(mode.to_le_bytes());
        let next = u32::try_from(self.xattrs.len()).unwrap_or(u32::MAX);
        let set = if self.known.contains_key(xattrs) {
            self.known[xattrs]
        } else {
            self.xattrs.push(xattrs.clone());
            self.known.insert(xattrs.clone(), next);
            next
        };
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        for word in [*uid, *gid, *mtime, set, length(&entry.path), length(link)] {
            out.extend(word.to_le_bytes());
        }
        out.extend(&entry.path);
        out.extend(link);
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> {
        let mut at = 0;
        std::iter::from_fn(move || self.entry(&mut at))
    }

    pub(crate) fn into_entries(self) -> impl Iterator<Item = Entry> {
        let mut at = 0;
        std::iter::from_fn(move || self.entry(&mut at))
    }

    fn entry(&self, at: &mut usize) -> Option<Entry> {
        let mut rest = Rest { bytes: self.bytes.get(*at..)?, taken: 0 };
        let (tag, value) = (rest.take::<1>()?[0], u64::from_le_bytes(*rest.take()?));
        let mode = u16::from_le_bytes(*rest.take()?);
        let mut word = || rest.take().map(|bytes| u32::from_le_bytes(*bytes));
        let (uid, gid, mtime, set) = (word()?, word()?, word()?, word()?);
        let (path, link) = (word()?, word()?);
        let path = rest.slice(path as usize)?.to_vec();
        let link = rest.slice(link as usize)?.to_vec();
        *at += rest.taken;
        let kind = match tag {
            0 => Kind::File(value),
            1 => Kind::Folder,
            2 => Kind::Symlink(link),
            3 => Kind::Hardlink(link),
            4 => Kind::Block(unpacked(value)),
            5 => Kind::Char(unpacked(value)),
            6 => Kind::Fifo,
            _ => Kind::Socket,
        };
        let xattrs = self.xattrs.get(set as usize)?.clone();
        Some(Entry { path, kind, meta: Meta { mode, uid, gid, mtime, xattrs } })
    }
}

fn link(kind: &Kind) -> &[u8] {
    match kind {
        Kind::Symlink(target) | Kind::Hardlink(target) => target,
        _ => &[],
    }
}

fn packed(device: Device) -> u64 {
    u64::from(device.major) << 32 | u64::from(device.minor)
}

fn unpacked(value: u64) -> Device {
    let half = |value: u64| u32::try_from(value & 0xffff_ffff).unwrap_or_default();
    Device { major: half(value >> 32), minor: half(value) }
}

struct Rest<'a> {
    bytes: &'a [u8],
    taken: usize,
}

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        self.slice(N)?.try_into().ok()
    }

    fn slice(&mut self, length: usize) -> Option<&'a [u8]> {
        let part = self.bytes.get(self.taken..self.taken + length)?;
        self.taken += length;
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        let meta = Meta { mode: 0o4755, uid: 1, gid: 2, mtime: 3, xattrs: vec![(b"user.a".to_vec(), b"b".to_vec())] };
        let device = Device { major: 259, minor: 70_000 };
        let kinds = [
            Kind::File(1 << 40),
            Kind::Folder,
            Kind::Symlink(b"to".to_vec()),
            Kind::Hardlink(b"other".to_vec()),
            Kind::Block(device),
            Kind::Char(device),
            Kind::Fifo,
            Kind::Socket,
        ];
        let entries: Vec<Entry> =
            kinds.into_iter().map(|kind| Entry { path: b"a/b".to_vec(), kind, meta: meta.clone() }).collect();
        let mut list = List::default();
        entries.iter().for_each(|entry| list.push(entry));
        assert_eq!(list.entries().collect::<Vec<_>>(), entries);
        assert!(list.bytes.len() <= entries.iter().map(List::cost).sum());
    }
}
