//! Work done ahead of its use, on all cores, in order, and never further ahead than a fixed number of pieces.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};

struct State<T> {
    /// The next piece to be worked on, and the next to be used.
    next: usize,
    used: usize,
    done: BTreeMap<usize, T>,
    stopped: bool,
}

/// Calls `work` for every piece on several threads and `consume` with the results, in order, on this one. Stops at the
/// first error of `consume`.
pub(super) fn in_order<P: Sync, T: Send, E>(
    pieces: &[P],
    ahead: usize,
    work: impl Fn(&P) -> T + Sync,
    mut consume: impl FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    let state = Mutex::new(State { next: 0, used: 0, done: BTreeMap::new(), stopped: false });
    let changed = Condvar::new();
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let produce = || loop {
        let mut now = lock();
        while now.next >= now.used + ahead && !now.stopped {
            now = changed.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
        let index = now.next;
        let Some(piece) = pieces.get(index).filter(|_| !now.stopped) else { return };
        now.next += 1;
        drop(now);
        let result = work(piece);
        lock().done.insert(index, result);
        changed.notify_all();
    };
    std::thread::scope(|scope| {
        for _ in 0..cores.clamp(1, 8).min(pieces.len()) {
            scope.spawn(produce);
        }
        let mut used = || {
            for index in 0..pieces.len() {
                let mut now = lock();
                let result = loop {
                    match now.done.remove(&index) {
                        Some(result) => break result,
                        None => now = changed.wait(now).unwrap_or_else(PoisonError::into_inner),
                    }
                };
                now.used = index + 1;
                drop(now);
                changed.notify_all();
                consume(result)?;
            }
            Ok(())
        };
        let result = used();
        lock().stopped = true;
        changed.notify_all();
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_an_error_stops() {
        let pieces: Vec<u32> = (0..500).collect();
        let mut seen = Vec::new();
        let done: Result<(), ()> = in_order(
            &pieces,
            7,
            |piece| piece * 2,
            |twice| {
                seen.push(twice);
                Ok(())
            },
        );
        assert_eq!((done, seen), (Ok(()), (0..500).map(|piece| piece * 2).collect()));
        let mut count = 0;
        let stopped = in_order(
            &pieces,
            7,
            |piece| *piece,
            |piece| {
                count += 1;
                if piece == 20 { Err("no") } else { Ok(()) }
            },
        );
        assert_eq!((stopped, count), (Err("no"), 21));
    }
}
