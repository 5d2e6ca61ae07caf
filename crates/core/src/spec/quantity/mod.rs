//! Sizes, durations, GPU shares and seed lists: from what people write to numbers, and back.

mod duration;
mod gpus;
mod seeds;
mod size;

pub use duration::{DurationError, format_duration, parse_duration};
pub use gpus::{GpusError, parse_gpus};
pub use seeds::{MOST_SEEDS, SeedsError, parse_seeds};
pub use size::{SizeError, format_size, parse_size, round_size};

/// Patterns for editors; the parsers above have the last word.
pub(super) use duration::PATTERN as DURATION_PATTERN;
pub(super) use seeds::PATTERN as SEEDS_PATTERN;
pub(super) use size::PATTERN as SIZE_PATTERN;

/// `"1.5"` times `unit`, rounded to the nearest whole; `None` if it is no plain decimal or does not fit.
fn scale(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let has_point = number.contains('.');
    // Nine places are a nanosecond of a second and a byte of a gigabyte.
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    if has_point && fraction.is_empty() {
        return None;
    }
    let unit = u128::from(unit);
    let whole = u128::from(whole.parse::<u64>().ok()?) * unit;
    let tens = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = fraction.parse::<u64>().map_or(0, u128::from) * unit;
    u64::try_from(whole + (part + tens / 2) / tens).ok()
}

/// The number at the start of `text`, and the rest.
fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_scale_exactly() {
        assert_eq!(scale("1.5", 1000), Some(1500));
        assert_eq!(scale("0.0005", 1000), Some(1));
        assert_eq!(scale("0.0004", 1000), Some(0));
        assert_eq!(scale("1.", 10), None);
        assert_eq!(scale(".5", 10), None);
        assert_eq!(scale("1.2.3", 10), None);
        assert_eq!(scale("18446744073709551615", 1), Some(u64::MAX));
        assert_eq!(scale("18446744073709551615", 2), None);
    }
}
