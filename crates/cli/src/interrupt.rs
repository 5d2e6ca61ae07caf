//! Ctrl-C as a number to look at: commands that wait decide themselves what it means.

use std::sync::atomic::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// From here on Ctrl-C is counted instead of ending the program. If that cannot be set up, it ends it as usual.
pub(crate) fn count() {
    std::thread::spawn(|| {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                COUNT.fetch_add(1, Ordering::SeqCst);
            }
        });
    });
}

/// How often since the last look.
pub(crate) fn take() -> u32 {
    COUNT.swap(0, Ordering::SeqCst)
}
