//! Contents of the depot become files in a folder: out of packs, or out of files of their own.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use fs_err::os::unix::fs::OpenOptionsExt;
use trainyard_core::id::Digest;

use crate::crew::{hands, share};
use crate::depot::Depot;
use crate::pack::{self, MANY, Packs, Place};
use crate::snapshot::{Entry, Kind, Manifest, decode};

#[derive(Debug, thiserror::Error)]
pub(crate) enum LayError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the depot has lost blob {blob}, the content of `{path}`; submit again to put it there anew")]
    Missing { blob: Digest, path: String },
    #[error("the content of `{path}` is damaged in the depot; remove {} and submit again", file.display())]
    Damaged { path: String, file: PathBuf },
}

/// Below this a second thread costs more than it brings.
const WORTH_A_THREAD: usize = 64;
/// Into an empty folder. Every content is checked against its name on the way.
pub(crate) fn lay(depot: &Depot, manifest: &Manifest, into: &Path) -> Result<(), LayError> {
    let shelf = Shelf::new(depot);
    let mut files = Vec::new();
    // Entries are sorted, so a folder comes before what is in it.
    for entry in &manifest.entries {
        match &entry.kind {
            Kind::Folder => fs_err::create_dir(into.join(decode(&entry.path)))?,
            Kind::Link { .. } | Kind::File { .. } => files.push(entry),
        }
    }
    let (packed, single) = shelf.sort(files);
    share(&packed, hands(packed.len()), |block| shelf.lay_block(block, into))?;
    share(&single, hands(single.len() / WORTH_A_THREAD), |entry| shelf.lay_one(entry, into))?;
    Ok(())
}

/// Where contents come from: files of their own, or packs, which are looked at when they are needed.
pub(crate) struct Shelf<'a> {
    depot: &'a Depot,
    packs: OnceLock<Packs>,
}

/// What one block of a pack holds, and the files that want it.
struct FromBlock<'a> {
    place: Place,
    files: BTreeMap<&'a Digest, Vec<&'a Entry>>,
}

impl<'a> Shelf<'a> {
    pub(crate) fn new(depot: &'a Depot) -> Self {
        Self { depot, packs: OnceLock::new() }
    }

    fn packs(&self) -> &Packs {
        self.packs.get_or_init(|| Packs::read(self.depot))
    }

    /// What is in packs, block by block, and the rest. A few files are looked for one by one.
    fn sort<'b>(&self, files: Vec<&'b Entry>) -> (Vec<FromBlock<'b>>, Vec<&'b Entry>) {
        if files.len() < MANY || self.packs().is_empty() {
            return (Vec::new(), files);
        }
        let mut blocks: BTreeMap<Place, BTreeMap<&Digest, Vec<&Entry>>> = BTreeMap::new();
        let mut single = Vec::new();
        for entry in files {
            match &entry.kind {
                Kind::File { blob, .. } if let Some(place) = self.packs().place(blob) => {
                    blocks.entry(place).or_default().entry(blob).or_default().push(entry);
                }
                _ => single.push(entry),
            }
        }
        (blocks.into_iter().map(|(place, files)| FromBlock { place, files }).collect(), single)
    }

    fn lay_block(&self, block: &FromBlock<'_>, into: &Path) -> Result<(), LayError> {
        let mut left = block.files.clone();
        let opened = self.packs().open(block.place, |digest, bytes| {
            for entry in left.remove(&digest).into_iter().flatten() {
                create(entry, into)?.write_all(bytes)?;
            }
            Ok::<_, LayError>(())
        });
        match opened {
            // Somebody who cleaned up has taken the pack apart since we looked, or it is damaged: then one by one, which also
            // tells the file.
            Err(LayError::Io(error)) if tells_of_the_pack(&error) => {}
            opened => opened?,
        }
        left.into_values().flatten().try_for_each(|entry| self.lay_one(entry, into))
    }

    /// One entry, whose folder is there.
    pub(crate) fn lay_one(&self, entry: &Entry, into: &Path) -> Result<(), LayError> {
        match &entry.kind {
            Kind::Folder => Ok(fs_err::create_dir(into.join(decode(&entry.path)))?),
            Kind::Link { to } => Ok(fs_err::os::unix::fs::symlink(decode(to), into.join(decode(&entry.path)))?),
            Kind::File { blob, size, .. } => match fs_err::File::open(self.depot.blob(blob)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.lay_packed(entry, blob, into),
                from => {
                    let hash = copy(from?, create(entry, into)?, *size)?;
                    let damaged = || damaged(entry, &self.depot.blob(blob));
                    if hash.to_hex().as_str() == blob.0 { Ok(()) } else { Err(damaged()) }
                }
            },
        }
    }

    fn lay_packed(&self, entry: &Entry, blob: &Digest, into: &Path) -> Result<(), LayError> {
        let missing = || LayError::Missing { blob: blob.clone(), path: entry.path.clone() };
        let pack = self.packs().place(blob).map(|place| self.packs().path(place)).filter(|pack| pack.exists());
        match pack::content(self.depot, self.packs(), blob) {
            Some(bytes) => Ok(create(entry, into)?.write_all(&bytes)?),
            None => Err(pack.map_or_else(missing, |pack| damaged(entry, pack))),
        }
    }
}

