//! Lengths of time: `"1h30m"`, `"500ms"`, and the clock forms of SLURM, `"HH:MM:SS"` and `"D-HH:MM:SS"`.

use std::fmt::Write as _;

use thiserror::Error;

use super::{scale, split_number};
use crate::time::Span;

const DAY: u64 = 86_400_000;
const HOUR: u64 = 3_600_000;
const MINUTE: u64 = 60_000;
const SECOND: u64 = 1000;

/// In milliseconds, longest first.
const UNITS: [(&str, u64); 5] = [("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND), ("ms", 1)];

pub(in crate::spec) const PATTERN: &str =
    r"^\s*(([0-9]+(\.[0-9]{1,9})?\s*(ms|d|h|m|s)\s*)+|([0-9]+-)?[0-9]+:[0-9]{2}:[0-9]{2})\s*$";

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DurationError {
    #[error("expected a duration such as \"1h30m\"")]
    NotADuration,
    #[error("write it with a unit, such as \"{0}s\" or \"{0}m\"")]
    NoUnit(String),
    #[error("write \"HH:MM:SS\", or units as in \"1h30m\"")]
    TwoParts,
    #[error("too long")]
    TooLong,
}

pub fn parse_duration(text: &str) -> Result<Span, DurationError> {
    let text = text.trim();
    if text.contains(':') { parse_clock(text) } else { parse_units(text) }
}

/// Units from long to short, each once: `1h30m`, not `30m1h`.
fn parse_units(text: &str) -> Result<Span, DurationError> {
    let mut rest = text;
    let mut units = UNITS.iter();
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (number, after) = split_number(rest);
        if scale(number, 1).is_none() {
            let is_number = !number.is_empty() && !number.contains('.');
            return Err(if is_number { DurationError::TooLong } else { DurationError::NotADuration });
        }
        let after = after.trim_start();
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if unit.is_empty() {
            return Err(DurationError::NoUnit(number.to_owned()));
        }
        let (_, factor) = units.find(|(name, _)| *name == unit).ok_or(DurationError::NotADuration)?;
        let part = scale(number, *factor).ok_or(DurationError::TooLong)?;
        total = total.checked_add(part).ok_or(DurationError::TooLong)?;
        rest = after.trim_start();
    }
    if text.is_empty() { Err(DurationError::NotADuration) } else { Ok(Span(total)) }
}

fn parse_clock(text: &str) -> Result<Span, DurationError> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(days), clock),
        None => (None, text),
    };
    let parts: Vec<&str> = clock.split(':').collect();
    let [hours, minutes, seconds] = parts[..] else {
        let is_two = parts.len() == 2 && parts.iter().all(|part| below(part, u64::MAX).is_some());
        return Err(if is_two { DurationError::TwoParts } else { DurationError::NotADuration });
    };
    let most_hours = if days.is_some() { 24 } else { u64::MAX };
    let read = || {
        let days = below(days.unwrap_or("0"), u64::MAX)?;
        Some([
            (days, DAY),
            (below(hours, most_hours)?, HOUR),
            (below(minutes, 60)?, MINUTE),
            (below(seconds, 60)?, SECOND),
        ])
    };
    let parts = read().ok_or(DurationError::NotADuration)?;
    let sum = parts.iter().try_fold(0_u64, |sum, (n, unit)| sum.checked_add(n.checked_mul(*unit)?));
    sum.map(Span).ok_or(DurationError::TooLong)
}

fn below(digits: &str, limit: u64) -> Option<u64> {
    let is_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|number| is_digits && *number < limit)
}

/// For people and exact: `1h30m`, `2d`, `500ms`, `0s`.
pub fn format_duration(span: Span) -> String {
    let mut rest = span.0;
    let mut text = String::new();
    for (unit, factor) in UNITS {
        let count = rest / factor;
        rest %= factor;
        if count > 0 {
            // Writing to a `String` cannot fail.
            _ = write!(text, "{count}{unit}");
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_people_write() {
        assert_eq!(parse_duration("24h"), Ok(Span(24 * HOUR)));
        assert_eq!(parse_duration("1h30m"), Ok(Span(90 * MINUTE)));
        assert_eq!(parse_duration("1h 30m"), Ok(Span(90 * MINUTE)));
        assert_eq!(parse_duration("90s"), Ok(Span(90 * SECOND)));
        assert_eq!(parse_duration("500ms"), Ok(Span(500)));
        assert_eq!(parse_duration("2d"), Ok(Span(2 * DAY)));
        assert_eq!(parse_duration("1.5h"), Ok(Span(90 * MINUTE)));
        assert_eq!(parse_duration("1m1ms"), Ok(Span(MINUTE + 1)));
        assert_eq!(parse_duration("0s"), Ok(Span(0)));
    }

    #[test]
    fn what_slurm_writes() {
        assert_eq!(parse_duration("23:00:00"), Ok(Span(23 * HOUR)));
        assert_eq!(parse_duration("120:30:15"), Ok(Span(120 * HOUR + 30 * MINUTE + 15 * SECOND)));
        assert_eq!(parse_duration("1-12:00:00"), Ok(Span(36 * HOUR)));
        assert_eq!(parse_duration("10:30"), Err(DurationError::TwoParts));
        for text in ["00:60:00", "00:00:60", "1-24:00:00", "-1:00:00", "1-:0:0", "+1:00:00", "::"] {
            assert_eq!(parse_duration(text), Err(DurationError::NotADuration), "{text}");
        }
    }

    #[test]
    fn refusals() {
        for text in ["", "h", "30m1h", "1h1h", "tomorrow", "-5s", "1h,30m", "5 parsecs", "1.h"] {
            assert_eq!(parse_duration(text), Err(DurationError::NotADuration), "{text}");
        }
        assert_eq!(parse_duration("3600"), Err(DurationError::NoUnit("3600".into())));
        assert_eq!(parse_duration("1h30"), Err(DurationError::NoUnit("30".into())));
        assert_eq!(parse_duration("999999999999999d"), Err(DurationError::TooLong));
        assert_eq!(parse_duration("99999999999999999999s"), Err(DurationError::TooLong));
        assert_eq!(parse_duration("9999999999999999:00:00"), Err(DurationError::TooLong));
    }

    #[test]
    fn shown_to_people() {
        assert_eq!(format_duration(Span(0)), "0s");
        assert_eq!(format_duration(Span(90 * MINUTE)), "1h30m");
        assert_eq!(format_duration(Span(DAY + 1)), "1d1ms");
    }

    proptest! {
        #[test]
        fn never_panics(text in ".*", clock in "[-0-9:]{0,12}") {
            _ = parse_duration(&text);
            _ = parse_duration(&clock);
        }

        #[test]
        fn comes_back(milliseconds: u64) {
            let span = Span(milliseconds);
            prop_assert_eq!(parse_duration(&format_duration(span)), Ok(span));
        }
    }
}
