//! Parameters that differ a little from others.

use crate::search::rng::Rng;
use crate::search::{Point, Space};
use crate::spec::Mutate;
use crate::value::Params;

/// How often a change is drawn before the parameters stay as they are.
const TRIES: usize = 100;

/// In the space, if `params` are: what a change makes active is drawn, and what breaks a constraint is drawn again. At
/// least one parameter changes, unless the space leaves no choice.
pub(super) fn mutate(space: &Space, params: &Params, rule: Mutate, rng: &mut Rng) -> Params {
    let origin = space.point(params);
    for _ in 0..TRIES {
        let mut point = changed(space, &origin, rule, rng);
        if let Ok(found) = space.settle(&mut point)
            && found != *params
        {
            return found;
        }
    }
    params.clone()
}

fn changed(space: &Space, origin: &Point, rule: Mutate, rng: &mut Rng) -> Point {
    let active: Vec<usize> =
        (0..origin.len()).filter(|index| origin.get(*index).is_some_and(|at| !at.is_nan())).collect();
    let always = active.get(rng.below(active.len())).copied();
    let mut point = Point::with_capacity(origin.len());
    for (index, ((_, axis), at)) in space.axes().zip(origin).enumerate() {
        let is_chosen = rng.unit() < rule.rate;
        let [low, high] = rule.range;
        let factor = low + rng.unit() * (high - low);
        let factor = if rng.unit() < 0.5 { factor } else { 1.0 / factor };
        let draw = rng.unit();
        point.push(match at.is_nan() {
            true => draw,
            false if !is_chosen && always != Some(index) => *at,
            false => axis.nudge(*at, factor, draw),
        });
    }
    point
}
