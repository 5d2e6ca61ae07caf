//! The points of one scalar in columns: 20 bytes each, or 24 where single precision does not hold the values.
//!
//! Points are kept in blocks of 1,024 that are never moved once full, so that appending to a long series copies
//! nothing. Only the last block has spare room: for 127 points at most, or for three in a hundred of a long series.

use std::iter;

const BLOCK: usize = 1024;
const SPARE: usize = 128;
/// From this many blocks on a whole new one is little against what is there.
const LONG: usize = 32;

/// One value and when it was had.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub step: i64,
    /// Seconds since 1970.
    pub wall_time: f64,
    pub value: f64,
}

/// All points of a scalar, in the order they were written.
#[derive(Debug, Clone, Default)]
pub struct Series {
    full: Vec<Block>,
    open: Block,
    dropped: u64,
}

impl Series {
    pub fn len(&self) -> usize {
        self.full.len() * BLOCK + self.open.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub fn push(&mut self, point: Point) {
        if self.open.len() == BLOCK {
            self.open_block();
        }
        self.open.push(point);
    }

    #[cold]
    fn open_block(&mut self) {
        let is_long = self.full.len() >= LONG;
        let next = if is_long { Block::with_room() } else { Block::default() };
        self.full.push(std::mem::replace(&mut self.open, next));
    }

    pub fn get(&self, index: usize) -> Option<Point> {
        self.full.get(index / BLOCK).unwrap_or(&self.open).get(index % BLOCK).filter(|_| index < self.len())
    }

    pub fn last(&self) -> Option<Point> {
        self.len().checked_sub(1).and_then(|index| self.get(index))
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Point> {
        self.iter_from(0)
    }

    /// What came after the first `index` points.
    pub fn iter_from(&self, index: usize) -> impl DoubleEndedIterator<Item = Point> {
        (index..self.len()).filter_map(|index| self.get(index))
    }

    /// The columns, 1,024 points at a time.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.full.iter().chain(iter::once(&self.open)).filter(|block| block.len() > 0)
    }

    /// How many points a restart made void so far. Whoever remembers an index remembers this too, and starts anew
    /// when it changed.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Memory held, in bytes.
    pub fn memory(&self) -> usize {
        let blocks = self.full.iter().chain(iter::once(&self.open));
        let headers = self.full.capacity() * size_of::<Block>();
        headers + blocks.map(Block::memory).sum::<usize>()
    }

    /// Drops every point at `step` or later, wherever it stands.
    pub(crate) fn drop_from(&mut self, step: i64) {
        let before = self.len();
        if self.blocks().all(|block| block.steps.iter().all(|at| *at < step)) {
            return;
        }
        let mut kept = Self::default();
        self.iter().filter(|point| point.step < step).for_each(|point| kept.push(point));
        kept.dropped = self.dropped + (before - kept.len()) as u64;
        *self = kept;
    }

    /// Drops points off the end until the last one is before `step`.
    #[inline]
    pub(crate) fn drop_back_to(&mut self, step: i64) {
        while self.open.steps.last().is_some_and(|last| *last >= step) {
            self.open.pop();
            self.dropped += 1;
            if self.open.len() == 0
                && let Some(block) = self.full.pop()
            {
                self.open = block;
            }
        }
    }
}

/// A part of a series, in columns.
#[derive(Debug, Clone, Default)]
pub struct Block {
    steps: Vec<i64>,
    wall_times: Vec<f64>,
    values: Values,
}

/// The values of a block. They are of double precision only if one of them needs it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Column<'a> {
    Single(&'a [f32]),
    Double(&'a [f64]),
}

#[derive(Debug, Clone)]
enum Values {
    Single(Vec<f32>),
    Double(Vec<f64>),
}

impl Default for Values {
    fn default() -> Self {
        Self::Single(Vec::new())
    }
}

impl Block {
    #[expect(clippy::len_without_is_empty, reason = "an empty block is never handed out")]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    pub fn steps(&self) -> &[i64] {
        &self.steps
    }

    pub fn wall_times(&self) -> &[f64] {
        &self.wall_times
    }

    pub fn values(&self) -> Column<'_> {
        match &self.values {
            Values::Single(values) => Column::Single(values),
            Values::Double(values) => Column::Double(values),
        }
    }

    pub fn value(&self, index: usize) -> Option<f64> {
        match &self.values {
            Values::Single(values) => values.get(index).map(|value| f64::from(*value)),
            Values::Double(values) => values.get(index).copied(),
        }
    }

    fn get(&self, index: usize) -> Option<Point> {
        let (step, wall_time) = (*self.steps.get(index)?, *self.wall_times.get(index)?);
        Some(Point { step, wall_time, value: self.value(index)? })
    }

