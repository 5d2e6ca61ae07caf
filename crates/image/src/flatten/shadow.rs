//! What the layers above hide of those below, as far as names alone can tell.
//!
//! Names are kept as hashes. Two that meet hide a file that should be seen; it is found missing afterwards and read again.

use std::collections::HashMap;

use crate::entry::{Entry, Kind};
use crate::tree::{Whiteout, components};

/// It and what is below it come from above, or are gone.
const TAKEN: u8 = 1;
/// What is below it comes from above.
const OPAQUE: u8 = 2;
/// It is a folder above.
const FOLDER: u8 = 4;

#[derive(Default)]
pub(crate) struct Shadow {
    marks: HashMap<u64, u8>,
}

impl Shadow {
    /// Takes in a layer, when it is complete: no layer hides anything of its own.
    pub(crate) fn add(&mut self, entries: impl Iterator<Item = Entry>) {
        for entry in entries {
            let Ok(parts) = components(&entry.path) else { continue };
            let Some((name, folders)) = parts.split_last() else { continue };
            let folder = folders.iter().fold(ROOT, |hash, part| below(hash, part));
            match Whiteout::of(name) {
                Some(Whiteout::Name(name)) => self.mark(below(folder, name), TAKEN),
                Some(Whiteout::Opaque) => self.mark(folder, OPAQUE),
                Some(Whiteout::Ignored) => {}
                None if entry.kind == Kind::Folder => self.mark(below(folder, name), FOLDER),
                None => self.mark(below(folder, name), TAKEN),
            }
        }
    }

    fn mark(&mut self, hash: u64, mark: u8) {
        *self.marks.entry(hash).or_default() |= mark;
    }

    /// Whether a file of a lower layer cannot be seen.
    pub(crate) fn hides(&self, parts: &[&[u8]]) -> bool {
        if self.marks.is_empty() {
            return false;
        }
        let mut hash = ROOT;
        let has = |hash: u64, marks: u8| self.marks.get(&hash).is_some_and(|found| found & marks != 0);
        for part in parts {
            if has(hash, TAKEN | OPAQUE) {
                return true;
            }
            hash = below(hash, part);
        }
        has(hash, TAKEN | FOLDER)
    }
}

/// FNV-1a, from part to part.
const ROOT: u64 = 0xcbf2_9ce4_8422_2325;

fn below(hash: u64, part: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    part.iter().chain(b"/").fold(hash, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Meta;

    #[test]
    fn names_hide_what_is_below() {
        let entry = |path: &str, kind: Kind| Entry { path: path.as_bytes().to_vec(), kind, meta: Meta::plain(0) };
        let mut shadow = Shadow::default();
        let layer = [
            entry("a/file", Kind::File(0)),
            entry("b/.wh.gone", Kind::File(0)),
            entry("c/.wh..wh..opq", Kind::File(0)),
            entry("d", Kind::Folder),
        ];
        shadow.add(layer.into_iter());
        let hides = |path: &str| shadow.hides(&components(path.as_bytes()).unwrap_or_default());
        for path in ["a/file", "a/file/below", "b/gone", "b/gone/x", "c/x", "c/x/y", "d"] {
            assert!(hides(path), "{path}");
        }
        for path in ["a/other", "b/x", "c", "d/x", "e"] {
            assert!(!hides(path), "{path}");
        }
    }
}
