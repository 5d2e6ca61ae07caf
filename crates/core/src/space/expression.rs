//! Small expressions over parameters: conditions, derived values and constraints. Reading and evaluating end
//! for every text: no loops in the language, bounded length and depth, no panics.

mod arithmetic;
mod function;
mod parse;
mod token;

use crate::value::Value;

use arithmetic::{Operator, negate, truth};
use function::Function;

/// An expression that has been read. Names are numbered in the order of their first appearance.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    root: Node,
    names: Vec<String>,
}

/// Why a text is not an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} at column {}", .at + 1)]
pub struct ExpressionError {
    pub what: String,
    /// Offset in bytes.
    pub at: usize,
}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It reads a parameter that is not active.
    #[error("`{0}` has no value here")]
    Missing(String),
    #[error("{what} at column {}", .at + 1)]
    Wrong { what: String, at: usize },
}

#[derive(Debug, Clone, PartialEq)]
struct Node {
    at: usize,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Literal(Value),
    Name(usize),
    Negate(Box<Node>),
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    If(Box<[Node; 3]>),
    Binary(Operator, Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
}

impl Expression {
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        parse::parse(text)
    }

    /// The parameters it reads, each once.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Its value; `lookup` gives the value of the name with this number in [`Expression::names`].
    pub fn evaluate<'v>(&self, lookup: &dyn Fn(usize) -> Option<&'v Value>) -> Result<Value, Fault> {
        self.value(&self.root, lookup)
    }

    /// Its value as a condition.
    pub fn holds<'v>(&self, lookup: &dyn Fn(usize) -> Option<&'v Value>) -> Result<bool, Fault> {
        self.truth(&self.root, lookup)
    }

    fn truth<'v>(&self, node: &Node, lookup: &dyn Fn(usize) -> Option<&'v Value>) -> Result<bool, Fault> {
        let value = self.value(node, lookup)?;
        truth(&value).ok_or_else(|| wrong("expected true or false", node.at))
    }

    fn value<'v>(&self, node: &Node, lookup: &dyn Fn(usize) -> Option<&'v Value>) -> Result<Value, Fault> {
        match &node.kind {
            Kind::Literal(value) => Ok(value.clone()),
            Kind::Name(number) => lookup(*number).cloned().ok_or_else(|| self.missing(*number)),
            Kind::Negate(inner) => negate(&self.value(inner, lookup)?).map_err(|what| wrong(what, node.at)),
            Kind::Not(inner) => Ok(Value::Bool(!self.truth(inner, lookup)?)),
            Kind::And(left, right) => Ok(Value::Bool(self.truth(left, lookup)? && self.truth(right, lookup)?)),
            Kind::Or(left, right) => Ok(Value::Bool(self.truth(left, lookup)? || self.truth(right, lookup)?)),
            Kind::If(parts) => {
                let [condition, yes, no] = parts.as_ref();
                if self.truth(condition, lookup)? { self.value(yes, lookup) } else { self.value(no, lookup) }
            }
            Kind::Binary(operator, left, right) => operator
                .apply(&self.value(left, lookup)?, &self.value(right, lookup)?)
                .map_err(|what| wrong(what, node.at)),
            Kind::Call(function, arguments) => {
                let values: Result<Vec<_>, _> = arguments.iter().map(|node| self.value(node, lookup)).collect();
                function.apply(&values?).map_err(|what| wrong(what, node.at))
            }
        }
    }

    fn missing(&self, number: usize) -> Fault {
        Fault::Missing(self.names.get(number).cloned().unwrap_or_default())
    }
}

fn wrong(what: impl Into<String>, at: usize) -> Fault {
    Fault::Wrong { what: what.into(), at }
}

#[cfg(test)]
mod tests;
