//! A search space: what is sampled, what follows from it, and what must hold between parameters.

pub(crate) mod axis;
mod build;
mod domain;
mod expression;
mod grid;

use crate::value::{Params, Value};

pub use axis::Axis;
pub use domain::{Dimension, Domain};
pub use expression::{Expression, ExpressionError, Fault};
pub use grid::Grid;

/// All parameters of a sweep, each after those it depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Space {
    parameters: Vec<Parameter>,
    constraints: Vec<Bound>,
    /// The searched parameters by their place in `parameters`; a point has one coordinate for each.
    searched: Vec<usize>,
    /// The same coordinates, ordered by name as in `Params`.
    by_name: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq)]
struct Parameter {
    name: String,
    source: Source,
    when: Option<Bound>,
}

#[derive(Debug, Clone, PartialEq)]
enum Source {
    Searched { axis: Axis, coordinate: usize },
    Fixed(Value),
    Derived(Bound),
}

/// An expression whose names are places in `Space::parameters`.
#[derive(Debug, Clone, PartialEq)]
struct Bound {
    text: String,
    expression: Expression,
    places: Vec<usize>,
}

/// Why there is no such space.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    #[error("`{parameter}` has no values to choose from")]
    Empty { parameter: String },
    #[error("`{parameter}`: cannot read `{text}`")]
    Expression { parameter: String, text: String, source: ExpressionError },
    #[error("`{parameter}` refers to `{name}`, which is not in the space")]
    Unknown { parameter: String, name: String },
    #[error("`{parameter}` depends on itself")]
    Circular { parameter: String },
    #[error("cannot read the constraint `{text}`")]
    Constraint { text: String, source: ExpressionError },
    #[error("the constraint `{text}` refers to `{name}`, which is not in the space")]
    ConstraintUnknown { text: String, name: String },
}

/// Why a configuration cannot be tried.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unfit {
    #[error("`{parameter}` is missing")]
    Absent { parameter: String },
    #[error("`{parameter}` is not one of the values of its domain")]
    Outside { parameter: String },
    #[error("`{parameter}` is given but not searched here")]
    Surplus { parameter: String },
    #[error("`{parameter}`: cannot evaluate `{text}`")]
    Fault { parameter: String, text: String, source: Fault },
    #[error("the constraint `{text}` does not hold")]
    Constraint { text: String },
}

/// A configuration as coordinates, one per axis; NaN where the axis is not active.
pub type Point = Vec<f64>;

impl Bound {
    fn evaluate(&self, values: &[Option<Value>]) -> Result<Value, Fault> {
        self.expression.evaluate(&|number| values.get(*self.places.get(number)?)?.as_ref())
    }

    /// `None` if it reads a parameter that is not active.
    fn holds(&self, values: &[Option<Value>]) -> Result<Option<bool>, Fault> {
        match self.expression.holds(&|number| values.get(*self.places.get(number)?)?.as_ref()) {
            Ok(holds) => Ok(Some(holds)),
            Err(Fault::Missing(_)) => Ok(None),
            Err(fault) => Err(fault),
        }
    }
}

impl Space {
    /// The searched parameters in the order of a point's coordinates.
    pub fn axes(&self) -> impl ExactSizeIterator<Item = (&str, &Axis)> + Clone {
        self.searched.iter().map(|place| {
            // `searched` lists places of `Searched` parameters only; `build` makes both.
            match &self.parameters[*place] {
                Parameter { name, source: Source::Searched { axis, .. }, .. } => (name.as_str(), axis),
                _ => unreachable!("not a searched parameter"),
            }
        })
    }

    /// Whether every point is active in all its coordinates and breaks no constraint.
    pub fn is_plain(&self) -> bool {
        self.constraints.is_empty() && !self.is_conditional()
    }

    pub fn is_conditional(&self) -> bool {
        self.parameters.iter().any(|p| p.when.is_some() && matches!(p.source, Source::Searched { .. }))
    }

    /// Whether this coordinate of a point may be inactive.
    pub(crate) fn is_conditional_at(&self, coordinate: usize) -> bool {
        let place = self.searched.get(coordinate).and_then(|place| self.parameters.get(*place));
        place.is_some_and(|parameter| parameter.when.is_some())
    }

    /// Sampled values with the fixed and derived ones added and the inactive ones left out.
    ///
    /// A derived value that reads an inactive parameter is inactive itself.
    pub fn complete(&self, sampled: &Params) -> Result<Params, Unfit> {
        let values = self.resolve(&mut |parameter, axis, _| {
            let absent = || Unfit::Absent { parameter: parameter.to_owned() };
            let value = sampled.get(parameter).ok_or_else(absent)?;
            axis.encode(value).ok_or_else(|| Unfit::Outside { parameter: parameter.to_owned() })?;
            Ok(value.clone())
        })?;
        let named = self.parameters.iter().zip(values);
        Ok(named.filter_map(|(parameter, value)| Some((parameter.name.clone(), value?))).collect())
    }

