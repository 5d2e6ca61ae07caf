//! Operators on values. Integers stay integers as long as the result is exact and fits.

use std::cmp::Ordering;

use crate::value::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Operator {
    pub(super) fn apply(self, left: &Value, right: &Value) -> Result<Value, String> {
        match self {
            Self::Equal => Ok(Value::Bool(same(left, right))),
            Self::Unequal => Ok(Value::Bool(!same(left, right))),
            Self::Less => order(left, right).map(|order| Value::Bool(order == Ordering::Less)),
            Self::AtMost => order(left, right).map(|order| Value::Bool(order != Ordering::Greater)),
            Self::More => order(left, right).map(|order| Value::Bool(order == Ordering::Greater)),
            Self::AtLeast => order(left, right).map(|order| Value::Bool(order != Ordering::Less)),
            Self::Add | Self::Subtract | Self::Multiply | Self::Divide | Self::Remainder | Self::Power => {
                self.calculate(left, right)
            }
        }
    }

    fn calculate(self, left: &Value, right: &Value) -> Result<Value, String> {
        if let (Value::Int(a), Value::Int(b)) = (left, right)
            && let Some(exact) = self.exact(*a, *b)
        {
            return Ok(Value::Int(exact));
        }
        let (a, b) = (real(left)?, real(right)?);
        if b == 0.0 && matches!(self, Self::Divide | Self::Remainder) {
            return Err("division by zero".to_owned());
        }
        finite(match self {
            Self::Add => a + b,
            Self::Subtract => a - b,
            Self::Multiply => a * b,
            Self::Divide => a / b,
            // The sign follows the divisor, as in Python.
            Self::Remainder => a - b * (a / b).floor(),
            _ => a.powf(b),
        })
    }

    fn exact(self, a: i64, b: i64) -> Option<i64> {
        match self {
            Self::Add => a.checked_add(b),
            Self::Subtract => a.checked_sub(b),
            Self::Multiply => a.checked_mul(b),
            Self::Divide => (a.checked_rem(b)? == 0).then(|| a.checked_div(b))?,
            Self::Remainder => {
                let rest = a.checked_rem(b)?;
                if rest != 0 && (rest < 0) != (b < 0) { rest.checked_add(b) } else { Some(rest) }
            }
            Self::Power => a.checked_pow(u32::try_from(b).ok()?),
            _ => None,
        }
    }
}

/// The number, if it is one.
pub(super) fn real(value: &Value) -> Result<f64, String> {
    match value {
        Value::Int(int) => Ok(*int as f64),
        Value::Float(float) => Ok(*float),
        other => Err(format!("expected a number, got {}", describe(other))),
    }
}

pub(super) fn finite(number: f64) -> Result<Value, String> {
    if number.is_finite() { Ok(Value::Float(number)) } else { Err("the result is not a finite number".to_owned()) }
}

pub(super) fn negate(value: &Value) -> Result<Value, String> {
    match value {
        Value::Int(int) => Ok(int.checked_neg().map_or(Value::Float(-(*int as f64)), Value::Int)),
        other => real(other).map(|float| Value::Float(-float)),
    }
}

pub(super) fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(truth) => Some(*truth),
        _ => None,
    }
}

/// Equality across kinds of numbers: `1 == 1.0`.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Int(a), Value::Float(b)) | (Value::Float(b), Value::Int(a)) => *a as f64 == *b,
        _ => left == right,
    }
}

pub(super) fn order(left: &Value, right: &Value) -> Result<Ordering, String> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => Ok(a.cmp(b)),
        (Value::Text(a), Value::Text(b)) => Ok(a.cmp(b)),
        _ => real(left)?.partial_cmp(&real(right)?).ok_or_else(|| "not comparable".to_owned()),
    }
}

fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Int(_) | Value::Float(_) => "a number",
        Value::Text(_) => "a text",
        Value::List(_) => "a list",
        Value::Table(_) => "a table",
    }
}
