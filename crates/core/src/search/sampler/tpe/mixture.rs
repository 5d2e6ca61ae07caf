//! A density over configurations: one product kernel per trial, and a wide one for what no trial has shown.

use crate::search::axis::Axis;
use crate::search::space::Point;
use crate::search::{Rng, Space};

use super::super::table::Table;
use super::kernel::Column;

pub(super) struct Mixture {
    table: Table,
    columns: Vec<Column>,
    axes: Vec<Axis>,
    /// Running sum, the last is 1.
    cumulative: Vec<f64>,
    log_weights: Vec<f64>,
    /// Only a countable space can hold a point twice.
    countable: bool,
}

impl Mixture {
    /// One weight per row of the table, and the last for the prior; `narrowing` shrinks the least width of
    /// kernels on continuous axes.
    pub(super) fn new(space: &Space, table: Table, weights: Vec<f64>, narrowing: f64) -> Self {
        let total: f64 = weights.iter().sum();
        let mut sum = 0.0;
        let mut running = |weight: &f64| {
            sum += weight / total;
            sum
        };
        let cumulative = weights.iter().map(&mut running).collect();
        let log_weights = weights.iter().map(|weight| (weight / total).ln()).collect();
        let axes: Vec<Axis> = space.axes().map(|(_, axis)| axis.clone()).collect();
        let columns =
            axes.iter().enumerate().map(|(index, axis)| Column::new(axis, table.column(index), narrowing)).collect();
        let countable = axes.iter().all(|axis| axis.count().is_some());
        Self { table, columns, axes, cumulative, log_weights, countable }
    }

    /// A point of the density; every coordinate is set, active or not.
    pub(super) fn draw(&self, rng: &mut Rng) -> Point {
        let aim = rng.unit();
        let kernel = self.cumulative.partition_point(|sum| *sum <= aim).min(self.log_weights.len() - 1);
        self.columns.iter().map(|column| column.draw(kernel, rng)).collect()
    }

    /// Moves the coordinates to those of the values they stand for.
    pub(super) fn snap(&self, point: &mut Point) {
        for (at, axis) in point.iter_mut().zip(&self.axes) {
            if let Some((low, high)) = axis.cell(*at) {
                *at = 0.5 * (low + high);
            }
        }
    }

    /// Logarithms of the density at each point.
    pub(super) fn log_densities(&self, points: &[Point]) -> Vec<f64> {
        let mut memories = vec![Vec::new(); self.columns.len()];
        let mut logs = Vec::with_capacity(self.log_weights.len());
        let mut log_density = |point: &Point| {
            logs.clear();
            logs.extend_from_slice(&self.log_weights);
            for ((column, memory), at) in self.columns.iter().zip(&mut memories).zip(point) {
                if !at.is_nan() {
                    column.add_log_densities(*at, &mut logs, memory);
                }
            }
            log_sum(&logs)
        };
        points.iter().map(&mut log_density).collect()
    }

    /// Whether one of its trials was at this point.
    pub(super) fn holds(&self, point: &[f64]) -> bool {
        let same = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9 || (a.is_nan() && b.is_nan());
        self.countable && self.table.rows().any(|row| row.iter().zip(point).all(same))
    }
}

fn log_sum(logs: &[f64]) -> f64 {
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // Terms below e^-30 of the largest do not show in the sum; skipping them saves most of the time.
    let terms = logs.iter().map(|log| log - largest).filter(|log| *log > -30.0);
    largest + terms.map(f64::exp).sum::<f64>().ln()
}
