//! One number from the course of a metric.

use crate::spec::{CurveValue, Goal};

use super::history::Report;

/// The share of a run's steps that its tail is.
const TAIL: f64 = 0.1;

/// What a run is worth; `None` if it has reported no number. Reports come in the order of their steps.
pub fn value_of(curve: &[Report], value: CurveValue, goal: Goal) -> Option<f64> {
    let known = || curve.iter().filter(|report| report.value.is_finite());
    match value {
        CurveValue::Last => known().next_back().map(|report| report.value),
        CurveValue::Best => known().map(|report| report.value).reduce(|best, value| match goal {
            Goal::Maximize => best.max(value),
            Goal::Minimize => best.min(value),
        }),
        CurveValue::Tail => {
            let (first, last) = (known().next()?.step, known().next_back()?.step);
            // A training that was taken up elsewhere may not begin at 0, but it has begun somewhere.
            let begin = first.min(0) as f64;
            let from = last as f64 - TAIL * (last as f64 - begin);
            let tail = known().filter(|report| report.step as f64 >= from).map(|report| report.value);
            let (sum, count) = tail.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
            Some(sum / count)
        }
    }
}

/// What a run was worth when it reached a step; `None` if it has not, or has reported no number until then.
pub fn value_at(curve: &[Report], step: i64, value: CurveValue, goal: Goal) -> Option<f64> {
    let before = curve.partition_point(|report| report.step < step);
    value_of(curve.get(..=before)?, value, goal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(i64, f64)]) -> Vec<Report> {
        points.iter().map(|(step, value)| Report { step: *step, value: *value }).collect()
    }

    #[test]
    fn last_best_and_tail() {
        let curve = curve(&[(10, 1.0), (50, 9.0), (90, 2.0), (95, 4.0), (100, 6.0)]);
        let of = |value| value_of(&curve, value, Goal::Maximize);
        assert_eq!(
            (of(CurveValue::Last), of(CurveValue::Best), of(CurveValue::Tail)),
            (Some(6.0), Some(9.0), Some(4.0))
        );
        assert_eq!(value_of(&curve, CurveValue::Best, Goal::Minimize), Some(1.0));
    }

    #[test]
    fn a_tail_has_at_least_one_report() {
        assert_eq!(value_of(&curve(&[(1, 3.0), (1_000, 5.0)]), CurveValue::Tail, Goal::Minimize), Some(5.0));
        assert_eq!(value_of(&curve(&[(0, 3.0)]), CurveValue::Tail, Goal::Minimize), Some(3.0));
        assert_eq!(value_of(&curve(&[(-10, 3.0), (-10, 5.0)]), CurveValue::Tail, Goal::Minimize), Some(4.0));
        assert_eq!(value_of(&[], CurveValue::Tail, Goal::Minimize), None);
        assert_eq!(value_of(&curve(&[(4, f64::NAN)]), CurveValue::Last, Goal::Minimize), None);
    }

    #[test]
    fn a_step_counts_when_it_is_reached() {
        let curve = curve(&[(10, 1.0), (20, 2.0), (30, 3.0)]);
        let at = |step| value_at(&curve, step, CurveValue::Last, Goal::Maximize);
        assert_eq!((at(0), at(10), at(11), at(30), at(31)), (Some(1.0), Some(1.0), Some(2.0), Some(3.0), None));
    }
}
