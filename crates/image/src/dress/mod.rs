//! What a runtime wants to find in an image beside the image's own files. It is laid over the tree as one more layer.

pub(crate) mod apptainer;
pub(crate) mod enroot;

use crate::entry::{Entries, Entry, Kind, Meta, Piece};
use crate::error::Result;
use crate::tree::{Origin, Tree};

/// Entries with their contents, as the highest layer.
#[derive(Default)]
pub(crate) struct Dress {
    pub(crate) entries: Vec<(Entry, Vec<u8>)>,
}

impl Dress {
    pub(crate) fn folder(&mut self, path: &str) {
        self.add(path, Kind::Folder, Meta::plain(0o755), Vec::new());
    }

    pub(crate) fn file(&mut self, path: &str, mode: u16, text: impl Into<Vec<u8>>) {
        let text = text.into();
        self.add(path, Kind::File(text.len() as u64), Meta::plain(mode), text);
    }

    pub(crate) fn link(&mut self, path: &str, target: &str) {
        self.add(path, Kind::Symlink(target.as_bytes().to_vec()), Meta::plain(0o777), Vec::new());
    }

    pub(crate) fn add(&mut self, path: &str, kind: Kind, meta: Meta, contents: Vec<u8>) {
        self.entries.push((Entry { path: path.as_bytes().to_vec(), kind, meta }, contents));
    }

    /// As contents of an entry.
    pub(crate) fn contents<'a>(&self, bytes: &'a [u8]) -> Given<'a> {
        Given(bytes)
    }

    /// Lays it over the tree.
    pub(crate) fn put_on(&self, tree: &mut Tree, layer: u32) -> Result<()> {
        for (number, (entry, _)) in self.entries.iter().enumerate() {
            let origin = Origin { layer, entry: u32::try_from(number).unwrap_or(u32::MAX) };
            tree.apply("what the runtime needs", origin, entry.clone())?;
        }
        Ok(())
    }
}

/// Contents that we have made.
pub(crate) struct Given<'a>(&'a [u8]);

impl Entries for Given<'_> {
    fn next(&mut self) -> Result<Option<Entry>> {
        Ok(None)
    }

    fn piece(&mut self) -> Result<Option<Piece>> {
        Ok((!self.0.is_empty()).then_some(Piece::Data(self.0.len() as u64)))
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<()> {
        let (now, later) = self.0.split_at(buffer.len());
        buffer.copy_from_slice(now);
        self.0 = later;
        Ok(())
    }
}

/// A word for the shell, whatever is in it. Apptainer's built-in shell (of 1.4.5) does not understand the shorter `'\''`.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r#"'"'"'"#))
}

pub(crate) fn quoted_words(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Whether a shell can have a variable of that name.
pub(crate) fn is_variable(name: &str) -> bool {
    let mut letters = name.bytes();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
}
