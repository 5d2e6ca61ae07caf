//! The manifest of a snapshot: which file has which content. Immutable, named by its own hash.

use std::path::{Component, Path};

use serde::{Deserialize, Serialize};
use trainyard_core::id::Digest;

use crate::depot::Depot;

/// Entries sorted by path.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Manifest {
    pub entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Relative, as bytes of the file name in Latin-1 form when it is not UTF-8; see [`encode`].
    pub path: String,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Folder,
    File { blob: Digest, size: u64, mode: u32 },
    Link { to: String },
}

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("cannot read snapshot {digest}")]
    Unreadable { digest: Digest, source: std::io::Error },
    #[error("snapshot {digest} is damaged")]
    Damaged { digest: Digest },
    #[error("snapshot names `{path}`, which leads out of the folder")]
    Escapes { path: String },
}

impl Manifest {
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub fn digest(&self) -> Digest {
        Digest(blake3::hash(&self.bytes()).to_hex().to_string())
    }

    /// Checked against its name, so that a damaged or foreign manifest is never acted on.
    pub fn read(depot: &Depot, digest: &Digest) -> Result<Self, SnapshotError> {
        let bytes = fs_err::read(depot.snapshot(digest))
            .map_err(|source| SnapshotError::Unreadable { digest: digest.clone(), source })?;
        Self::parse(&bytes, digest)
    }

    /// Its text if it is there as it was put there; whoever put it there has read it.
    pub fn text(depot: &Depot, digest: &Digest) -> Option<Vec<u8>> {
        let bytes = std::fs::read(depot.snapshot(digest)).ok()?;
        (blake3::hash(&bytes).to_hex().as_str() == digest.0).then_some(bytes)
    }

    /// The same check for bytes that came from elsewhere.
    pub fn parse(bytes: &[u8], digest: &Digest) -> Result<Self, SnapshotError> {
        let damaged = || SnapshotError::Damaged { digest: digest.clone() };
        if blake3::hash(bytes).to_hex().as_str() != digest.0 {
            return Err(damaged());
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(|_| damaged())?;
        for entry in &manifest.entries {
            if !stays_inside(&decode(&entry.path)) {
                return Err(SnapshotError::Escapes { path: entry.path.clone() });
            }
        }
        Ok(manifest)
    }
}

fn stays_inside(path: &Path) -> bool {
    path.components().count() > 0 && path.components().all(|part| matches!(part, Component::Normal(_)))
}

/// JSON holds text, file names are bytes: a byte that is not UTF-8 becomes U+F700 plus its value. A letter of that
/// range in a name is taken apart into such bytes too, so every name comes back as it was.
pub fn encode(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    if let Some(text) = path.to_str().filter(|text| !text.contains(is_byte)) {
        return text.to_owned();
    }
    let byte = |byte: u8| char::from_u32(0xF700 + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER);
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                letter if is_byte(letter) => text.extend(letter.encode_utf8(&mut [0; 4]).bytes().map(byte)),
                letter => text.push(letter),
            }
        }
        text.extend(chunk.invalid().iter().copied().map(byte));
    }
    text
}

fn is_byte(letter: char) -> bool {
    matches!(letter, '\u{F700}'..='\u{F7FF}')
}

pub fn decode(text: &str) -> std::path::PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = Vec::with_capacity(text.len());
    for letter in text.chars() {
        match u32::from(letter).checked_sub(0xF700).and_then(|byte| u8::try_from(byte).ok()) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend(letter.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn odd_names_survive() {
        for name in [&b"plain"[..], b"\xff\xfe", "grün/ß".as_bytes(), b"a\nb", b"a\xc3", "\u{F7E4}".as_bytes()] {
            let path = Path::new(std::ffi::OsStr::from_bytes(name));
            assert_eq!(decode(&encode(path)), path);
        }
    }

    #[test]
    fn paths_that_lead_out_are_refused() {
        for path in ["/etc/passwd", "../x", "a/../../x", "", "."] {
            assert!(!stays_inside(Path::new(path)), "{path}");
        }
        assert!(stays_inside(Path::new("a/b")));
    }
}
