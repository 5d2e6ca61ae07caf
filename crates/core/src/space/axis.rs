//! One searched parameter as a coordinate in the unit interval: where a value lies, and which value lies there.

use crate::value::Value;

use super::Domain;

/// From this ratio of its ends on, a range has room for factors.
const WIDE: f64 = 4.0;

/// The values of one searched parameter, laid out on `[0, 1]`.
///
/// Every value of a countable axis owns a cell of the interval; drawing a coordinate uniformly and decoding it
/// gives the distribution the domain promises.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    layout: Layout,
}

#[derive(Debug, Clone, PartialEq)]
enum Layout {
    Real { low: f64, high: f64 },
    LogReal { low: f64, high: f64 },
    Steps { low: f64, step: f64, count: u64 },
    Int { low: i64, count: u64 },
    LogInt { low: i64, high: i64 },
    Powers { lowest: u32, count: u64 },
    Ordinal(Vec<Value>),
    Choice(Vec<Value>),
}

impl Axis {
    /// `None` for domains that are not searched: fixed and derived ones, and bounds that hold no value.
    pub fn new(domain: &Domain) -> Option<Self> {
        let layout = match domain {
            Domain::Uniform { low, high } => {
                (low <= high && (high - low).is_finite()).then_some(Layout::Real { low: *low, high: *high })
            }
            Domain::LogUniform { low, high } => {
                (*low > 0.0 && low <= high && high.is_finite()).then_some(Layout::LogReal { low: *low, high: *high })
            }
            Domain::Quantized { low, high, step } => steps(*low, *high, *step),
            Domain::Int { low, high } => (low <= high && high.checked_sub(*low).is_some())
                .then(|| Layout::Int { low: *low, count: high.abs_diff(*low) + 1 }),
            Domain::LogInt { low, high } => {
                (*low > 0 && low <= high).then_some(Layout::LogInt { low: *low, high: *high })
            }
            Domain::PowerOfTwo { low, high } => powers(*low, *high),
            Domain::Choice(values) => (!values.is_empty()).then(|| Layout::Choice(values.clone())),
            Domain::Ordinal(values) => (!values.is_empty()).then(|| Layout::Ordinal(values.clone())),
            Domain::Boolean => Some(Layout::Choice(vec![Value::Bool(false), Value::Bool(true)])),
            Domain::Fixed(_) | Domain::Derived(_) => None,
        };
        layout.map(|layout| Self { layout })
    }

    /// How many values there are; `None` if they cannot be counted.
    pub fn count(&self) -> Option<u64> {
        match &self.layout {
            Layout::Real { low, high } | Layout::LogReal { low, high } => (low == high).then_some(1),
            Layout::Steps { count, .. } | Layout::Int { count, .. } | Layout::Powers { count, .. } => Some(*count),
            Layout::LogInt { low, high } => Some(high.abs_diff(*low) + 1),
            Layout::Ordinal(values) | Layout::Choice(values) => Some(values.len() as u64),
        }
    }

    /// Whether neighbouring coordinates are alike.
    pub fn is_ordered(&self) -> bool {
        !matches!(self.layout, Layout::Choice(_))
    }

    /// The coordinate of a value; `None` if it is none of the axis's values.
    pub fn encode(&self, value: &Value) -> Option<f64> {
        match &self.layout {
            Layout::Real { low, high } => {
                let number = real(value).filter(|number| (*low..=*high).contains(number))?;
                Some(if low == high { 0.5 } else { (number - low) / (high - low) })
            }
            Layout::LogReal { low, high } => {
                let number = real(value).filter(|number| (*low..=*high).contains(number))?;
                Some(if low == high { 0.5 } else { (number / low).ln() / (high / low).ln() })
            }
            Layout::LogInt { low, high } => {
                let int = whole(value).filter(|int| (low..=high).contains(&int))?;
                Some(log_position(int as f64, *low, *high))
            }
            _ => self.index(value).map(|index| self.centre(index)),
        }
    }

