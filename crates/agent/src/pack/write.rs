//! Packs that grow.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::index::{Group, Name};
use crate::block::Record;
use crate::depot::Depot;
use crate::disk::unique;

/// The next block goes to another pack: what nobody needs any more goes pack by pack.
const FULL: u64 = 64 << 20;

/// One for each thread; makes a file when it has something to put into it.
pub(crate) struct Writer<'a> {
    depot: &'a Depot,
    open: Option<Open>,
}

struct Open {
    pack: File,
    index: File,
    end: u64,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(depot: &'a Depot) -> Self {
        Self { depot, open: None }
    }

    /// A block as it came, and what of it was found to be what its name says. After this they are there; a failure leaves what
    /// was there.
    pub(crate) fn add(&mut self, packed: &[u8], held: &[Record<'_>]) -> io::Result<()> {
        if self.open.as_ref().is_none_or(|open| open.end >= FULL) {
            self.open = Some(Open::new(self.depot)?);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        let number = |length: usize| u32::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge));
        let name = |record: &Record<'_>| Ok(Name { digest: record.digest, size: number(record.bytes.len())? });
        let (length, names) = (number(packed.len())?, held.iter().map(name).collect::<io::Result<_>>()?);
        open.pack.write_all(packed)?;
        open.index.write_all(&Group { offset: open.end, length, names }.encode())?;
        open.end += u64::from(length);
        Ok(())
    }
}

impl Open {
    fn new(depot: &Depot) -> io::Result<Self> {
        fs_err::create_dir_all(depot.packs())?;
        let pack = depot.packs().join(format!("{}.pack", unique()));
        Ok(Self { index: create(&pack.with_extension("index"))?, pack: create(&pack)?, end: 0 })
    }
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = std::fs::OpenOptions::new();
    let made = options.write(true).create_new(true).mode(0o444).open(path);
    made.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}
