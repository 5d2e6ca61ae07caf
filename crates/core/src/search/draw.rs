//! Configurations at random.

use crate::value::Params;

use super::rng::Rng;
use super::{Point, Space};

impl Space {
    /// How often a sampler may draw before it settles for a point that breaks a constraint.
    pub const TRIES: usize = 1_000;

    /// A uniform draw that keeps the constraints, unless [`Space::TRIES`] draws found none.
    pub fn draw(&self, rng: &mut Rng) -> Params {
        self.draw_around(&Params::new(), rng)
    }

    /// The same, with the values that are given; those outside their domains are drawn like the others.
    pub fn draw_around(&self, given: &Params, rng: &mut Rng) -> Params {
        let fixed = self.point(given);
        let mut point = Point::new();
        for _ in 0..Self::TRIES {
            point = fixed.iter().map(|at| if at.is_nan() { rng.unit() } else { *at }).collect();
            if let Ok(params) = self.settle(&mut point) {
                return params;
            }
        }
        self.settle_anyway(&mut point)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::search::rng;
    use crate::space::{Dimension, Domain};
    use crate::value::Value;

    #[test]
    fn draws_keep_constraints_and_what_is_given() {
        let int = || Dimension { domain: Domain::Int { low: 1, high: 6 }, when: None };
        let dimensions = BTreeMap::from([("a".to_owned(), int()), ("b".to_owned(), int())]);
        let space = Space::new(&dimensions, &["a * b <= 6".to_owned(), "a % b == 0".to_owned()]).expect("space");
        let all: Vec<Params> = space.grid(1).collect();
        let mut rng = rng(1, 0);
        assert!((0..100).all(|_| all.contains(&space.draw(&mut rng))));
        let given = Params::from([("a".to_owned(), Value::Int(4))]);
        assert!((0..20).all(|_| space.draw_around(&given, &mut rng).get("a") == Some(&Value::Int(4))));
    }
}