    #[inline]
    fn push(&mut self, point: Point) {
        append(&mut self.steps, point.step);
        append(&mut self.wall_times, point.wall_time);
        self.values.push(point.value);
    }

    fn with_room() -> Self {
        let (steps, wall_times) = (Vec::with_capacity(BLOCK), Vec::with_capacity(BLOCK));
        Self { steps, wall_times, values: Values::Single(Vec::with_capacity(BLOCK)) }
    }

    fn pop(&mut self) {
        self.steps.pop();
        self.wall_times.pop();
        match &mut self.values {
            Values::Single(values) => drop(values.pop()),
            Values::Double(values) => drop(values.pop()),
        }
    }

    fn memory(&self) -> usize {
        let values = match &self.values {
            Values::Single(values) => values.capacity() * size_of::<f32>(),
            Values::Double(values) => values.capacity() * size_of::<f64>(),
        };
        self.steps.capacity() * size_of::<i64>() + self.wall_times.capacity() * size_of::<f64>() + values
    }
}

impl Values {
    #[inline]
    fn push(&mut self, value: f64) {
        let single = value as f32;
        match self {
            Self::Single(values) if f64::from(single) == value || value.is_nan() => append(values, single),
            Self::Double(values) => append(values, value),
            Self::Single(_) => self.push_first_double(value),
        }
    }

    #[cold]
    fn push_first_double(&mut self, value: f64) {
        if let Self::Single(values) = self {
            *self = Self::Double(values.iter().map(|single| f64::from(*single)).collect());
        }
        if let Self::Double(values) = self {
            append(values, value);
        }
    }
}

/// Doubles a short column and lengthens a long one by [`SPARE`]; `Vec` alone would leave half of it unused.
#[inline]
fn append<T>(column: &mut Vec<T>, value: T) {
    if column.len() == column.capacity() {
        column.reserve_exact(column.len().clamp(4, SPARE));
    }
    column.push(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(step: i64, value: f64) -> Point {
        Point { step, wall_time: step as f64 / 3.0, value }
    }

    #[test]
    fn points_come_back_in_order() {
        let points: Vec<_> = (0..5_000).map(|step| point(step, step as f64 * 0.1)).collect();
        let mut series = Series::default();
        points.iter().for_each(|point| series.push(*point));
        assert_eq!(series.len(), points.len());
        assert_eq!(series.iter().collect::<Vec<_>>(), points);
        assert_eq!(series.iter_from(4_990).collect::<Vec<_>>(), points[4_990..]);
        assert_eq!(series.last(), points.last().copied());
        assert_eq!(series.get(5_000), None);
        assert_eq!(series.blocks().map(Block::len).sum::<usize>(), points.len());
    }

    #[test]
    fn a_block_becomes_double_when_it_must() {
        let mut series = Series::default();
        for value in [0.5, f64::NAN, 0.1, f64::INFINITY, 1e300] {
            series.push(point(0, value));
        }
        let values: Vec<_> = series.iter().map(|point| point.value).collect();
        assert!(values[1].is_nan());
        let columns: Vec<_> = series.blocks().map(Block::values).collect();
        assert!(matches!(columns[..], [Column::Double(column)] if column.len() == 5), "{columns:?}");
        assert_eq!((values[0], values[2], values[3], values[4]), (0.5, 0.1, f64::INFINITY, 1e300));
    }

    #[test]
    fn twenty_five_bytes_a_point() {
        for (value, count) in [(0.5, 600), (0.5, 1_025), (0.5, 34_817), (0.1, 4_097), (0.1, 34_817), (0.1, 1_000_001)] {
            let mut series = Series::default();
            (0..count).for_each(|step| series.push(point(step, value)));
            let each = series.memory() as f64 / series.len() as f64;
            assert!(each <= 25.0, "{count} points of {value}: {each} bytes each");
        }
    }

    #[test]
    fn both_ways_to_drop() {
        let mut series = Series::default();
        for step in [0, 1, 5, 2, 3] {
            series.push(point(step, 0.0));
        }
        let mut back = series.clone();
        series.drop_from(3);
        assert_eq!(series.iter().map(|point| point.step).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(series.dropped(), 2);
        back.drop_back_to(3);
        assert_eq!(back.iter().map(|point| point.step).collect::<Vec<_>>(), [0, 1, 5, 2]);
        let mut long = Series::default();
        (0..3_000).for_each(|step| long.push(point(step, 0.0)));
        long.drop_back_to(10);
        assert_eq!((long.len(), long.last().map(|point| point.step)), (10, Some(9)));
        long.push(point(10, 0.0));
        assert_eq!(long.len(), 11);
    }
}
