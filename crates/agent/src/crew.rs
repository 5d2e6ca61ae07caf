//! Work that many hands make light: one list, shared among threads, nobody waiting for the slowest.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// More threads than this only get into each other's way on one disk.
const MOST: usize = 8;

/// As many hands as this machine has cores, but no more than there is work for.
pub fn hands(worth: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    worth.clamp(1, cores.min(MOST))
}

/// Does `work` on every item, on this thread and `hands - 1` others; the answers come in the order of the items. After
/// an error nothing new is begun, and that error is returned.
pub fn share<T: Sync, R: Send, E: Send>(
    items: &[T],
    hands: usize,
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    if hands <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::with_capacity(items.len()));
    let failure = Mutex::new(None);
    let hand = || {
        let mut own = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { break };
            match work(item) {
                Ok(answer) => own.push((index, answer)),
                Err(error) => {
                    next.store(items.len(), Ordering::Relaxed);
                    put(&failure, |failure| *failure = Some(error));
                }
            }
        }
        put(&answers, |answers| answers.append(&mut own));
    };
    std::thread::scope(|scope| {
        for _ in 1..hands {
            scope.spawn(hand);
        }
        hand();
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        return Err(error);
    }
    let mut answers = answers.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    answers.sort_unstable_by_key(|(index, _)| *index);
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}

fn put<T>(place: &Mutex<T>, change: impl FnOnce(&mut T)) {
    change(&mut place.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_order_and_an_error_stops_the_rest() {
        let items: Vec<usize> = (0..1000).collect();
        let doubled = share(&items, 4, |item| Ok::<_, ()>(item * 2));
        assert_eq!(doubled, Ok(items.iter().map(|item| item * 2).collect()));
        let begun = AtomicUsize::new(0);
        let failed = share(&items, 4, |item| {
            begun.fetch_add(1, Ordering::Relaxed);
            if *item == 3 {
                Err("three")
            } else {
                std::thread::sleep(std::time::Duration::from_micros(100));
                Ok(())
            }
        });
        assert_eq!(failed, Err("three"));
        assert!(begun.into_inner() < items.len());
    }
}
