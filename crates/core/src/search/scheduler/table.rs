//! Losses in their order. Kept sorted, so that a rank is a search and not a sort.

use std::cmp::Ordering;

/// A loss with a place among others: what is not finite is the worst, and there is one zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Loss(f64);

impl Loss {
    pub(super) fn new(loss: f64) -> Self {
        Self(if loss.is_finite() { loss + 0.0 } else { f64::INFINITY })
    }

    pub(super) fn is_known(self) -> bool {
        self.0.is_finite()
    }

    pub(super) fn get(self) -> f64 {
        self.0
    }
}

impl Eq for Loss {}

impl PartialOrd for Loss {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Loss {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Trials by loss, the best first; equal ones by their number.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    rows: Vec<(Loss, u32)>,
}

impl Table {
    pub(super) fn insert(&mut self, loss: Loss, trial: u32) {
        let at = self.rank(loss, trial);
        self.rows.insert(at, (loss, trial));
    }

    pub(super) fn remove(&mut self, loss: Loss, trial: u32) {
        if let Ok(at) = self.rows.binary_search(&(loss, trial)) {
            self.rows.remove(at);
        }
    }

    /// How many come before it, whether it is there or not.
    pub(super) fn rank(&self, loss: Loss, trial: u32) -> usize {
        self.rows.partition_point(|row| *row < (loss, trial))
    }

    /// How many are truly better.
    pub(super) fn better_than(&self, loss: Loss) -> usize {
        self.rows.partition_point(|row| row.0 < loss)
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn rows(&self) -> &[(Loss, u32)] {
        &self.rows
    }

    pub(super) fn median(&self) -> Option<f64> {
        let upper = self.rows.get(self.rows.len() / 2)?.0;
        let lower = self.rows.get(self.rows.len().saturating_sub(1) / 2)?.0;
        Some(if lower == upper { lower.0 } else { lower.0 / 2.0 + upper.0 / 2.0 })
    }

    /// Standard deviation of those that are finite.
    pub(super) fn spread(&self) -> f64 {
        // The others come last.
        let finite = self.rows.get(..self.better_than(Loss(f64::INFINITY))).unwrap_or_default();
        let count = finite.len().max(1) as f64;
        let mean = finite.iter().map(|row| row.0.0).sum::<f64>() / count;
        (finite.iter().map(|row| (row.0.0 - mean).powi(2)).sum::<f64>() / count).sqrt()
    }
}
