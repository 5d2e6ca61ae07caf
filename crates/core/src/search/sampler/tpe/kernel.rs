//! The kernels of one axis: a truncated normal around each trial's coordinate, or for choices without an order
//! a preference for the trial's own. The last kernel is the prior.

use crate::search::Rng;
use crate::search::axis::Axis;
use crate::search::normal::cdf;

pub(super) enum Column {
    Smooth {
        centres: Vec<f64>,
        sharpness: Vec<f64>,
        log_scales: Vec<f64>,
        widths: Vec<f64>,
    },
    /// Values so far apart that a kernel's mass on each must be integrated. Equal kernels share a slot.
    Cells {
        axis: Axis,
        kernels: Vec<Slot>,
        slots: Vec<u32>,
        widths: Vec<f64>,
        centres: Vec<f64>,
    },
    Choice {
        axis: Axis,
        count: f64,
        own: Vec<f64>,
        log_own: f64,
        log_other: f64,
        chance_own: f64,
    },
}

pub(super) struct Slot {
    centre: f64,
    width: f64,
    /// Of the kernel inside the unit interval.
    mass: f64,
    sharpness: f64,
    log_scale: f64,
}

/// Marks a kernel that is uniform: the trial had no value here.
const UNIFORM: f64 = f64::INFINITY;

impl Column {
    pub(super) fn new(axis: &Axis, coordinates: impl Iterator<Item = f64>, narrowing: f64) -> Self {
        let mut centres: Vec<f64> = coordinates.collect();
        if !axis.is_ordered() {
            return Self::choice(axis, centres);
        }
        // Narrower than its cell, a kernel on a countable axis would never leave its own value.
        let narrowing = if axis.count().is_some() { 1.0 } else { narrowing };
        let mut widths = widths(&centres, narrowing);
        centres.push(0.5);
        widths.push(1.0);
        let narrowest = widths.iter().copied().fold(1.0, f64::min);
        // The cells at the low end are the widest, on logarithmic axes too.
        let coarse = axis.cell(0.0).is_some_and(|(low, high)| high - low > narrowest / 4.0);
        if coarse { Self::cells(axis, centres, widths) } else { Self::smooth(centres, widths) }
    }

    fn smooth(centres: Vec<f64>, widths: Vec<f64>) -> Self {
        let sharpness = widths.iter().map(|width| sharpness(*width)).collect();
        let log_scales = centres.iter().zip(&widths).map(|(centre, width)| log_scale(*centre, *width)).collect();
        let centres = centres.into_iter().map(|centre| if centre.is_nan() { 0.5 } else { centre }).collect();
        Self::Smooth { centres, sharpness, log_scales, widths }
    }