    /// The value at a coordinate; coordinates outside the unit interval count as its ends.
    pub fn decode(&self, at: f64) -> Value {
        let at = if at.is_finite() { at.clamp(0.0, 1.0) } else { 0.5 };
        match &self.layout {
            Layout::Real { low, high } => Value::Float((low + at * (high - low)).clamp(*low, *high)),
            Layout::LogReal { low, high } => Value::Float((low * ((high / low).ln() * at).exp()).clamp(*low, *high)),
            Layout::LogInt { low, high } => {
                let (bottom, top) = log_edges(*low, *high);
                let int = (bottom + at * (top - bottom)).exp().round();
                Value::Int((int as i64).clamp(*low, *high))
            }
            Layout::Steps { count, .. } | Layout::Int { count, .. } | Layout::Powers { count, .. } => {
                self.value(cell(at, *count))
            }
            Layout::Ordinal(values) | Layout::Choice(values) => self.value(cell(at, values.len() as u64)),
        }
    }

    /// The value with this index in ascending or listed order; indices beyond the last give the last.
    pub fn value(&self, index: u64) -> Value {
        match &self.layout {
            Layout::Real { low, .. } | Layout::LogReal { low, .. } => Value::Float(*low),
            Layout::Steps { low, step, count } => tidy(low + index.min(count - 1) as f64 * step, *step),
            Layout::Int { low, count } => Value::Int(low.saturating_add_unsigned(index.min(count - 1))),
            Layout::LogInt { low, high } => Value::Int(low.saturating_add_unsigned(index).min(*high)),
            Layout::Powers { lowest, count } => Value::Int(1i64 << (u64::from(*lowest) + index.min(count - 1))),
            Layout::Ordinal(values) | Layout::Choice(values) => {
                let last = values.len().saturating_sub(1);
                values.get((index as usize).min(last)).cloned().unwrap_or(Value::Null)
            }
        }
    }

    /// The part of the interval that decodes to the same value as `at`; `None` where values cannot be counted.
    pub fn cell(&self, at: f64) -> Option<(f64, f64)> {
        let count = self.count()?;
        if let Layout::LogInt { low, high } = self.layout {
            let int = whole(&self.decode(at))? as f64;
            let (bottom, top) = log_edges(low, high);
            let edge = |x: f64| if top > bottom { (x.ln() - bottom) / (top - bottom) } else { 0.5 };
            return Some((edge(int - 0.5), edge(int + 0.5)));
        }
        let index = cell(at.clamp(0.0, 1.0), count) as f64;
        Some((index / count as f64, (index + 1.0) / count as f64))
    }

    /// Another coordinate nearby. A number is multiplied by `factor`, or divided at the end of its range; where the
    /// range is too narrow for factors, or not positive, it moves by a part of the range. Ordered values move to a
    /// neighbour, unordered ones to the one that `draw`, from the unit interval, falls on.
    pub(crate) fn nudge(&self, at: f64, factor: f64, draw: f64) -> f64 {
        let there = self.moved(at, factor, draw);
        if there == at && self.is_ordered() { self.moved(at, 1.0 / factor, draw) } else { there }
    }

    fn moved(&self, at: f64, factor: f64, draw: f64) -> f64 {
        let is_up = factor > 1.0;
        let value = self.decode(at);
        let scaled = self.range().zip(real(&value)).map(|((low, high), number)| {
            let is_wide = low > 0.0 && high >= WIDE * low;
            // The factors that are usual, 1.1 to 2, become a fiftieth to a fifth of the range.
            let part = 0.2 * (factor.max(1.0 / factor) - 1.0) * (high - low);
            let shifted = number + if is_up { part } else { -part };
            (if is_wide { number * factor } else { shifted }).clamp(low, high)
        });
        match (&self.layout, scaled, self.index(&value)) {
            (Layout::Real { .. } | Layout::LogReal { .. }, Some(number), _) => {
                self.encode(&Value::Float(number)).unwrap_or(at)
            }
            (Layout::LogInt { low, high }, Some(number), _) => {
                let here = whole(&value).unwrap_or(*low);
                let there = number.round() as i64;
                let there = if there == here { here.saturating_add(if is_up { 1 } else { -1 }) } else { there };
                self.encode(&Value::Int(there.clamp(*low, *high))).unwrap_or(at)
            }
            (Layout::Choice(values), _, Some(index)) => {
                let others = values.len() as u64 - 1;
                let other = cell(draw, others);
                if others == 0 { at } else { self.centre(if other < index { other } else { other + 1 }) }
            }
            (_, scaled, Some(index)) => {
                let near = scaled.and_then(|number| self.nearest(number)).filter(|near| *near != index);
                let step = if is_up { index.saturating_add(1) } else { index.saturating_sub(1) };
                self.centre(near.unwrap_or(step).min(self.count().unwrap_or(1) - 1))
            }
            _ => at,
        }
    }

