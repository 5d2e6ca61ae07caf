//! The normal distribution.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// Probability of less than `x`; relative error below 1.2e-7 in both tails.
pub(super) fn cdf(x: f64) -> f64 {
    0.5 * erfc(-x * FRAC_1_SQRT_2)
}

pub(super) fn pdf(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * PI).sqrt()
}

/// Chebyshev fit of Numerical Recipes, section 6.2 (`erfcc`).
fn erfc(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 10] = [
        -1.26551223,
        1.00002368,
        0.37409196,
        0.09678418,
        -0.18628806,
        0.27886807,
        -1.13520398,
        1.48851587,
        -0.82215223,
        0.17087277,
    ];
    let t = 1.0 / (1.0 + 0.5 * x.abs());
    let fit = COEFFICIENTS.iter().rev().fold(0.0, |sum, coefficient| sum * t + coefficient);
    let tail = t * (fit - x * x).exp();
    if x >= 0.0 { tail } else { 2.0 - tail }
}

/// Logarithm of the expected improvement in units of the standard deviation: `ln(pdf(z) + z cdf(z))`.
/// Far below zero the plain form cancels to nothing, so an expansion takes over.
pub(super) fn log_improvement(z: f64) -> f64 {
    if z > -5.0 {
        return (pdf(z) + z * cdf(z)).max(f64::MIN_POSITIVE).ln();
    }
    let square = z * z;
    -0.5 * square - 0.5 * (2.0 * PI).ln() - square.ln() + (1.0 - 3.0 / square + 15.0 / (square * square)).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        for (x, expected) in [(0.0, 0.5), (1.0, 0.841_344_746), (-2.0, 0.022_750_132), (-6.0, 9.865_876_45e-10)] {
            assert!((cdf(x) / expected - 1.0).abs() < 1e-6, "{x}");
        }
    }

    #[test]
    fn improvement_is_smooth_where_the_forms_meet() {
        assert!((log_improvement(-4.999) - log_improvement(-5.001)).abs() < 0.02);
        assert!(log_improvement(-40.0) < log_improvement(-39.0));
        assert!((log_improvement(10.0) - 10f64.ln()).abs() < 1e-6);
    }
}