    fn cells(axis: &Axis, centres: Vec<f64>, widths: Vec<f64>) -> Self {
        let mut order: Vec<u32> = (0u32..).take(centres.len()).collect();
        let kernel = |index: &u32| {
            let index = *index as usize;
            (centres.get(index).copied().unwrap_or(f64::NAN), widths.get(index).copied().unwrap_or(UNIFORM))
        };
        order.sort_unstable_by(|a, b| {
            let (a, b) = (kernel(a), kernel(b));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        let mut kernels: Vec<Slot> = Vec::new();
        let mut slots = vec![0; centres.len()];
        for index in order {
            let (centre, width) = kernel(&index);
            if kernels.last().is_none_or(|last| (last.centre, last.width) != (centre, width)) {
                kernels.push(Slot::new(centre, width));
            }
            if let Some(slot) = slots.get_mut(index as usize) {
                *slot = kernels.len() as u32 - 1;
            }
        }
        Self::Cells { axis: axis.clone(), kernels, slots, widths, centres }
    }

    fn choice(axis: &Axis, mut own: Vec<f64>) -> Self {
        let count = axis.count().unwrap_or(1) as f64;
        own.push(f64::NAN);
        let spread = 1.0 / own.len() as f64;
        let total = 1.0 + count * spread;
        Self::Choice {
            axis: axis.clone(),
            count,
            own,
            log_own: ((1.0 + spread) / total).ln(),
            log_other: (spread / total).ln(),
            chance_own: 1.0 / total,
        }
    }

    /// A coordinate from the kernel with this index.
    pub(super) fn draw(&self, kernel: usize, rng: &mut Rng) -> f64 {
        match self {
            Self::Smooth { centres, widths, .. } | Self::Cells { centres, widths, .. } => {
                match (centres.get(kernel), widths.get(kernel)) {
                    (Some(centre), Some(width)) if *width != UNIFORM => truncated(*centre, *width, rng),
                    _ => rng.unit(),
                }
            }
            Self::Choice { own, chance_own, .. } => {
                let own = own.get(kernel).copied().filter(|own| !own.is_nan());
                own.filter(|_| rng.unit() < *chance_own).unwrap_or_else(|| rng.unit())
            }
        }
    }

    /// Adds each kernel's logarithm of the density at `at` to the number in its place. `memory` is kept by the
    /// caller between calls for this column: cells come up again and again.
    pub(super) fn add_log_densities(&self, at: f64, logs: &mut [f64], memory: &mut Vec<(f64, Vec<f64>)>) {
        match self {
            Self::Smooth { centres, sharpness, log_scales, .. } => {
                for (((log, centre), sharp), scale) in logs.iter_mut().zip(centres).zip(sharpness).zip(log_scales) {
                    let distance = at - centre;
                    *log += scale - distance * distance * sharp;
                }
            }
            Self::Cells { axis, kernels, slots, .. } => {
                let (low, high) = axis.cell(at).unwrap_or((0.0, 1.0));
                if !memory.iter().any(|(known, _)| *known == low) {
                    memory.push((low, kernels.iter().map(|slot| slot.log_density(low, high)).collect()));
                }
                let Some((_, densities)) = memory.iter().find(|(known, _)| *known == low) else { return };
                for (log, slot) in logs.iter_mut().zip(slots) {
                    *log += densities.get(*slot as usize).copied().unwrap_or(0.0);
                }
            }
            Self::Choice { axis, count, own, log_own, log_other, .. } => {
                let (low, high) = axis.cell(at).unwrap_or((0.0, 1.0));
                let uniform = -count.ln();
                for (log, own) in logs.iter_mut().zip(own) {
                    *log += match *own {
                        own if own.is_nan() => uniform,
                        own if (low..high).contains(&own) => *log_own,
                        _ => *log_other,
                    };
                }
            }
        }
    }
}

impl Slot {
    fn new(centre: f64, width: f64) -> Self {
        let mass = mass(centre, width, 0.0, 1.0);
        Self { centre, width, mass, sharpness: sharpness(width), log_scale: log_scale(centre, width) }
    }

    /// Over a cell wider than the kernel it is averaged, over a narrower one the middle stands for all of it.
    fn log_density(&self, low: f64, high: f64) -> f64 {
        if high - low < self.width {
            let distance = if self.width == UNIFORM { 0.0 } else { 0.5 * (low + high) - self.centre };
            return self.log_scale - distance * distance * self.sharpness;
        }
        let share = mass(self.centre, self.width, low, high) / self.mass;
        (share / (high - low)).ln()
    }
}

const SQRT_TAU: f64 = 2.506_628_274_631_000_5;

fn sharpness(width: f64) -> f64 {
    0.5 / (width * width)
}

/// The logarithm of the truncated kernel's density at its centre.
fn log_scale(centre: f64, width: f64) -> f64 {
    if width == UNIFORM { 0.0 } else { -(mass(centre, width, 0.0, 1.0) * width * SQRT_TAU).ln() }
}

/// Of the untruncated kernel, between two coordinates.
fn mass(centre: f64, width: f64, low: f64, high: f64) -> f64 {
    if width == UNIFORM {
        return high - low;
    }
    let (from, to) = ((low - centre) / width, (high - centre) / width);
    // Beyond six deviations nothing is missing.
    if from > 6.0 || to < -6.0 {
        return 1e-12;
    }
    let below = if from < -6.0 { 0.0 } else { cdf(from) };
    let above = if to > 6.0 { 0.0 } else { cdf(-to) };
    (1.0 - below - above).max(1e-12)
}

fn truncated(centre: f64, width: f64, rng: &mut Rng) -> f64 {
    // The centre lies inside, so at least a third of the draws do.
    let inside = (0..64).map(|_| centre + width * rng.normal()).find(|at| (0.0..=1.0).contains(at));
    inside.unwrap_or_else(|| centre.clamp(0.0, 1.0))
}

/// Each kernel reaches as far as its farther neighbour, within limits that tighten with their number (the "magic
/// clip" of Hyperopt and Optuna).
fn widths(centres: &[f64], narrowing: f64) -> Vec<f64> {
    let mut order: Vec<(f64, u32)> =
        centres.iter().copied().zip(0u32..).filter(|(centre, _)| !centre.is_nan()).collect();
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let narrowest = narrowing / (order.len() as f64 + 2.0).min(100.0);
    let mut widths = vec![UNIFORM; centres.len()];
    let place = |index: Option<usize>| index.and_then(|index| order.get(index)).map(|(centre, _)| *centre);
    for (index, (centre, kernel)) in order.iter().enumerate() {
        let left = place(index.checked_sub(1)).map(|left| centre - left);
        let right = place(Some(index + 1)).map(|right| right - centre);
        let reach = match (left, right) {
            (None, None) => centre.max(1.0 - centre),
            (left, right) => left.unwrap_or(0.0).max(right.unwrap_or(0.0)),
        };
        if let Some(width) = widths.get_mut(*kernel as usize) {
            *width = reach.clamp(narrowest, 1.0);
        }
    }
    widths
}