    /// The ends of an axis of numbers.
    fn range(&self) -> Option<(f64, f64)> {
        match &self.layout {
            Layout::Real { low, high } | Layout::LogReal { low, high } => Some((*low, *high)),
            Layout::LogInt { low, high } => Some((*low as f64, *high as f64)),
            Layout::Steps { low, step, count } => Some((*low, low + step * (count - 1) as f64)),
            Layout::Int { low, count } => Some((*low as f64, *low as f64 + (count - 1) as f64)),
            Layout::Powers { .. } | Layout::Ordinal(_) | Layout::Choice(_) => None,
        }
    }

    /// The index of the value nearest to a number of an evenly spaced axis.
    fn nearest(&self, number: f64) -> Option<u64> {
        match &self.layout {
            Layout::Steps { low, step, .. } => Some(((number - low) / step).round() as u64),
            Layout::Int { low, .. } => Some((number - *low as f64).round() as u64),
            _ => None,
        }
    }

    fn index(&self, value: &Value) -> Option<u64> {
        match &self.layout {
            Layout::Steps { low, step, count } => {
                let position = (real(value)? - low) / step;
                let index = position.round();
                ((position - index).abs() < 1e-6 && index >= 0.0 && index < *count as f64).then_some(index as u64)
            }
            Layout::Int { low, count } => {
                let int = whole(value).filter(|int| int >= low)?;
                Some(int.abs_diff(*low)).filter(|index| index < count)
            }
            Layout::Powers { lowest, count } => {
                let int = u64::try_from(whole(value)?).ok().filter(|int| int.is_power_of_two())?;
                int.trailing_zeros().checked_sub(*lowest).map(u64::from).filter(|index| index < count)
            }
            Layout::Ordinal(values) | Layout::Choice(values) => {
                values.iter().position(|known| known == value).map(|index| index as u64)
            }
            Layout::Real { .. } | Layout::LogReal { .. } | Layout::LogInt { .. } => None,
        }
    }

    fn centre(&self, index: u64) -> f64 {
        (index as f64 + 0.5) / self.count().unwrap_or(1) as f64
    }
}

fn steps(low: f64, high: f64, step: f64) -> Option<Layout> {
    // A hair of tolerance: 0.1 goes into 0.9 nine times, not eight.
    let last = ((high - low) / step + 1e-9).floor();
    (step > 0.0 && (0.0..1e15).contains(&last)).then_some(Layout::Steps { low, step, count: last as u64 + 1 })
}

fn powers(low: u64, high: u64) -> Option<Layout> {
    // 2^62 is the largest power of two an `i64` holds.
    (low.is_power_of_two() && high.is_power_of_two() && low <= high && high <= 1 << 62).then(|| Layout::Powers {
        lowest: low.trailing_zeros(),
        count: u64::from(high.trailing_zeros() - low.trailing_zeros()) + 1,
    })
}

fn log_edges(low: i64, high: i64) -> (f64, f64) {
    ((low as f64 - 0.5).ln(), (high as f64 + 0.5).ln())
}

fn log_position(int: f64, low: i64, high: i64) -> f64 {
    let (bottom, top) = log_edges(low, high);
    if top > bottom { (int.ln() - bottom) / (top - bottom) } else { 0.5 }
}

fn cell(at: f64, count: u64) -> u64 {
    ((at * count as f64) as u64).min(count.saturating_sub(1))
}

/// Removes the noise of adding steps in binary: 0.1 + 2 × 0.1 is 0.3.
fn tidy(number: f64, step: f64) -> Value {
    let digits = (3.0 - step.abs().log10().floor()).clamp(0.0, 15.0) as i32;
    let scale = 10f64.powi(digits);
    let rounded = (number * scale).round() / scale;
    Value::Float(if (rounded - number).abs() < step * 1e-6 { rounded } else { number })
}

fn real(value: &Value) -> Option<f64> {
    match value {
        Value::Int(int) => Some(*int as f64),
        Value::Float(float) => Some(*float),
        _ => None,
    }
}

fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Int(int) => Some(*int),
        Value::Float(float) if *float == float.trunc() && float.abs() < 9e15 => Some(*float as i64),
        _ => None,
    }
}
