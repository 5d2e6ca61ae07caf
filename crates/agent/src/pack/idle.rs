//! Packs of which little is needed any more.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use trainyard_core::id::Digest;

use super::read::{Packs, all};
use crate::depot::Depot;
use crate::disk::{Durability, replace};

/// A pack that can go. What is needed of it gets files of its own first.
#[derive(Debug)]
pub struct Idle {
    path: PathBuf,
    needed: BTreeSet<Digest>,
    /// On the disk, in the end.
    pub freed: u64,
}

/// Packs that are needed for less than half of what they hold.
pub fn idle(depot: &Depot, needed: &BTreeSet<Digest>) -> Vec<Idle> {
    all(depot)
        .into_iter()
        .filter_map(|pack| {
            let (mut rest, mut left, mut held) = (BTreeSet::new(), 0, 0);
            for (name, _) in &pack.names {
                let digest = Digest(blake3::Hash::from_bytes(name.digest).to_hex().to_string());
                held += u64::from(name.size);
                if needed.contains(&digest) {
                    left += u64::from(name.size);
                    rest.insert(digest);
                }
            }
            let freed = length(&pack.path) + length(&index(&pack.path));
            let is_idle = rest.is_empty() || left < held / 2;
            is_idle.then(|| Idle { path: pack.path, needed: rest, freed: freed.saturating_sub(left) })
        })
        .collect()
}

impl Idle {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its files in the order in which they go, if nothing of it is needed. Without its index a pack is nothing; the other way
    /// round it would be a promise.
    pub fn files(&self) -> Vec<PathBuf> {
        if self.needed.is_empty() { vec![index(&self.path), self.path.clone()] } else { Vec::new() }
    }

    /// Whoever looks on the way finds each content in the pack or in a file of its own.
    pub fn remove(&self, depot: &Depot) -> io::Result<()> {
        let packs = Packs::of(&self.path);
        for place in self.needed.iter().filter_map(|digest| packs.place(digest)).collect::<BTreeSet<_>>() {
            packs.open(
                place,
                |digest, bytes| if self.needed.contains(&digest) { keep(depot, &digest, bytes) } else { Ok(()) },
            )?;
        }
        for path in [index(&self.path), self.path.clone()] {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

fn keep(depot: &Depot, digest: &Digest, bytes: &[u8]) -> io::Result<()> {
    let path = depot.blob(digest);
    fs_err::create_dir_all(path.parent().unwrap_or(&path))?;
    replace(&path, bytes, Durability::Synced)?;
    fs_err::set_permissions(path, Permissions::from_mode(0o444))
}

fn index(pack: &Path) -> PathBuf {
    pack.with_extension("index")
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |data| data.len())
}
