//! Waiting for a condition, with a limit; never for a length of time.

use std::time::{Duration, Instant};

/// Generous: machines here are slow and busy, and a condition that holds is not waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// Asks until there is an answer.
///
/// # Panics
/// When there is none within two minutes; `what` tells what was waited for.
pub fn eventually<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, what, ask)
}

/// # Panics
/// When there is no answer in time.
pub fn within<T>(limit: Duration, what: &str, ask: impl FnMut() -> Option<T>) -> T {
    patiently(limit, ask).unwrap_or_else(|| panic!("waited {limit:?} in vain for {what}"))
}

/// None when there is no answer in time.
pub fn patiently<T>(limit: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + limit;
    loop {
        let answer = ask();
        if answer.is_some() || Instant::now() >= until {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
