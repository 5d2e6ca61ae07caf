//! Whoever gave the allocation that an agent works in.

use std::io;

use crate::order::Lease;

/// Speaks to one scheduler from inside one of its allocations.
pub(crate) trait Lessor {
    fn lease(&self) -> Lease;
    /// Whether the SIGTERM that has just come means that somebody asked to stop the runs.
    fn is_told_to_stop(&self) -> bool {
        false
    }
    /// GPUs of this allocation, by the names programs know them under; `None` where the scheduler does not say.
    fn devices(&self) -> Option<Vec<String>>;
    /// Before anything of the allocation's runs is executed: sees to it that they go on if this machine dies.
    fn begin(&mut self) -> io::Result<()>;
    /// There is more to do than fits into this allocation. It may end while this is called.
    fn go_on(&mut self) -> io::Result<()>;
    /// Nothing is left to do: takes back what still waits for its turn.
    fn finish(&mut self) -> io::Result<()>;
}
