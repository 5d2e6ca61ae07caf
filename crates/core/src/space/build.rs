//! From the dimensions of a job file to a space: expressions are read, names are bound, and parameters are put
//! in an order in which each comes after those it depends on.

use std::collections::BTreeMap;

use crate::value::Value;

use super::{Axis, Bound, Dimension, Domain, Expression, Parameter, Source, Space, SpaceError};

/// A parameter whose expressions are read but not bound.
struct Draft {
    when: Option<(String, Expression)>,
    kind: DraftKind,
}

enum DraftKind {
    Searched(Axis),
    Fixed(Value),
    Derived(String, Expression),
}

impl Space {
    /// A space of these dimensions in which all constraints hold.
    pub fn new(dimensions: &BTreeMap<String, Dimension>, constraints: &[String]) -> Result<Self, SpaceError> {
        let drafts: Result<BTreeMap<_, _>, _> =
            dimensions.iter().map(|(name, dimension)| Ok((name.as_str(), draft(name, dimension)?))).collect();
        let drafts = drafts?;
        let order = order(&drafts)?;
        let places: BTreeMap<&str, usize> = order.iter().enumerate().map(|(place, name)| (*name, place)).collect();
        let mut searched = Vec::new();
        let mut parameters = Vec::new();
        for (place, name) in order.iter().enumerate() {
            let Some(draft) = drafts.get(name) else { continue };
            let source = match &draft.kind {
                DraftKind::Searched(axis) => {
                    searched.push(place);
                    Source::Searched { axis: axis.clone(), coordinate: searched.len() - 1 }
                }
                DraftKind::Fixed(value) => Source::Fixed(value.clone()),
                DraftKind::Derived(text, expression) => Source::Derived(bind(text, expression, &places)),
            };
            let when = draft.when.as_ref().map(|(text, expression)| bind(text, expression, &places));
            parameters.push(Parameter { name: (*name).to_owned(), source, when });
        }
        let mut by_name: Vec<usize> = (0..searched.len()).collect();
        by_name.sort_by_key(|coordinate| searched.get(*coordinate).and_then(|place| order.get(*place)));
        let constraints = constraints.iter().map(|text| constraint(text, &places)).collect::<Result<_, _>>()?;
        Ok(Self { parameters, constraints, searched, by_name })
    }
}

fn draft(name: &str, dimension: &Dimension) -> Result<Draft, SpaceError> {
    let read = |text: &String| match Expression::parse(text) {
        Ok(expression) => Ok((text.clone(), expression)),
        Err(source) => Err(SpaceError::Expression { parameter: name.to_owned(), text: text.clone(), source }),
    };
    let kind = match &dimension.domain {
        Domain::Fixed(value) => DraftKind::Fixed(value.clone()),
        Domain::Derived(text) => read(text).map(|(text, expression)| DraftKind::Derived(text, expression))?,
        domain => {
            DraftKind::Searched(Axis::new(domain).ok_or_else(|| SpaceError::Empty { parameter: name.to_owned() })?)
        }
    };
    Ok(Draft { when: dimension.when.as_ref().map(read).transpose()?, kind })
}

impl Draft {
    fn names(&self) -> impl Iterator<Item = &str> {
        let derived = match &self.kind {
            DraftKind::Derived(_, expression) => expression.names(),
            _ => &[],
        };
        let when = self.when.as_ref().map_or(&[][..], |(_, expression)| expression.names());
        when.iter().chain(derived).map(String::as_str)
    }
}

/// By name, except where one depends on another.
fn order<'a>(drafts: &BTreeMap<&'a str, Draft>) -> Result<Vec<&'a str>, SpaceError> {
    for (parameter, draft) in drafts {
        if let Some(name) = draft.names().find(|name| !drafts.contains_key(name)) {
            return Err(SpaceError::Unknown { parameter: (*parameter).to_owned(), name: name.to_owned() });
        }
    }
    let mut order: Vec<&str> = Vec::new();
    while order.len() < drafts.len() {
        let placed = order.len();
        for (name, draft) in drafts {
            if !order.contains(name) && draft.names().all(|needed| order.contains(&needed)) {
                order.push(name);
            }
        }
        if order.len() == placed {
            let stuck = drafts.keys().find(|name| !order.contains(name));
            return Err(SpaceError::Circular { parameter: stuck.map_or_else(String::new, |s| (*s).to_owned()) });
        }
    }
    Ok(order)
}

fn bind(text: &str, expression: &Expression, places: &BTreeMap<&str, usize>) -> Bound {
    let place = |name: &String| places.get(name.as_str()).copied().unwrap_or(usize::MAX);
    let places = expression.names().iter().map(place).collect();
    Bound { text: text.to_owned(), expression: expression.clone(), places }
}

fn constraint(text: &str, places: &BTreeMap<&str, usize>) -> Result<Bound, SpaceError> {
    let expression =
        Expression::parse(text).map_err(|source| SpaceError::Constraint { text: text.to_owned(), source })?;
    match expression.names().iter().find(|name| !places.contains_key(name.as_str())) {
        Some(name) => Err(SpaceError::ConstraintUnknown { text: text.to_owned(), name: name.clone() }),
        None => Ok(bind(text, &expression, places)),
    }
}
