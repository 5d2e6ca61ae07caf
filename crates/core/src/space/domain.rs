//! One parameter as the job file describes it.

use serde::{Deserialize, Serialize};

use crate::value::Value;

/// One parameter of a search space.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dimension {
    pub domain: Domain,
    /// The condition on other parameters under which it is searched, as written.
    pub when: Option<String>,
}

/// The values a parameter may take. Bounds are included, finite, and `low < high`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Domain {
    Uniform {
        low: f64,
        high: f64,
    },
    /// `low > 0`.
    LogUniform {
        low: f64,
        high: f64,
    },
    /// `0 < step <= high - low`.
    Quantized {
        low: f64,
        high: f64,
        step: f64,
    },
    Int {
        low: i64,
        high: i64,
    },
    /// `low > 0`.
    LogInt {
        low: i64,
        high: i64,
    },
    /// Both are powers of two.
    PowerOfTwo {
        low: u64,
        high: u64,
    },
    /// Not empty, in no order.
    Choice(Vec<Value>),
    /// Not empty, neighbours are alike.
    Ordinal(Vec<Value>),
    Boolean,
    Fixed(Value),
    /// An expression over the other parameters, as written.
    Derived(String),
}

impl Domain {
    /// Whether all its values can be listed.
    pub fn is_finite(&self) -> bool {
        !matches!(self, Self::Uniform { .. } | Self::LogUniform { .. })
    }
}
