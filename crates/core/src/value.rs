//! A parameter's value: what a search space samples, a job file fixes and a command line receives.

use serde::{Deserialize, Serialize};

/// Ordered tables, so that the same parameters always give the same command line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Value>),
    Table(std::collections::BTreeMap<String, Value>),
}

/// Named parameters of one run.
pub type Params = std::collections::BTreeMap<String, Value>;
