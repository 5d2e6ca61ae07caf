//! Packs: many small files' contents in one file of the depot, as they came over the wire.
//!
//! A file for each content costs a site more than all the rest of an upload, and people's quotas count files. So blocks
//! that hold many contents are kept as they are, compressed, and what is in them is written down beside them:
//!
//! ```text
//! packs/<name>.pack    blocks, one after the other; see [`crate::block`]
//! packs/<name>.index   for each block: where it is, and the names and sizes of what it holds
//! ```
//!
//! Both only ever grow, the pack first, by one process; whoever reads sees what is complete. A process that is killed or a
//! disk that is full leaves an end that nobody reads. What is read is checked against its name, as any content is.

use crate::block::{BLOCK, Record};

mod idle;
mod index;
mod read;
mod write;

pub use idle::{Idle, idle};
pub(crate) use read::Place;
pub use read::{Packs, content};
pub(crate) use write::Writer;

/// So many contents in a block are worth a pack, or several that fill a part of it. Less gets files of its own, which need no
/// place in an index that everybody reads: a few changed files each day do not make a pack each day.
pub(crate) const MANY: usize = 16;
const FULL: u64 = BLOCK as u64 / 4;

pub(crate) fn is_worth(held: &[Record<'_>]) -> bool {
    let bytes = || held.iter().map(|record| record.total).sum::<u64>();
    held.len() >= MANY || (held.len() > 1 && bytes() >= FULL)
}

#[cfg(test)]
pub(crate) mod tests;
