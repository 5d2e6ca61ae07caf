//! One file into the depot, named by its content.

use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use trainyard_agent::depot::Depot;
use trainyard_core::id::Digest;

use super::SnapshotError;

/// A file that grows while it is read is read again this often.
const TRIES: usize = 3;

/// The content as it was read, even if the file changes under our hands.
pub(super) fn put(path: &Path, depot: &Depot) -> Result<(Digest, u64), SnapshotError> {
    let failed = |source| SnapshotError::Write { depot: depot.root().to_owned(), source };
    for _ in 0..TRIES {
        let (digest, size) = hash(path).map_err(SnapshotError::Read)?;
        let blob = depot.blob(&digest);
        // A blob of another length is one that a power cut left short.
        if fs_err::metadata(&blob).is_ok_and(|data| data.len() == size) {
            return Ok((digest, size));
        }
        let folder = blob.parent().unwrap_or(depot.root());
        fs_err::create_dir_all(folder).map_err(failed)?;
        let beside = folder.join(format!("{}.{}.tmp", digest.0, std::process::id()));
        let copied = copy(path, &beside).map_err(failed)?;
        if copied == digest {
            fs_err::rename(&beside, &blob).map_err(failed)?;
            return Ok((digest, size));
        }
        fs_err::remove_file(&beside).map_err(failed)?;
    }
    let changing = io::Error::other(format!("{} keeps changing while it is read", path.display()));
    Err(SnapshotError::Read(changing))
}

fn hash(path: &Path) -> io::Result<(Digest, u64)> {
    let mut file = fs_err::File::open(path)?;
    let mut hasher = blake3::Hasher::new();
    let size = io::copy(&mut file, &mut hasher)?;
    Ok((Digest(hasher.finalize().to_hex().to_string()), size))
}

fn copy(from: &Path, to: &Path) -> io::Result<Digest> {
    let mut source = fs_err::File::open(from)?;
    let mut sink = fs_err::File::create(to)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 17];
    loop {
        let count = source.read(&mut buffer)?;
        let bytes = buffer.get(..count).unwrap_or_default();
        if bytes.is_empty() {
            break;
        }
        hasher.update(bytes);
        sink.write_all(bytes)?;
    }
    sink.set_permissions(std::fs::Permissions::from_mode(0o444))?;
    Ok(Digest(hasher.finalize().to_hex().to_string()))
}
