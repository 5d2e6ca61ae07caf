//! Randomness that can be had again: a generator is a function of the sweep's seed and the trial's number, so that
//! a restarted sweep suggests what it would have suggested.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// The generator for one suggestion.
#[derive(Debug, Clone)]
pub struct Rng {
    seed: u64,
    stream: ChaCha8Rng,
}

/// The generator for trial `trial` of a sweep with this seed.
pub fn rng(seed: u64, trial: u32) -> Rng {
    // Stream 0 is the sweep's own, see `Rng::sweep`.
    stream(seed, u64::from(trial) + 1)
}

/// The generator for what becomes of trial `trial` at a step; no other generator gives the same numbers.
pub(super) fn judgement(seed: u64, trial: u32, step: i64) -> Rng {
    let mut mixed = stream(seed, u64::MAX);
    let salt = mixed.bits();
    // An odd multiplier keeps different steps apart.
    let own = salt ^ step.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Rng { seed, ..stream(own, u64::from(trial) + 1) }
}

fn stream(seed: u64, number: u64) -> Rng {
    let mut stream = ChaCha8Rng::seed_from_u64(seed);
    stream.set_stream(number);
    Rng { seed, stream }
}

impl Rng {
    /// A generator that is the same for all trials of the sweep, for what they must agree on.
    pub fn sweep(&self) -> Self {
        stream(self.seed, 0)
    }

    /// One of many such generators, for what the trials of a generation must agree on.
    pub(super) fn shared(&self, number: u32) -> Self {
        // Beyond the streams of all trials.
        stream(self.seed, (1 << 33) + u64::from(number))
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        // The upper 53 bits: as many as the mantissa holds.
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `0..count`; 0 if `count` is 0.
    pub fn below(&mut self, count: usize) -> usize {
        let wide = u128::from(self.bits()) * count as u128;
        (wide >> 64) as usize
    }

    /// Standard normal.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    pub fn bits(&mut self) -> u64 {
        self.stream.next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_and_trial_give_the_same_numbers() {
        let draw = |seed, trial| rng(seed, trial).bits();
        assert_eq!(draw(7, 3), draw(7, 3));
        assert_ne!(draw(7, 3), draw(7, 4));
        assert_ne!(draw(7, 3), draw(8, 3));
        assert_eq!(rng(7, 3).sweep().bits(), rng(7, 4).sweep().bits());
    }

    #[test]
    fn draws_stay_in_their_ranges() {
        let mut rng = rng(1, 0);
        for _ in 0..1_000 {
            assert!((0.0..1.0).contains(&rng.unit()));
            assert!(rng.below(3) < 3);
            assert!(rng.normal().is_finite());
        }
        assert_eq!(rng.below(0), 0);
    }
}
