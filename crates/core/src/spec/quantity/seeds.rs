//! Lists of seeds as text: `"1-5"`, `"1,2,7"`, `"1-3,8"`. The command line reads `--seeds` with it too.

use std::collections::BTreeSet;

use thiserror::Error;

/// More runs than this at once are a slip of the finger.
pub const MOST_SEEDS: usize = 100_000;

pub(in crate::spec) const PATTERN: &str = r"^\s*[0-9]+(\s*-\s*[0-9]+)?(\s*,\s*[0-9]+(\s*-\s*[0-9]+)?)*\s*$";

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SeedsError {
    #[error("expected seeds such as \"1-5\" or \"1,2,7\", found {0:?}")]
    NotSeeds(String),
    #[error("the range `{from}-{to}` runs backwards, write `{to}-{from}`")]
    Backwards { from: u64, to: u64 },
    #[error("seed {0} is given twice")]
    Twice(u64),
    #[error("more than {MOST_SEEDS} seeds")]
    TooMany,
}

/// The seeds in the order written. A seed that is given twice is refused: it would be the same run.
pub fn parse_seeds(text: &str) -> Result<Vec<u64>, SeedsError> {
    let mut seeds = Vec::new();
    let mut known = BTreeSet::new();
    for part in text.split(',') {
        let (from, to) = parse_range(part).ok_or_else(|| SeedsError::NotSeeds(text.to_owned()))?;
        if from > to {
            return Err(SeedsError::Backwards { from, to });
        }
        let room = (MOST_SEEDS - seeds.len()) as u64;
        if to - from >= room {
            return Err(SeedsError::TooMany);
        }
        for seed in from..=to {
            if !known.insert(seed) {
                return Err(SeedsError::Twice(seed));
            }
            seeds.push(seed);
        }
    }
    Ok(seeds)
}

fn parse_range(part: &str) -> Option<(u64, u64)> {
    let number = |digits: &str| {
        let digits = digits.trim();
        let is_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<u64>().ok().filter(|_| is_digits)
    };
    match part.split_once('-') {
        Some((from, to)) => Some((number(from)?, number(to)?)),
        None => number(part).map(|seed| (seed, seed)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_and_ranges() {
        assert_eq!(parse_seeds("1-5"), Ok(vec![1, 2, 3, 4, 5]));
        assert_eq!(parse_seeds("1,2,7"), Ok(vec![1, 2, 7]));
        assert_eq!(parse_seeds(" 8, 1 - 3 "), Ok(vec![8, 1, 2, 3]));
        assert_eq!(parse_seeds("18446744073709551615"), Ok(vec![u64::MAX]));
        assert_eq!(parse_seeds("1-100000").map(|seeds| seeds.len()), Ok(MOST_SEEDS));
    }

    #[test]
    fn refusals() {
        for text in ["", ",", "1,", "a", "-1", "1-", "1--2", "1-2-3", "+1", "1.5"] {
            assert_eq!(parse_seeds(text), Err(SeedsError::NotSeeds(text.into())), "{text}");
        }
        assert_eq!(parse_seeds("5-1"), Err(SeedsError::Backwards { from: 5, to: 1 }));
        assert_eq!(parse_seeds("1-3,2"), Err(SeedsError::Twice(2)));
        assert_eq!(parse_seeds("0-100000"), Err(SeedsError::TooMany));
        assert_eq!(parse_seeds("1-100000,200000"), Err(SeedsError::TooMany));
        assert_eq!(parse_seeds("0-18446744073709551615"), Err(SeedsError::TooMany));
    }

    proptest! {
        #[test]
        fn never_panics(text in ".*", near in "[-0-9, ]{0,30}") {
            _ = parse_seeds(&text);
            _ = parse_seeds(&near);
        }

        #[test]
        fn a_list_comes_back(seeds in prop::collection::btree_set(any::<u64>(), 1..50)) {
            let seeds: Vec<u64> = seeds.into_iter().collect();
            let text = seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
            prop_assert_eq!(parse_seeds(&text), Ok(seeds));
        }
    }
}
