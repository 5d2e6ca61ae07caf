//! The yardmaster: one background process per user that places runs, hears what becomes of them and remembers it.
//!
//! Started on demand, leaves when idle, safe to kill at any time: what runs goes on without it, and the next one
//! finds it again. All sources (agents, commands, timers) become events in one loop; `decide` answers; the ledger
//! gets event and state in one transaction; only then are effects carried out.

mod call;
mod effects;
mod keep;
mod lock;
mod mirror;
mod remote;
mod serve;
mod sites;
mod socket;
mod sweeps;

pub use call::{CallError, Caller, Start};
pub use lock::{Lock, LockError};
pub use serve::{Settings, YardmasterError, serve};
