//! What a caller hears while it waits.

/// How far a conversion is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the layers as they are stored that were read.
    pub done: u64,
    /// Where the source tells it.
    pub total: Option<u64>,
}
