//! The history as numbers: every trial a row of coordinates, ranked from best to worst.

use std::cmp::Ordering;

use crate::search::{Fate, History, Space, Trial};

/// Trials that have ended, and those that have not, by their place in the history.
#[derive(Debug, Default)]
pub(super) struct Ranking {
    /// In the order they were asked for.
    pub(super) ended: Vec<Ended>,
    pub(super) pending: Vec<u32>,
}

/// A trial with a result. Ordered from best to worst.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ended {
    pub(super) place: u32,
    /// Less is better; infinite if it failed.
    pub(super) loss: f64,
    class: Class,
}

/// What ran to its end says more than what was stopped, and among those the longer ran the more it says.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Class {
    Done,
    Stopped { step: i64 },
    Failed,
}

impl Ended {
    #[cfg(test)]
    pub(super) fn with(place: u32, loss: f64) -> Self {
        Self { place, loss, class: Class::Done }
    }

    pub(super) fn done(&self) -> bool {
        self.class == Class::Done
    }

    pub(super) fn failed(&self) -> bool {
        self.class == Class::Failed
    }

    pub(super) fn better(&self, other: &Self) -> Ordering {
        let class = |ended: &Self| match ended.class {
            Class::Done => (0, 0),
            Class::Stopped { step } => (1, -step),
            Class::Failed => (2, 0),
        };
        let by_class = class(self).cmp(&class(other));
        by_class.then(self.loss.total_cmp(&other.loss)).then(self.place.cmp(&other.place))
    }
}

pub(super) fn rank(history: &History<'_>) -> Ranking {
    let mut ranking = Ranking::default();
    for (place, trial) in (0u32..).zip(history.trials).filter(|(_, trial)| trial.fate != Fate::Lost) {
        match ended(history, place, trial) {
            Some(ended) => ranking.ended.push(ended),
            None => ranking.pending.push(place),
        }
    }
    ranking
}

/// `None` if the trial is pending.
pub(super) fn ended(history: &History<'_>, place: u32, trial: &Trial) -> Option<Ended> {
    let (class, loss) = match trial.fate {
        Fate::Pending => return None,
        Fate::Done { value } if value.is_finite() => (Class::Done, history.loss(value)),
        Fate::Stopped { value } if value.is_finite() => {
            (Class::Stopped { step: last_step(trial) }, history.loss(value))
        }
        _ => (Class::Failed, f64::INFINITY),
    };
    Some(Ended { place, loss, class })
}

fn last_step(trial: &Trial) -> i64 {
    // Negated for the order, which the smallest number would not survive.
    trial.reports.last().map_or(0, |report| report.step.max(0))
}

/// Rows of coordinates, one after the other.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) width: usize,
    pub(super) cells: Vec<f64>,
}

impl Table {
    /// The trials at these places; places the history does not have are left out.
    pub(super) fn of(space: &Space, history: &History<'_>, places: impl Iterator<Item = u32>) -> Self {
        let width = space.axes().len();
        let mut cells = Vec::new();
        for trial in places.filter_map(|place| history.trials.get(place as usize)) {
            let start = cells.len();
            cells.resize(start + width, f64::NAN);
            if let Some(row) = cells.get_mut(start..) {
                space.point_into(&trial.params, row);
            }
        }
        Self { width, cells }
    }

    pub(super) fn rows(&self) -> impl ExactSizeIterator<Item = &[f64]> + Clone {
        self.cells.chunks_exact(self.width.max(1))
    }

    pub(super) fn column(&self, index: usize) -> impl Iterator<Item = f64> {
        self.cells.iter().skip(index).step_by(self.width.max(1)).copied()
    }
}
