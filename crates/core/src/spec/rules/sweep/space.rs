//! Whether the search space is one: expressions can be read, names are known, nothing depends on itself, and the
//! points to try first lie in it.

use std::collections::BTreeMap;

use crate::space::{Dimension, Domain, Expression, Space, SpaceError, Unfit};
use crate::spec::decode::dimension;
use crate::spec::nearest::did_you_mean;
use crate::spec::problem::Problem;
use crate::spec::read::Reader;
use crate::value::Params;

/// Points at which expressions are tried out; the first that fits is enough. More than a sampler would try.
const TRIALS: u64 = 4_000;

/// `None` if something is wrong with it, here or earlier.
pub(super) fn check(sweep: &Reader<'_>, problems: &mut Vec<Problem>) -> Option<Space> {
    let readers: BTreeMap<&str, Reader<'_>> = sweep.tables("space").into_iter().collect();
    let dimensions: Option<BTreeMap<String, Dimension>> =
        readers.iter().map(|(name, reader)| Some(((*name).to_owned(), dimension(reader).ok()?))).collect();
    let dimensions = dimensions?;
    let constraints: Vec<String> = sweep.get("constraints").ok()??;
    let before = problems.len();
    for (name, reader) in &readers {
        for key in ["when", "derived"] {
            let Ok(Some(text)) = reader.get::<String>(key) else { continue };
            problems.extend(
                expression(&text, &dimensions, name).map(|(message, hint)| reader.problem(key, message).hint(hint)),
            );
        }
    }
    for (index, text) in constraints.iter().enumerate() {
        let found = expression(text, &dimensions, "");
        problems.extend(found.map(|(message, hint)| sweep.item_problem("constraints", index, message).hint(hint)));
    }
    if problems.len() > before {
        return None;
    }
    match Space::new(&dimensions, &constraints) {
        Ok(space) => {
            problems.extend(unfit(&space, sweep, &readers));
            Some(space)
        }
        Err(error) => {
            problems.push(unmade(&error, sweep, &readers));
            None
        }
    }
}

/// What is wrong with an expression of the parameter `own`, and what was perhaps meant.
fn expression(text: &str, dimensions: &BTreeMap<String, Dimension>, own: &str) -> Option<(String, Option<String>)> {
    // Empty texts were refused already.
    if text.trim().is_empty() {
        return None;
    }
    let read = match Expression::parse(text) {
        Ok(read) => read,
        Err(error) => return Some((format!("cannot read `{text}`: {error}"), None)),
    };
    if read.names().iter().any(|name| name == own) {
        return Some(("depends on itself".to_owned(), None));
    }
    let unknown = read.names().iter().find(|name| !dimensions.contains_key(*name))?;
    let known = dimensions.keys().map(String::as_str);
    Some((format!("no parameter of the space is called `{unknown}`"), did_you_mean(unknown, known)))
}

fn unmade(error: &SpaceError, sweep: &Reader<'_>, readers: &BTreeMap<&str, Reader<'_>>) -> Problem {
    let (SpaceError::Empty { parameter }
    | SpaceError::Circular { parameter }
    | SpaceError::Expression { parameter, .. }
    | SpaceError::Unknown { parameter, .. }) = error
    else {
        return sweep.problem("constraints", error.to_string());
    };
    match readers.get(parameter.as_str()) {
        Some(reader) => {
            let key = if reader.has("derived") { "derived" } else { "when" };
            reader.problem(key, error.to_string())
        }
        None => sweep.problem("space", error.to_string()),
    }
}

/// An expression that has no value anywhere, as one that adds a text and a number; or constraints that nothing keeps.
fn unfit(space: &Space, sweep: &Reader<'_>, readers: &BTreeMap<&str, Reader<'_>>) -> Option<Problem> {
    let axes = space.axes().len() as u64;
    let mut last = None;
    for trial in 0..TRIALS {
        let mut point = (0..axes).map(|axis| scattered(trial * axes + axis)).collect();
        match space.settle(&mut point) {
            Err(unfit @ (Unfit::Fault { .. } | Unfit::Constraint { .. })) => last = Some(unfit),
            _ => return None,
        }
    }
    match last? {
        Unfit::Fault { parameter, text, source } => {
            let reader = readers.get(parameter.as_str())?;
            let key = if reader.get("derived").ok().flatten().as_ref() == Some(&text) { "derived" } else { "when" };
            Some(reader.problem(key, format!("cannot evaluate `{text}`: {source}")))
        }
        _ => {
            let message = format!("none of {TRIALS} configurations of the space keeps them");
            let hint = "narrow the ranges, or derive one parameter from the others".to_owned();
            Some(sweep.problem("constraints", message).hint(hint))
        }
    }
}

/// A number from the unit interval that looks like chance and is always the same (the mixing of SplitMix64).
fn scattered(index: u64) -> f64 {
    let mut mixed = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

pub(super) fn points(sweep: &Reader<'_>, space: &Space, problems: &mut Vec<Problem>) {
    let Ok(Some(points)) = sweep.get::<Vec<Params>>("points") else { return };
    for (index, point) in points.iter().enumerate() {
        problems.extend(
            wrong_point(sweep, space, point)
                .map(|(message, hint)| sweep.item_problem("points", index, message).hint(hint)),
        );
    }
}

fn wrong_point(sweep: &Reader<'_>, space: &Space, point: &Params) -> Option<(String, Option<String>)> {
    for (name, value) in point {
        let Some((_, axis)) = space.axes().find(|(axis, _)| axis == name) else {
            let is_there = sweep.names_in("space").contains(&name.as_str());
            return Some(match is_there {
                true => (format!("`{name}` is not searched but follows from the others"), None),
                false => {
                    let known = space.axes().map(|(axis, _)| axis);
                    (format!("no parameter of the space is called `{name}`"), did_you_mean(name, known))
                }
            });
        };
        if axis.encode(value).is_none() {
            return Some((format!("`{name}` is none of the values it may take"), None));
        }
    }
    match space.check(point) {
        Ok(()) | Err(Unfit::Absent { .. }) => None,
        Err(Unfit::Fault { text, source, .. }) => Some((format!("cannot evaluate `{text}`: {source}"), None)),
        Err(unfit) => Some((unfit.to_string(), None)),
    }
}

/// Whether a grid over these ends.
pub(super) fn is_finite(sweep: &Reader<'_>) -> Option<bool> {
    let space = sweep.tables("space").into_iter();
    let domains: Option<Vec<Domain>> = space.map(|(_, reader)| Some(dimension(&reader).ok()?.domain)).collect();
    Some(domains?.iter().all(Domain::is_finite))
}
