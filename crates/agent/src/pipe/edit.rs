//! A manifest as what differs from an earlier one: ten changed files of ten thousand are ten entries, not ten thousand.
//!
//! Works on the texts. An entry begins where [`BEGIN`] stands: within a JSON string its quotes would be escaped.

use std::cmp::Ordering;
use std::io;

use serde::{Deserialize, Serialize};

use super::store::refused;
use crate::snapshot::Entry;

const BEGIN: &[u8] = br#"{"path":"#;

/// One step from the earlier text to the later one; lengths are in bytes of the earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Edit {
    keep: usize,
    drop: usize,
    /// Whole entries, each with whatever follows it.
    add: String,
}

/// How to make `new` of `old`.
pub fn between(old: &[u8], new: &[u8]) -> Vec<Edit> {
    let (mut old, mut new) = (pieces(old).peekable(), pieces(new).peekable());
    let mut edits: Vec<Edit> = Vec::new();
    while old.peek().is_some() || new.peek().is_some() {
        let order = match (old.peek(), new.peek()) {
            (Some(before), Some(after)) => path(before).cmp(&path(after)),
            (before, _) => {
                if before.is_some() {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        };
        // Both are sorted by path: the lesser one is only in its own.
        let before = old.next_if(|_| order.is_le()).unwrap_or_default();
        let after = new.next_if(|_| order.is_ge()).unwrap_or_default();
        let is_kept = before == after;
        // Within an edit, what is kept comes first.
        if edits.last().is_none_or(|last| is_kept && last.drop + last.add.len() > 0) {
            edits.push(Edit::default());
        }
        let Some(edit) = edits.last_mut() else { continue };
        if is_kept {
            edit.keep += before.len();
        } else {
            edit.drop += before.len();
            edit.add.push_str(str::from_utf8(after).unwrap_or_default());
        }
    }
    edits
}

/// The later text, and the entries of it that the earlier one may not have. Whoever uses it checks it against its name.
pub(super) fn apply(old: &[u8], edits: &[Edit], most: usize) -> io::Result<(Vec<u8>, Vec<Entry>)> {
    let mut new = Vec::with_capacity(old.len().min(most));
    let mut entries = Vec::new();
    let mut rest = old;
    for edit in edits {
        let (kept, after) = rest.split_at_checked(edit.keep).ok_or_else(|| refused("it keeps too much"))?;
        rest = after.get(edit.drop..).ok_or_else(|| refused("it drops too much"))?;
        new.extend(kept);
        new.extend(edit.add.as_bytes());
        if new.len() > most {
            return Err(refused("too large"));
        }
        for piece in pieces(edit.add.as_bytes()) {
            let entry = serde_json::Deserializer::from_slice(piece).into_iter().next();
            // The opening of the list, before its first entry, is none.
            if piece.starts_with(BEGIN) {
                entries.push(entry.ok_or_else(|| refused("an entry is missing"))??);
            }
        }
    }
    Ok((new, entries))
}

/// What is before the first entry, and each entry with the comma or the brackets after it.
fn pieces(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let starts = memchr::memmem::find_iter(text, BEGIN);
    let ends = memchr::memmem::find_iter(text, BEGIN).chain(std::iter::once(text.len()));
    let first = std::iter::once(0);
    first.chain(starts).zip(ends).filter_map(|(start, end)| text.get(start..end)).filter(|piece| !piece.is_empty())
}

/// Up to its closing quote; good for comparing.
fn path(piece: &[u8]) -> Option<&[u8]> {
    let path = piece.strip_prefix(BEGIN)?;
    Some(path.split_at(memchr::memmem::find(path, br#"","kind":"#)?).0)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use trainyard_core::id::Digest;

    use super::*;
    use crate::snapshot::{Kind, Manifest};

    fn manifest(files: &[(&str, &str)]) -> Vec<u8> {
        let entry = |(path, blob): &(&str, &str)| {
            let kind = Kind::File { blob: Digest((*blob).to_owned()), size: 1, mode: 0o644 };
            Entry { path: (*path).to_owned(), kind }
        };
        Manifest { entries: files.iter().map(entry).collect() }.bytes()
    }

    #[test]
    fn any_manifest_is_made_of_any_other() {
        let names = [r#"a{"path":"#, "b", "ü", "c/d", "e\"},{\"path\":\"f"];
        let all: Vec<Vec<u8>> = (0..3_usize.pow(5))
            .map(|mut number| {
                let mut files = Vec::new();
                for name in names {
                    match number % 3 {
                        0 => {}
                        1 => files.push((name, "one")),
                        _ => files.push((name, "two")),
                    }
                    number /= 3;
                }
                files.sort_unstable();
                manifest(&files)
            })
            .collect();
        for (old, new) in all.iter().flat_map(|old| all.iter().step_by(7).map(move |new| (old, new))) {
            let edits = between(old, new);
            let (made, entries) = apply(old, &edits, 1 << 20).unwrap();
            assert_eq!(made, *new, "{edits:?}");
            let added: usize = entries.len();
            assert!(added <= 5, "{edits:?}");
        }
    }

    #[test]
    fn one_changed_file_is_one_edit_that_names_it() {
        let (old, new) =
            (manifest(&[("a", "1"), ("b", "1"), ("c", "1")]), manifest(&[("a", "1"), ("b", "2"), ("c", "1")]));
        let edits = between(&old, &new);
        assert_eq!(edits.len(), 2, "{edits:?}");
        let (_, entries) = apply(&old, &edits, 1 << 20).unwrap();
        assert_eq!(entries.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["b"]);
        assert_eq!(between(&old, &old).len(), 1);
    }

    #[test]
    fn edits_that_do_not_fit_are_refused() {
        let old = manifest(&[("a", "1")]);
        for edit in [
            Edit { keep: 1000, ..Edit::default() },
            Edit { drop: 1000, ..Edit::default() },
            Edit { add: r#"{"path":"x""#.to_owned(), ..Edit::default() },
            Edit { add: "x".repeat(2000), ..Edit::default() },
        ] {
            assert!(apply(&old, std::slice::from_ref(&edit), 1000).is_err(), "{edit:?}");
        }
    }
}
