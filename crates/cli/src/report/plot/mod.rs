//! Curves as a picture: with letters on the terminal, or as an SVG file.

mod axis;
mod parallel;
mod svg;
mod terminal;

pub(crate) use parallel::parallel_svg;
pub(crate) use svg::svg;
pub(crate) use terminal::terminal;

use axis::Scale;

/// What the x axis counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Along {
    Steps,
    /// In seconds.
    Time,
}

#[derive(Debug, Clone)]
pub(crate) struct Plot {
    pub(crate) metric: String,
    pub(crate) along: Along,
    /// Heights by their logarithm; those at 0 and below are not shown.
    pub(crate) is_log: bool,
    pub(crate) lines: Vec<Line>,
}

/// One curve, in the order of its places. What is no number is a gap.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) spots: Vec<(f64, f64)>,
    /// Least and greatest, where several runs were taken together.
    pub(crate) band: Vec<(f64, f64, f64)>,
}

impl Plot {
    /// `None` when there is nothing to show.
    fn scales(&self) -> Option<(Scale, Scale)> {
        let shown = |y: f64| y.is_finite() && (!self.is_log || y > 0.0);
        let spots = || self.lines.iter().flat_map(|line| &line.spots).filter(|(_, y)| shown(*y));
        let edges = self.lines.iter().flat_map(|line| &line.band).flat_map(|(_, low, high)| [*low, *high]);
        let heights = spots().map(|(_, y)| *y).chain(edges.filter(|y| shown(*y)));
        Some((Scale::of(spots().map(|(x, _)| *x), false)?, Scale::padded(heights, self.is_log)?))
    }

    fn x_title(&self) -> &'static str {
        match self.along {
            Along::Steps => "step",
            Along::Time => "time",
        }
    }
}

#[cfg(test)]
mod tests;
