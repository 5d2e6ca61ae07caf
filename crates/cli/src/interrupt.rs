//! Ctrl-C as a number to look at: commands that wait decide themselves what it means.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Exit;

static COUNT: AtomicU32 = AtomicU32::new(0);
/// Who look at it.
static LOOKING: AtomicU32 = AtomicU32::new(0);
static STARTED: Once = Once::new();

/// From here on Ctrl-C is counted instead of ending the program. If that cannot be set up, it ends it as usual.
pub(crate) fn count() {
    LOOKING.fetch_add(1, Ordering::SeqCst);
    STARTED.call_once(|| {
        std::thread::spawn(listen);
    });
}

/// The same while `work` is done, which looks itself. What came too late for it is there to be taken afterwards.
pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> T {
    count();
    let done = work();
    LOOKING.fetch_sub(1, Ordering::SeqCst);
    done
}

/// How often since the last look.
pub(crate) fn take() -> u32 {
    COUNT.swap(0, Ordering::SeqCst)
}

fn listen() {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
    runtime.block_on(async {
        while tokio::signal::ctrl_c().await.is_ok() {
            if LOOKING.load(Ordering::SeqCst) == 0 {
                end();
            }
            COUNT.fetch_add(1, Ordering::SeqCst);
        }
    });
}

#[expect(clippy::exit, reason = "the signal would have ended the program here, had nobody ever looked")]
fn end() -> ! {
    std::process::exit(i32::from(Exit::Interrupted.code()))
}
