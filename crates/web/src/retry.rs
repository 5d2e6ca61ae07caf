//! Asking again, less and less often.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

use crate::error::Error;

/// How often, and after which pauses. Each pause is twice as long as the one before, within half of it by chance, so that many
/// who were cut off together do not come back together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// After the first attempt.
    pub times: u32,
    pub first: Duration,
    pub longest: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { times: 4, first: Duration::from_millis(250), longest: Duration::from_secs(10) }
    }
}

impl Retry {
    /// Never again.
    pub const NONE: Self = Self { times: 0, first: Duration::ZERO, longest: Duration::ZERO };

    /// Does `work` again while it fails in a way that may pass. For work that may be done twice without harm, and only that.
    pub fn run<T>(&self, mut work: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        let mut pause = self.first;
        for _ in 0..self.times {
            match work() {
                Err(error) if error.may_pass() => std::thread::sleep(self.wait(pause, &error)),
                other => return other,
            }
            pause = (pause * 2).min(self.longest);
        }
        work()
    }

    fn wait(&self, pause: Duration, error: &Error) -> Duration {
        let chance = RandomState::new().hash_one(0) % 512;
        let ours = pause * u32::try_from(512 + chance).unwrap_or(512) / 1024;
        error.retry_after().map_or(ours, |theirs| theirs.clamp(ours, self.longest.max(ours)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Retry = Retry { times: 3, first: Duration::from_millis(1), longest: Duration::from_millis(2) };

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let mut count = 0;
        let refused = FAST.run(|| -> Result<(), Error> {
            count += 1;
            Err(Error::Refused { address: "a".to_owned() })
        });
        assert!(matches!((refused, count), (Err(Error::Refused { .. }), 4)));
        let unknown = FAST.run(|| -> Result<(), Error> {
            count += 1;
            Err(Error::UnknownHost { host: "a".to_owned() })
        });
        assert!(matches!((unknown, count), (Err(Error::UnknownHost { .. }), 5)));
    }

    #[test]
    fn it_ends_with_the_first_success() {
        let mut count = 0;
        let done = FAST.run(|| {
            count += 1;
            if count < 3 { Err(Error::Refused { address: "a".to_owned() }) } else { Ok(count) }
        });
        assert!(matches!(done, Ok(3)));
    }
}
