//! Minimises a smooth function inside a box: L-BFGS with steps projected back into it.

use super::linear::dot;

/// Pairs of steps and gradient changes that are remembered.
const MEMORY: usize = 8;

/// The same bounds for all coordinates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) rounds: usize,
}

/// Value and gradient of the function at a point; a value that is not finite is never moved to.
pub(super) type Slope<'a> = dyn FnMut(&[f64]) -> (f64, Vec<f64>) + 'a;

/// The best point found from `start`, and its value.
pub(super) fn minimize(start: Vec<f64>, limits: Limits, slope: &mut Slope<'_>) -> (Vec<f64>, f64) {
    let mut at = start;
    let (mut value, mut gradient) = slope(&at);
    let mut pairs: Vec<(Vec<f64>, Vec<f64>)> = Vec::new();
    for _ in 0..limits.rounds {
        let mut direction = descend(&gradient, &pairs);
        hold_at_walls(&mut direction, &at, &gradient, limits);
        if dot(&direction, &gradient) >= 0.0 {
            pairs.clear();
            direction = gradient.iter().map(|g| -g).collect();
            hold_at_walls(&mut direction, &at, &gradient, limits);
        }
        // The first step has no scale to go by.
        let longest = direction.iter().fold(0.0f64, |longest, d| longest.max(d.abs()));
        let first =
            if pairs.is_empty() && longest > 0.0 { (0.1 * (limits.high - limits.low) / longest).min(1.0) } else { 1.0 };
        let Some((next, next_value, next_gradient)) = search(&at, value, &gradient, &direction, first, limits, slope)
        else {
            break;
        };
        let step: Vec<f64> = next.iter().zip(&at).map(|(a, b)| a - b).collect();
        let change: Vec<f64> = next_gradient.iter().zip(&gradient).map(|(a, b)| a - b).collect();
        let gain = value - next_value;
        (at, value, gradient) = (next, next_value, next_gradient);
        if dot(&step, &change) > 1e-12 * dot(&change, &change).max(1e-300) {
            if pairs.len() == MEMORY {
                pairs.remove(0);
            }
            pairs.push((step, change));
        }
        if gain < 1e-7 * value.abs().max(1e-3) {
            break;
        }
    }
    (at, value)
}

/// The two-loop recursion.
fn descend(gradient: &[f64], pairs: &[(Vec<f64>, Vec<f64>)]) -> Vec<f64> {
    let mut q: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut factors = Vec::new();
    for (step, change) in pairs.iter().rev() {
        let factor = dot(step, &q) / dot(step, change);
        q.iter_mut().zip(change).for_each(|(q, y)| *q -= factor * y);
        factors.push(factor);
    }
    if let Some((step, change)) = pairs.last() {
        let scale = dot(step, change) / dot(change, change);
        q.iter_mut().for_each(|q| *q *= scale);
    }
    for ((step, change), factor) in pairs.iter().zip(factors.iter().rev()) {
        let back = dot(change, &q) / dot(step, change);
        q.iter_mut().zip(step).for_each(|(q, s)| *q += (factor - back) * s);
    }
    q
}

fn hold_at_walls(direction: &mut [f64], at: &[f64], gradient: &[f64], limits: Limits) {
    for ((direction, at), gradient) in direction.iter_mut().zip(at).zip(gradient) {
        let outward = (*at <= limits.low && *gradient > 0.0) || (*at >= limits.high && *gradient < 0.0);
        if outward {
            *direction = 0.0;
        }
    }
}

type Found = (Vec<f64>, f64, Vec<f64>);

/// Halves the step until it pays; `None` if it never does.
fn search(
    at: &[f64],
    value: f64,
    gradient: &[f64],
    direction: &[f64],
    first: f64,
    limits: Limits,
    slope: &mut Slope<'_>,
) -> Option<Found> {
    let mut length = first;
    for _ in 0..12 {
        let next: Vec<f64> =
            at.iter().zip(direction).map(|(at, d)| (at + length * d).clamp(limits.low, limits.high)).collect();
        let moved: Vec<f64> = next.iter().zip(at).map(|(a, b)| a - b).collect();
        if moved.iter().all(|moved| moved.abs() < 1e-12) {
            return None;
        }
        let (next_value, next_gradient) = slope(&next);
        if next_value.is_finite() && next_value <= value + 1e-4 * dot(gradient, &moved) {
            return Some((next, next_value, next_gradient));
        }
        length *= 0.4;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_bottom_of_a_curved_valley() {
        let limits = Limits { low: -5.0, high: 10.0, rounds: 200 };
        let (at, value) = minimize(vec![-1.2, 1.0], limits, &mut |x| {
            let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
            (a * a + 100.0 * b * b, vec![-2.0 * a - 400.0 * x[0] * b, 200.0 * b])
        });
        assert!(value < 1e-6, "{at:?} {value}");
    }

    #[test]
    fn stops_at_the_wall() {
        let limits = Limits { low: 0.0, high: 1.0, rounds: 50 };
        let (at, _) = minimize(vec![0.5, 0.5], limits, &mut |x| {
            let (a, b) = (x[0] - 2.0, x[1] - 0.3);
            (a * a + b * b, vec![2.0 * a, 2.0 * b])
        });
        assert_eq!(at[0], 1.0);
        assert!((at[1] - 0.3).abs() < 1e-6);
    }
}
