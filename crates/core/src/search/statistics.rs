//! Means and how far to trust them.

use crate::spec::Aggregate;

/// Two-sided 95 % quantiles of Student's distribution for 1 to 10 degrees of freedom.
const STUDENT: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

/// One number from the repeats of a configuration; `None` of none.
pub fn aggregate(values: &[f64], how: Aggregate) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    match how {
        Aggregate::Mean => mean(&sorted),
        Aggregate::Median => mean(sorted.get(count.saturating_sub(1) / 2..count / 2 + 1)?),
        Aggregate::Iqm => middle(&sorted),
    }
}

/// Mean of what lies between the quartiles; values that they cut count in part.
fn middle(sorted: &[f64]) -> Option<f64> {
    let count = sorted.len() as f64;
    let (low, high) = (count / 4.0, count * 3.0 / 4.0);
    let weight = |index: usize| (high.min(index as f64 + 1.0) - low.max(index as f64)).max(0.0);
    let sum: f64 = sorted.iter().enumerate().map(|(index, value)| weight(index) * value).sum();
    (!sorted.is_empty()).then(|| sum / (high - low))
}

pub(super) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The 95 % interval of the mean by Student's distribution; `None` of fewer than two.
pub fn interval(values: &[f64]) -> Option<(f64, f64)> {
    let mean = mean(values)?;
    let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let error = (squares / freedom as f64 / values.len() as f64).sqrt();
    let reach = error * student(freedom);
    Some((mean - reach, mean + reach))
}

/// Beyond the table by the expansion of Cornish and Fisher, which is off by less than 0.001 there.
fn student(freedom: usize) -> f64 {
    const Z: f64 = 1.959_963_985;
    let nu = freedom as f64;
    let known = STUDENT.get(freedom.saturating_sub(1)).copied();
    known.unwrap_or_else(|| {
        let (cube, fifth) = (Z.powi(3), Z.powi(5));
        Z + (cube + Z) / (4.0 * nu) + (5.0 * fifth + 16.0 * cube + 3.0 * Z) / (96.0 * nu * nu)
    })
}

/// Whether a configuration whose first seed gave this loss is not worth its other seeds: even if that seed was unlucky
/// by twice the spread that seeds have, it would be worse than half of the others.
///
/// `others` are the losses of each configuration that is through, one for each of its seeds.
pub fn is_hopeless(first: f64, others: &[Vec<f64>]) -> bool {
    /// With fewer there is no telling what is bad.
    const FEWEST: usize = 4;
    let known: Vec<Vec<f64>> =
        others.iter().map(|losses| losses.iter().copied().filter(|loss| loss.is_finite()).collect()).collect();
    let means: Vec<f64> = known.iter().filter_map(|losses| mean(losses)).collect();
    let Some(median) = aggregate(&means, Aggregate::Median).filter(|_| means.len() >= FEWEST) else { return false };
    if !first.is_finite() {
        return true;
    }
    let (mut squares, mut freedom) = (0.0, 0.0);
    for losses in &known {
        let Some(mean) = mean(losses) else { continue };
        squares += losses.iter().map(|loss| (loss - mean).powi(2)).sum::<f64>();
        freedom += losses.len() as f64 - 1.0;
    }
    freedom > 0.0 && first - 2.0 * (squares / freedom).sqrt() > median
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregates() {
        let values = [4.0, 1.0, 100.0, 3.0, 2.0];
        let of = |how| aggregate(&values, how);
        assert_eq!((of(Aggregate::Mean), of(Aggregate::Median)), (Some(22.0), Some(3.0)));
        // 2 and 4 by three quarters, 3 as a whole: SciPy's `trim_mean` of uneven counts, as rliable has it.
        assert_eq!(of(Aggregate::Iqm), Some((0.75 * 2.0 + 3.0 + 0.75 * 4.0) / 2.5));
        assert_eq!(aggregate(&[1.0, 2.0, 3.0, 9.0], Aggregate::Iqm), Some(2.5));
        assert_eq!(aggregate(&[1.0, 2.0], Aggregate::Median), Some(1.5));
        for how in [Aggregate::Mean, Aggregate::Median, Aggregate::Iqm] {
            assert_eq!((aggregate(&[], how), aggregate(&[7.0], how)), (None, Some(7.0)));
        }
    }

    #[test]
    fn intervals_are_students() {
        // R: t.test(c(1, 2, 3, 4))$conf.int, and the same of 1:20.
        let (low, high) = interval(&[1.0, 2.0, 3.0, 4.0]).expect("four");
        assert!((low - 0.4457).abs() < 1e-3 && (high - 4.5543).abs() < 1e-3, "{low} {high}");
        let twenty: Vec<f64> = (1..=20).map(f64::from).collect();
        let (low, high) = interval(&twenty).expect("twenty");
        assert!((low - 7.7312).abs() < 2e-3 && (high - 13.2688).abs() < 2e-3, "{low} {high}");
        assert_eq!((interval(&[1.0]), interval(&[])), (None, None));
        assert_eq!(interval(&[2.0, 2.0]), Some((2.0, 2.0)));
    }

    #[test]
    fn what_is_far_behind_is_hopeless() {
        let others = vec![vec![1.0, 1.2], vec![2.0, 1.8], vec![3.0, 3.2], vec![4.0, 3.8]];
        assert!(is_hopeless(5.0, &others));
        assert!(!is_hopeless(2.7, &others), "it may have been unlucky");
        assert!(!is_hopeless(5.0, &others[..3]), "too few to tell");
        assert!(is_hopeless(f64::NAN, &others));
        let single: Vec<Vec<f64>> = others.iter().map(|losses| vec![losses[0]]).collect();
        assert!(!is_hopeless(5.0, &single), "nobody knows what a seed can do");
    }
}
