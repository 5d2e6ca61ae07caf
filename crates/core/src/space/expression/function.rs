//! The functions an expression may call.

use std::cmp::Ordering;

use crate::value::Value;

use super::arithmetic::{finite, negate, order, real};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Min,
    Max,
    Abs,
    Floor,
    Ceil,
    Round,
    Log2,
    Sqrt,
    SmallestDivisor,
    NearestDivisor,
}

/// Its divisors are found in a million steps at most.
const LARGEST_DIVIDEND: i64 = 1_000_000_000_000;

impl Function {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "min" => Self::Min,
            "max" => Self::Max,
            "abs" => Self::Abs,
            "floor" => Self::Floor,
            "ceil" => Self::Ceil,
            "round" => Self::Round,
            "log2" => Self::Log2,
            "sqrt" => Self::Sqrt,
            "smallest_divisor" => Self::SmallestDivisor,
            "nearest_divisor" => Self::NearestDivisor,
            _ => return None,
        })
    }

    pub(super) fn takes(self, count: usize) -> bool {
        match self {
            Self::Min | Self::Max => count >= 1,
            Self::SmallestDivisor | Self::NearestDivisor => count == 2,
            _ => count == 1,
        }
    }

    pub(super) fn apply(self, arguments: &[Value]) -> Result<Value, String> {
        match (self, arguments) {
            (Self::Min, [first, rest @ ..]) => extreme(first, rest, Ordering::Less),
            (Self::Max, [first, rest @ ..]) => extreme(first, rest, Ordering::Greater),
            (Self::Abs, [x]) => {
                if real(x)? < 0.0 {
                    negate(x)
                } else {
                    Ok(x.clone())
                }
            }
            (Self::Floor, [x]) => whole(x, f64::floor),
            (Self::Ceil, [x]) => whole(x, f64::ceil),
            (Self::Round, [x]) => whole(x, f64::round),
            (Self::Log2, [x]) => root_of(x, real(x)?.log2(), |y| 2f64.powf(y)),
            (Self::Sqrt, [x]) => root_of(x, real(x)?.sqrt(), |y| y * y),
            (Self::SmallestDivisor, [n, at_least]) => {
                let at_least = real(at_least)?;
                let found = divisors(n)?.into_iter().find(|divisor| *divisor as f64 >= at_least);
                found.map(Value::Int).ok_or_else(|| "no divisor is that large".to_owned())
            }
            (Self::NearestDivisor, [n, wanted]) => {
                let wanted = real(wanted)?;
                let distance = |divisor: &i64| (*divisor as f64 - wanted).abs();
                let nearest = divisors(n)?.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
                nearest.map(Value::Int).ok_or_else(|| "no divisor".to_owned())
            }
            _ => Err("wrong number of arguments".to_owned()),
        }
    }
}

fn extreme(first: &Value, rest: &[Value], wanted: Ordering) -> Result<Value, String> {
    real(first)?;
    let mut best = first;
    for value in rest {
        if order(value, best)? == wanted {
            best = value;
        }
    }
    Ok(best.clone())
}

fn whole(value: &Value, rounded: fn(f64) -> f64) -> Result<Value, String> {
    if let Value::Int(int) = value {
        return Ok(Value::Int(*int));
    }
    let number = rounded(real(value)?);
    // Beyond 2^63 a float has no integer to become.
    if number.abs() < 9.2e18 { Ok(Value::Int(number as i64)) } else { finite(number) }
}

/// `result`, as an integer if `value` was one and the way back is exact.
fn root_of(value: &Value, result: f64, back: fn(f64) -> f64) -> Result<Value, String> {
    match value {
        Value::Int(int) if result == result.trunc() && back(result) == *int as f64 => Ok(Value::Int(result as i64)),
        _ => finite(result),
    }
}

/// In ascending order.
fn divisors(value: &Value) -> Result<Vec<i64>, String> {
    let number = match value {
        Value::Int(int) => *int,
        Value::Float(float) if *float == float.trunc() && float.abs() <= LARGEST_DIVIDEND as f64 => *float as i64,
        _ => return Err("expected a whole number".to_owned()),
    };
    if !(1..=LARGEST_DIVIDEND).contains(&number) {
        return Err(format!("expected a number from 1 to {LARGEST_DIVIDEND}"));
    }
    let small: Vec<i64> = (1..).take_while(|d| d * d <= number).filter(|d| number % d == 0).collect();
    let large = small.iter().rev().map(|d| number / d).filter(|large| large * large > number);
    Ok(small.iter().copied().chain(large).collect())
}