fn tells_of_the_pack(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

fn create(entry: &Entry, into: &Path) -> io::Result<fs_err::File> {
    let mode = if let Kind::File { mode, .. } = entry.kind { mode } else { 0 };
    fs_err::OpenOptions::new().write(true).create_new(true).mode(mode | 0o200).open(into.join(decode(&entry.path)))
}

fn damaged(entry: &Entry, file: &Path) -> LayError {
    LayError::Damaged { path: entry.path.clone(), file: file.to_owned() }
}

const BUFFER: usize = 1 << 16;

/// Shares the blocks where the file system can, and reads them all the same.
fn copy(mut from: fs_err::File, mut to: fs_err::File, size: u64) -> io::Result<blake3::Hash> {
    let shared = size > 0 && rustix::fs::ioctl_ficlone(to.file(), from.file()).is_ok();
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; usize::try_from(size).unwrap_or(BUFFER).clamp(1, BUFFER)];
    loop {
        let count = from.read(&mut buffer)?;
        let bytes = buffer.get(..count).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(hasher.finalize());
        }
        hasher.update(bytes);
        if !shared {
            to.write_all(bytes)?;
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::pack::tests::{digest, pack, texts};

    /// The first 40 in packs, five in files of their own, and the first of all twice.
    fn depot(root: &Path) -> (Depot, Manifest) {
        let depot = Depot::new(root);
        let all = texts(0, 45);
        pack(&depot, &all[..20]);
        pack(&depot, &all[20..40]);
        for text in &all[40..] {
            let path = depot.blob(&digest(text));
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
        let mut manifest = Manifest { entries: vec![Entry { path: "sub".to_owned(), kind: Kind::Folder }] };
        for (number, text) in all.iter().chain([&all[0]]).enumerate() {
            let kind = Kind::File { blob: digest(text), size: text.len() as u64, mode: 0o755 };
            manifest.entries.push(Entry { path: format!("sub/f{number:02}"), kind });
        }
        (depot, manifest)
    }

    #[test]
    fn files_come_out_of_packs_and_out_of_files() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let (depot, manifest) = depot(root.path());
        let into = tempfile::tempdir().unwrap();
        lay(&depot, &manifest, into.path()).unwrap();
        for number in 0..45 {
            let path = into.path().join(format!("sub/f{number:02}"));
            assert_eq!(fs_err::read_to_string(&path).unwrap(), format!("content {number}"));
            assert_eq!(fs_err::metadata(path).unwrap().permissions().mode() & 0o777, 0o755);
        }
        assert_eq!(fs_err::read_to_string(into.path().join("sub/f45")).unwrap(), "content 0");
        // One alone is found too.
        Shelf::new(&depot)
            .lay_one(&Entry { path: "one".to_owned(), ..manifest.entries[8].clone() }, into.path())
            .unwrap();
        assert_eq!(fs_err::read_to_string(into.path().join("one")).unwrap(), "content 7");
    }

    #[test]
    fn a_pack_that_is_damaged_is_named_and_one_that_is_gone_is_missing() {
        let root = tempfile::tempdir().unwrap();
        let (depot, manifest) = depot(root.path());
        let packs = Packs::read(&depot);
        let path = packs.path(packs.place(&digest("content 3")).unwrap()).to_owned();
        let mut bytes = fs_err::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs_err::remove_file(&path).unwrap();
        fs_err::write(&path, bytes).unwrap();
        let into = tempfile::tempdir().unwrap();
        let error = lay(&depot, &manifest, into.path()).unwrap_err();
        assert!(matches!(&error, LayError::Damaged { file, .. } if *file == path), "{error}");
        fs_err::remove_file(&path).unwrap();
        let into = tempfile::tempdir().unwrap();
        let error = lay(&depot, &manifest, into.path()).unwrap_err();
        assert!(matches!(&error, LayError::Missing { .. }), "{error}");
    }

    #[test]
    fn a_pack_that_was_taken_apart_since_it_was_looked_at_leaves_files() {
        let root = tempfile::tempdir().unwrap();
        let (depot, manifest) = depot(root.path());
        let shelf = Shelf::new(&depot);
        let files = manifest.entries.iter().filter(|entry| entry.kind != Kind::Folder).collect();
        let (blocks, _) = shelf.sort(files);
        let needed = ["content 0", "content 1"].map(digest).into();
        for idle in pack::idle(&depot, &needed) {
            idle.remove(&depot).unwrap();
        }
        let into = tempfile::tempdir().unwrap();
        fs_err::create_dir(into.path().join("sub")).unwrap();
        let mut block = blocks.into_iter().find(|block| block.files.contains_key(&digest("content 0"))).unwrap();
        block.files.retain(|digest, _| needed.contains(*digest));
        shelf.lay_block(&block, into.path()).unwrap();
        assert_eq!(fs_err::read_to_string(into.path().join("sub/f01")).unwrap(), "content 1");
    }
}
