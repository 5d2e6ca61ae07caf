//! GPUs of one run: whole ones, or an equal share of one that as many runs fill completely.

use thiserror::Error;

use crate::spec::Gpus;

#[derive(Debug, Clone, PartialEq, Error)]
pub enum GpusError {
    #[error("expected `0` or more GPUs, found {0}")]
    Negative(f64),
    #[error("more GPUs than there are, found {0}")]
    TooMany(f64),
    #[error(
        "{given} of a GPU does not share one evenly; the nearest that do are {} and {}",
        words(*.below), words(*.above)
    )]
    NotAShare { given: f64, below: Gpus, above: Gpus },
    #[error(
        "GPUs beyond one are given whole, found {given}; the nearest are {} and {}",
        words(*.below), words(*.above)
    )]
    NotWhole { given: f64, below: Gpus, above: Gpus },
}

/// How far a number may lie from 1/k, so that `0.33` is a third.
const TOLERANCE: f64 = 0.01 + 1e-9;

pub fn parse_gpus(number: f64) -> Result<Gpus, GpusError> {
    if number.is_nan() || number < 0.0 {
        return Err(GpusError::Negative(number));
    }
    if number > f64::from(u32::MAX) {
        return Err(GpusError::TooMany(number));
    }
    if number.fract() == 0.0 {
        return Ok(Gpus::Whole(floor(number)));
    }
    if number > 1.0 {
        let below = floor(number);
        return Err(GpusError::NotWhole {
            given: number,
            below: Gpus::Whole(below),
            above: Gpus::Whole(below.saturating_add(1)),
        });
    }
    let shares = 2..=Gpus::MOST_SHARES;
    let is_near = |of: &u32| (number * f64::from(*of) - 1.0).abs() <= TOLERANCE;
    shares.clone().find(is_near).map(Gpus::Share).ok_or_else(|| {
        let below = shares.clone().find(|of| 1.0 / f64::from(*of) < number);
        let above = shares.rev().find(|of| 1.0 / f64::from(*of) > number);
        GpusError::NotAShare {
            given: number,
            below: below.map_or(Gpus::Whole(0), Gpus::Share),
            above: above.map_or(Gpus::Whole(1), Gpus::Share),
        }
    })
}

/// For numbers from 0 to `u32::MAX`.
fn floor(number: f64) -> u32 {
    number as u32
}

fn words(gpus: Gpus) -> String {
    match gpus {
        Gpus::Whole(_) => format!("`{gpus}`"),
        Gpus::Share(of) => format!("`{gpus}` (1/{of})"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn whole_and_shares() {
        assert_eq!(parse_gpus(0.0), Ok(Gpus::Whole(0)));
        assert_eq!(parse_gpus(2.0), Ok(Gpus::Whole(2)));
        assert_eq!(parse_gpus(0.25), Ok(Gpus::Share(4)));
        assert_eq!(parse_gpus(0.33), Ok(Gpus::Share(3)));
        assert_eq!(parse_gpus(0.0625), Ok(Gpus::Share(16)));
    }

    #[test]
    fn refusals_name_the_neighbours() {
        let refused = |number| parse_gpus(number).map_err(|error| error.to_string());
        insta::assert_debug_snapshot!(
            [0.4, 0.75, 0.05, 0.0, 1.5, -1.0, f64::NAN, f64::INFINITY].map(refused),
            @r#"
        [
            Err(
                "0.4 of a GPU does not share one evenly; the nearest that do are `0.333` (1/3) and `0.5` (1/2)",
            ),
            Err(
                "0.75 of a GPU does not share one evenly; the nearest that do are `0.5` (1/2) and `1`",
            ),
            Err(
                "0.05 of a GPU does not share one evenly; the nearest that do are `0` and `0.062` (1/16)",
            ),
            Ok(
                Whole(
                    0,
                ),
            ),
            Err(
                "GPUs beyond one are given whole, found 1.5; the nearest are `1` and `2`",
            ),
            Err(
                "expected `0` or more GPUs, found -1",
            ),
            Err(
                "expected `0` or more GPUs, found NaN",
            ),
            Err(
                "more GPUs than there are, found inf",
            ),
        ]
        "#
        );
    }

    proptest! {
        #[test]
        fn never_panics(number: f64) {
            _ = parse_gpus(number);
        }

        #[test]
        fn what_is_shown_reads_back(of in 2..=Gpus::MOST_SHARES) {
            let shown: f64 = Gpus::Share(of).to_string().parse().unwrap_or(0.0);
            prop_assert_eq!(parse_gpus(shown), Ok(Gpus::Share(of)));
        }
    }
}
