//! Sobol's sequence: points that fill the space evenly from the first one on.

use crate::search::{History, Rng, Space};
use crate::value::Params;

use super::Sampler;

/// The trial's number is its place in the sequence; a shift drawn from the sweep's seed moves all points alike.
/// Parameters beyond the 21st are drawn at random.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sobol;

/// Primitive polynomials (degree, inner coefficients) and first direction numbers of the dimensions after the
/// first: Joe and Kuo, `new-joe-kuo-6.21201`.
const DIRECTIONS: [(u32, u32, &[u32]); 20] = [
    (1, 0, &[1]),
    (2, 1, &[1, 3]),
    (3, 1, &[1, 3, 1]),
    (3, 2, &[1, 1, 1]),
    (4, 1, &[1, 1, 3, 3]),
    (4, 4, &[1, 3, 5, 13]),
    (5, 2, &[1, 1, 5, 5, 17]),
    (5, 4, &[1, 1, 5, 5, 5]),
    (5, 7, &[1, 1, 7, 11, 19]),
    (5, 11, &[1, 1, 5, 1, 1]),
    (5, 13, &[1, 1, 1, 3, 11]),
    (5, 14, &[1, 3, 5, 5, 31]),
    (6, 1, &[1, 3, 3, 9, 7, 49]),
    (6, 13, &[1, 1, 1, 15, 21, 21]),
    (6, 16, &[1, 3, 1, 13, 27, 49]),
    (6, 19, &[1, 1, 1, 15, 7, 5]),
    (6, 22, &[1, 3, 1, 15, 13, 25]),
    (6, 25, &[1, 1, 5, 5, 19, 61]),
    (7, 1, &[1, 3, 7, 11, 23, 15, 103]),
    (7, 4, &[1, 3, 7, 13, 13, 15, 69]),
];

impl Sampler for Sobol {
    fn ask(&self, space: &Space, history: &History<'_>, rng: &mut Rng) -> Params {
        let index = history.trials.len() as u32;
        let mut shift = rng.sweep();
        let shifts: Vec<f64> = space.axes().map(|_| shift.unit()).collect();
        let at = |dimension: usize, shift: f64, rng: &mut Rng| match coordinate(dimension, index) {
            Some(even) => (even + shift).fract(),
            None => rng.unit(),
        };
        let mut point = shifts.iter().enumerate().map(|(dimension, shift)| at(dimension, *shift, rng)).collect();
        // A point that breaks a constraint has no neighbour in the sequence to stand in for it.
        space.settle(&mut point).unwrap_or_else(|_| space.draw(rng))
    }
}

/// Of the point with this index; `None` beyond the dimensions of the table.
pub(super) fn coordinate(dimension: usize, index: u32) -> Option<f64> {
    let numbers = match dimension.checked_sub(1) {
        None => std::array::from_fn(|bit| 1 << (31 - bit)),
        Some(row) => directions(*DIRECTIONS.get(row)?),
    };
    let gray = index ^ (index >> 1);
    let bits = numbers.iter().enumerate().filter(|(bit, _)| gray >> bit & 1 == 1);
    Some(f64::from(bits.fold(0, |sum, (_, number)| sum ^ number)) / 2f64.powi(32))
}

fn directions((degree, polynomial, first): (u32, u32, &[u32])) -> [u32; 32] {
    let mut numbers = [0u32; 32];
    let degree = degree as usize;
    for (bit, (slot, number)) in numbers.iter_mut().zip(first).enumerate() {
        *slot = number << (31 - bit);
    }
    for bit in degree..32 {
        // All indices lie in 0..32: `bit` does, and the degree is at least 1 and at most `bit`.
        let mut number = numbers[bit - degree] ^ (numbers[bit - degree] >> degree);
        for term in 1..degree {
            if polynomial >> (degree - 1 - term) & 1 == 1 {
                number ^= numbers[bit - term];
            }
        }
        numbers[bit] = number;
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_power_of_two_points_hit_every_cell_once() {
        for dimension in 0..=DIRECTIONS.len() {
            let mut cells: Vec<u32> =
                (0..64).filter_map(|index| Some((coordinate(dimension, index)? * 64.0) as u32)).collect();
            cells.sort_unstable();
            assert_eq!(cells, (0..64).collect::<Vec<u32>>(), "dimension {dimension}");
        }
        assert_eq!(coordinate(21, 1), None);
    }

    #[test]
    fn first_points_are_those_of_joe_and_kuo() {
        let point = |index| -> Vec<f64> { (0..5).filter_map(|dimension| coordinate(dimension, index)).collect() };
        assert_eq!(point(1), [0.5; 5]);
        assert_eq!(point(2), [0.75, 0.25, 0.25, 0.25, 0.75]);
        assert_eq!(point(3), [0.25, 0.75, 0.75, 0.75, 0.25]);
    }
}
