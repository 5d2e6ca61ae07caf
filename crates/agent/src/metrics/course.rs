//! The course of one metric, thinned: all points while they are few, then every second, every fourth, and so on.

use crate::order::Point;

/// At most this many are kept.
const MOST: usize = 256;

#[derive(Debug)]
pub(super) struct Course {
    name: String,
    points: Vec<Point>,
    /// Of the points that came, one in this many is kept.
    every: u64,
    came: u64,
    /// Kept beside the others until it is known whether it is one of them.
    newest: Option<Point>,
}

impl Course {
    pub(super) fn new(name: String) -> Self {
        Self { name, points: Vec::new(), every: 1, came: 0, newest: None }
    }

    pub(super) fn is_of(&self, name: &str) -> bool {
        self.name == name
    }

    /// A step that is not beyond the last one voids what was known from there on.
    pub(super) fn push(&mut self, point: Point) {
        if self.newest.is_some_and(|newest| point.step <= newest.step) {
            self.points.retain(|kept| kept.step < point.step);
            self.came = self.points.len() as u64 * self.every;
        }
        self.newest = None;
        if self.came.is_multiple_of(self.every) {
            if self.points.len() == MOST {
                let mut index = 0;
                self.points.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.every *= 2;
            }
            if self.came.is_multiple_of(self.every) {
                self.points.push(point);
            }
        }
        self.newest = Some(point);
        self.came += 1;
    }

    /// The first and the newest are always among them.
    pub(super) fn points(&self) -> Vec<Point> {
        let mut points = self.points.clone();
        let missing = self.newest.filter(|newest| points.last().is_none_or(|last| last.step != newest.step));
        if points.len() == MOST && missing.is_some() {
            points.pop();
        }
        points.extend(missing);
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(steps: impl IntoIterator<Item = i64>) -> Course {
        let mut course = Course::new("reward".to_owned());
        steps.into_iter().for_each(|step| course.push(Point { step, value: Some(step as f64) }));
        course
    }

    fn steps(course: &Course) -> Vec<i64> {
        course.points().iter().map(|point| point.step).collect()
    }

    #[test]
    fn all_points_while_they_are_few() {
        assert_eq!(steps(&course(0..256)), (0..256).collect::<Vec<_>>());
    }

    #[test]
    fn many_are_thinned_evenly_with_both_ends() {
        for count in [257, 258, 300, 511, 512, 513, 1_000, 100_003] {
            let thinned = steps(&course(0..count));
            assert!((128..=256).contains(&thinned.len()), "{count}: {}", thinned.len());
            assert_eq!((thinned.first(), thinned.last()), (Some(&0), Some(&(count - 1))));
            let gap = thinned[1] - thinned[0];
            assert!(thinned.windows(2).rev().skip(2).all(|pair| pair[1] - pair[0] == gap), "{count}: {thinned:?}");
        }
    }

    #[test]
    fn the_same_points_give_the_same_course() {
        assert_eq!(steps(&course(0..5_000)), steps(&course(0..5_000)));
    }

    #[test]
    fn a_step_back_voids_what_follows() {
        assert_eq!(steps(&course([1, 2, 3, 4, 3, 5])), [1, 2, 3, 5]);
        assert_eq!(steps(&course([5, 1])), [1]);
        let back = course((0..1_000).chain(10..20));
        assert_eq!(steps(&back).last(), Some(&19));
        assert!(steps(&back).windows(2).all(|pair| pair[0] < pair[1]), "{:?}", steps(&back));
    }
}