    /// Whether the sampled values are exactly the active ones, in their domains, and every constraint holds.
    pub fn check(&self, sampled: &Params) -> Result<(), Unfit> {
        let complete = self.complete(sampled)?;
        let surplus = sampled
            .keys()
            .find(|name| !complete.contains_key(*name) || !self.axes().any(|(axis, _)| axis == name.as_str()));
        if let Some(parameter) = surplus {
            return Err(Unfit::Surplus { parameter: parameter.clone() });
        }
        let values: Vec<_> = self.parameters.iter().map(|p| complete.get(&p.name).cloned()).collect();
        self.constraints_hold(&values)
    }

    pub fn contains(&self, sampled: &Params) -> bool {
        self.check(sampled).is_ok()
    }

    /// The coordinates of sampled values; NaN where there is none or it lies outside its domain.
    pub fn point(&self, sampled: &Params) -> Point {
        let mut point = vec![f64::NAN; self.searched.len()];
        self.point_into(sampled, &mut point);
        point
    }

    /// Both sides are ordered by name, so one pass over them is enough.
    pub(crate) fn point_into(&self, sampled: &Params, point: &mut [f64]) {
        point.fill(f64::NAN);
        let mut given = sampled.iter().peekable();
        for &coordinate in &self.by_name {
            let Some(parameter) = self.searched.get(coordinate).and_then(|place| self.parameters.get(*place)) else {
                continue;
            };
            while given.next_if(|(name, _)| **name < parameter.name).is_some() {}
            let Some((_, value)) = given.next_if(|(name, _)| **name == parameter.name) else { continue };
            if let (Source::Searched { axis, .. }, Some(slot)) = (&parameter.source, point.get_mut(coordinate)) {
                *slot = axis.encode(value).unwrap_or(f64::NAN);
            }
        }
    }

    /// The values at a point's coordinates. What is not active is left out and becomes NaN in the point; what is
    /// active moves to the coordinate of its value. Fails if a constraint or an expression does.
    pub fn settle(&self, point: &mut Point) -> Result<Params, Unfit> {
        let values = self.values(point)?;
        self.constraints_hold(&values)?;
        Ok(self.sampled(values, point))
    }

    /// The same without regard to constraints, for when nothing better was found.
    pub fn settle_anyway(&self, point: &mut Point) -> Params {
        let values = self.values(point).unwrap_or_else(|_| vec![None; self.parameters.len()]);
        self.sampled(values, point)
    }

    fn values(&self, point: &[f64]) -> Result<Vec<Option<Value>>, Unfit> {
        self.resolve(&mut |_, axis, coordinate| Ok(axis.decode(point.get(coordinate).copied().unwrap_or(0.5))))
    }

    fn sampled(&self, values: Vec<Option<Value>>, point: &mut Point) -> Params {
        point.resize(self.searched.len(), f64::NAN);
        let mut params = Params::new();
        for (parameter, value) in self.parameters.iter().zip(values) {
            let Source::Searched { axis, coordinate } = &parameter.source else { continue };
            if let Some(slot) = point.get_mut(*coordinate) {
                *slot = value.as_ref().and_then(|value| axis.encode(value)).unwrap_or(f64::NAN);
            }
            params.extend(value.map(|value| (parameter.name.clone(), value)));
        }
        params
    }

    /// The values of all active parameters, in order; `pick` gives those of the searched ones.
    fn resolve(
        &self,
        pick: &mut dyn FnMut(&str, &Axis, usize) -> Result<Value, Unfit>,
    ) -> Result<Vec<Option<Value>>, Unfit> {
        let mut values = Vec::with_capacity(self.parameters.len());
        for parameter in &self.parameters {
            let fault = |bound: &Bound, source| Unfit::Fault {
                parameter: parameter.name.clone(),
                text: bound.text.clone(),
                source,
            };
            let active = match &parameter.when {
                None => true,
                Some(when) => when.holds(&values).map_err(|source| fault(when, source))?.unwrap_or(false),
            };
            let value = match &parameter.source {
                _ if !active => None,
                Source::Searched { axis, coordinate } => Some(pick(&parameter.name, axis, *coordinate)?),
                Source::Fixed(value) => Some(value.clone()),
                Source::Derived(bound) => match bound.evaluate(&values) {
                    Ok(value) => Some(value),
                    Err(Fault::Missing(_)) => None,
                    Err(source) => return Err(fault(bound, source)),
                },
            };
            values.push(value);
        }
        Ok(values)
    }

    /// A constraint that reads an inactive parameter says nothing.
    fn constraints_hold(&self, values: &[Option<Value>]) -> Result<(), Unfit> {
        let broken = self.constraints.iter().find(|bound| !matches!(bound.holds(values), Ok(Some(true) | None)));
        broken.map_or(Ok(()), |bound| Err(Unfit::Constraint { text: bound.text.clone() }))
    }
}

#[cfg(test)]
mod tests;
