//! Extended headers: `LENGTH KEY=VALUE` records that overrule the header after them.

/// The records of one extended header, or of all global ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pax {
    records: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Pax {
    /// Nothing where the bytes are no records.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut records = Vec::new();
        let mut rest = bytes;
        // Some writers fill up with zeros.
        while !rest.is_empty() && rest[0] != 0 {
            let space = rest.iter().position(|byte| *byte == b' ')?;
            let length: usize = std::str::from_utf8(&rest[..space]).ok()?.parse().ok()?;
            let record = rest.get(space + 1..length)?.strip_suffix(b"\n")?;
            let equals = record.iter().position(|byte| *byte == b'=')?;
            records.push((record[..equals].to_vec(), record[equals + 1..].to_vec()));
            rest = &rest[length..];
        }
        Some(Self { records })
    }

    /// What a global header may say about all entries that follow: nothing about one alone.
    pub(crate) fn global(mut self) -> Self {
        self.records.retain(|(key, _)| matches!(key.as_slice(), b"uid" | b"gid" | b"mtime"));
        self
    }

    /// The last record of that name counts; an empty one takes it back.
    pub(crate) fn get(&self, key: &str) -> Option<&[u8]> {
        let found = self.records.iter().rev().find(|(name, _)| name == key.as_bytes());
        found.map(|(_, value)| value.as_slice()).filter(|value| !value.is_empty())
    }

    pub(crate) fn number(&self, key: &str) -> Option<Option<u64>> {
        self.get(key).map(|value| std::str::from_utf8(value).ok()?.parse().ok())
    }

    /// Whole seconds of a time with a fraction.
    pub(crate) fn seconds(&self, key: &str) -> Option<Option<i64>> {
        let value = self.get(key)?;
        let whole = value.split(|byte| *byte == b'.').next().unwrap_or_default();
        Some(std::str::from_utf8(whole).ok().and_then(|text| text.parse().ok()))
    }

    /// Sorted, one of each name. An empty record takes an attribute back; so no attribute is empty, as in Go's reader.
    pub(crate) fn xattrs(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = std::collections::BTreeMap::new();
        for (key, value) in &self.records {
            let Some(name) = key.strip_prefix(b"SCHILY.xattr.") else { continue };
            if value.is_empty() {
                found.remove(name);
            } else {
                found.insert(name.to_vec(), value.clone());
            }
        }
        found.into_iter().collect()
    }

    /// Every record of these two names in turn, as GNU's format 0.0 writes them.
    pub(crate) fn pairs(&self, first: &str, second: &str) -> Option<Vec<(u64, u64)>> {
        let of = |key: &str| -> Option<Vec<u64>> {
            let values = self.records.iter().filter(|(name, _)| name == key.as_bytes());
            values.map(|(_, value)| std::str::from_utf8(value).ok()?.parse().ok()).collect()
        };
        let (firsts, seconds) = (of(first)?, of(second)?);
        (firsts.len() == seconds.len()).then(|| firsts.into_iter().zip(seconds).collect())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn records_are_taken_apart() {
        let pax = Pax::parse(b"12 path=a/\n\n27 SCHILY.xattr.user.a=\0=1\n13 mtime=5.5\n").unwrap();
        assert_eq!(pax.get("path"), Some(b"a/\n".as_slice()));
        assert_eq!(pax.xattrs(), [(b"user.a".to_vec(), b"\0=1".to_vec())]);
        assert_eq!(pax.seconds("mtime"), Some(Some(5)));
    }

    #[test]
    fn nonsense_is_nothing() {
        for bytes in [&b"0 a=b\n"[..], b"99 a=b\n", b"a=b\n", b"6 a=bc", b"18446744073709551616 a=b\n", b"4 ab\n"] {
            assert!(Pax::parse(bytes).is_none(), "{bytes:?}");
        }
    }
}
