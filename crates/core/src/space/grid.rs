//! All configurations of a space, each once.

use crate::value::Params;

use super::{Point, Space};

/// Counts through the cells of all axes, the last axis fastest. An inactive axis does not count.
#[derive(Debug, Clone)]
pub struct Grid<'a> {
    space: &'a Space,
    counts: Vec<u64>,
    /// `None` when all are through.
    next: Option<Vec<u64>>,
}

/// So many in a row that break a constraint, and the rest is taken to break it too.
const PATIENCE: u32 = 1_000_000;

impl Space {
    /// All configurations that keep the constraints; axes that cannot be counted give `levels` values each.
    pub fn grid(&self, levels: u64) -> Grid<'_> {
        let counts: Vec<u64> = self.axes().map(|(_, axis)| axis.count().unwrap_or(levels.max(1))).collect();
        let next = Some(vec![0; counts.len()]);
        Grid { space: self, counts, next }
    }
}

impl Grid<'_> {
    fn point(&self, cells: &[u64]) -> Point {
        let axes = self.space.axes().zip(&self.counts).zip(cells);
        axes.map(|(((_, axis), count), cell)| match axis.count() {
            Some(_) => axis.encode(&axis.value(*cell)).unwrap_or(0.5),
            // From end to end: the bounds are values worth trying.
            None if *count > 1 => *cell as f64 / (count - 1) as f64,
            None => 0.5,
        })
        .collect()
    }

    /// The next cells, leaving alone axes that `point` says are not active.
    fn advance(&self, mut cells: Vec<u64>, point: &[f64]) -> Option<Vec<u64>> {
        for ((cell, count), at) in cells.iter_mut().zip(&self.counts).zip(point).rev() {
            if *cell + 1 < *count && !at.is_nan() {
                *cell += 1;
                return Some(cells);
            }
            *cell = 0;
        }
        None
    }
}

impl Iterator for Grid<'_> {
    type Item = Params;

    fn next(&mut self) -> Option<Params> {
        for _ in 0..PATIENCE {
            let cells = self.next.take()?;
            let mut point = self.point(&cells);
            let settled = self.space.settle(&mut point);
            // Where a constraint failed the point was left as it was, and all axes count.
            if settled.is_err() {
                let mut active = point.clone();
                self.space.settle_anyway(&mut active);
                point = active;
            }
            self.next = self.advance(cells, &point);
            if let Ok(params) = settled {
                return Some(params);
            }
        }
        self.next = None;
        None
    }
}
