//! Parallel coordinates: every trial as a line across all searched parameters.

use serde::Serialize;

use crate::value::Value;

use super::Space;
use super::history::{Fate, History};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parallel {
    pub axes: Vec<ParallelAxis>,
    pub lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ParallelAxis {
    pub name: String,
    /// The values at 0 and at 1.
    pub ends: [Value; 2],
    /// Where each value lies, of an axis that has few.
    pub ticks: Vec<(f64, Value)>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    pub trial: u32,
    #[serde(flatten)]
    pub fate: Fate,
    /// From 0 to 1 on each axis; `None` where the parameter is not active.
    pub at: Vec<Option<f64>>,
}

/// More values than this are a scale and not a list.
const MOST_TICKS: u64 = 20;

pub fn parallel(space: &Space, history: &History<'_>) -> Parallel {
    let axes = space.axes().map(|(name, axis)| {
        let values = axis.count().filter(|count| *count <= MOST_TICKS).unwrap_or(0);
        let tick = |index| axis.value(index);
        let ticks = (0..values).map(tick).filter_map(|value| Some((axis.encode(&value)?, value))).collect();
        ParallelAxis { name: name.to_owned(), ends: [axis.decode(0.0), axis.decode(1.0)], ticks }
    });
    let lines = history.trials.iter().map(|trial| {
        let at = space.point(&trial.params).into_iter().map(|at| (!at.is_nan()).then_some(at)).collect();
        Line { trial: trial.number, fate: trial.fate, at }
    });
    Parallel { axes: axes.collect(), lines: lines.collect() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::search::Trial;
    use crate::spec::{Dimension, Domain, Goal};
    use crate::value::Params;

    #[test]
    fn lines_cross_axes_where_they_are_active() {
        let (a, b) = (Value::Text("a".to_owned()), Value::Text("b".to_owned()));
        let rate = Domain::LogUniform { low: 1e-4, high: 1.0 };
        let dimensions = BTreeMap::from([
            ("kind".to_owned(), Dimension { domain: Domain::Choice(vec![a.clone(), b.clone()]), when: None }),
            ("rate".to_owned(), Dimension { domain: rate, when: Some("kind == 'b'".to_owned()) }),
        ]);
        let space = Space::new(&dimensions, &[]).expect("space");
        let trial =
            |number, params: Params| Trial { number, params, fate: Fate::Done { value: 3.0 }, reports: Vec::new() };
        let kind = |value: &Value| ("kind".to_owned(), value.clone());
        let with_rate = Params::from([kind(&b), ("rate".to_owned(), Value::Float(1e-2))]);
        let trials = [trial(0, Params::from([kind(&a)])), trial(1, with_rate)];
        let data = parallel(&space, &History::new(Goal::Minimize, &trials));
        assert_eq!(data.axes[0].ticks, [(0.25, a), (0.75, b)]);
        assert_eq!(data.axes[1].ends, [Value::Float(1e-4), Value::Float(1.0)]);
        assert_eq!(data.lines[0].at, [Some(0.25), None]);
        assert!((data.lines[1].at[1].expect("active") - 0.5).abs() < 1e-12);
        assert_eq!(serde_json::to_value(&data.lines[0]).expect("json")["is"], "done");
    }
}
