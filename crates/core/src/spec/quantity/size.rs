//! Amounts of memory: `"32GB"` is 32·10⁹ bytes, `"32GiB"` and `"32G"` are 32·2³⁰.

use thiserror::Error;

use super::{scale, split_number};

/// Decimal units as on disks, binary ones as `G` means to SLURM and `Gi` to Kubernetes.
const UNITS: [(&str, u64); 18] = [
    ("b", 1),
    ("kb", 1000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("pb", 1_000_000_000_000_000),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("ki", 1 << 10),
    ("mi", 1 << 20),
    ("gi", 1 << 30),
    ("ti", 1 << 40),
];

/// How a size is shown, largest first.
const SHOWN: [(&str, u64); 10] = [
    ("PB", 1_000_000_000_000_000),
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1000),
    ("B", 1),
];

pub(in crate::spec) const PATTERN: &str = r"^\s*[0-9]+(\.[0-9]{1,9})?\s*([kKmMgGtT]([iI]?[bB]?)|[pP]?[bB])\s*$";

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SizeError {
    #[error("expected a size such as \"32GB\"")]
    NotASize,
    #[error("write it with a unit, such as \"{0}GB\"")]
    NoUnit(String),
    #[error("more than 64 bits of bytes")]
    TooLarge,
}

/// Bytes. Units may be written in any case and after a space.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let (number, unit) = split_number(text.trim());
    let unit = unit.trim_start().to_ascii_lowercase();
    if scale(number, 1).is_none() {
        return Err(if is_number(number) { SizeError::TooLarge } else { SizeError::NotASize });
    }
    if unit.is_empty() {
        return Err(SizeError::NoUnit(number.to_owned()));
    }
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(SizeError::NotASize)?;
    scale(number, *factor).ok_or(SizeError::TooLarge)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// For people: `32 GB`, `1.5 GiB`. Exact where two decimals of some unit suffice, else rounded to one.
pub fn format_size(bytes: u64) -> String {
    let fitting = || SHOWN.iter().filter(|(_, factor)| bytes >= *factor);
    let exact = fitting().filter_map(|(unit, factor)| {
        let hundredths = u128::from(bytes) * 100;
        let is_exact = hundredths.is_multiple_of(u128::from(*factor));
        let hundredths = hundredths / u128::from(*factor);
        (is_exact && hundredths < 1_000_000).then_some((hundredths, unit))
    });
    if let Some((hundredths, unit)) = exact.min() {
        let number = format!("{}.{:02}", hundredths / 100, hundredths % 100);
        return format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'));
    }
    round_size(bytes)
}

/// For people who look at what changes: `32.0 GB`, always in the same units.
pub fn round_size(bytes: u64) -> String {
    match SHOWN.iter().find(|(unit, factor)| bytes >= *factor && *factor > 1 && !unit.contains('i')) {
        Some((unit, factor)) => format!("{:.1} {unit}", bytes as f64 / *factor as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units() {
        assert_eq!(parse_size("32GB"), Ok(32_000_000_000));
        assert_eq!(parse_size("32GiB"), Ok(32 << 30));
        assert_eq!(parse_size("32G"), Ok(32 << 30));
        assert_eq!(parse_size("32Gi"), Ok(32 << 30));
        assert_eq!(parse_size("512MB"), Ok(512_000_000));
        assert_eq!(parse_size(" 1.5 tib "), Ok(3 << 39));
        assert_eq!(parse_size("7B"), Ok(7));
    }

    #[test]
    fn refusals() {
        for text in ["", "GB", "12 bananas", "-1GB", "1e3GB", "1.GB", "1 G B", "１GB"] {
            assert_eq!(parse_size(text), Err(SizeError::NotASize), "{text}");
        }
        assert_eq!(parse_size("32"), Err(SizeError::NoUnit("32".into())));
        assert_eq!(parse_size("99999999PB"), Err(SizeError::TooLarge));
        assert_eq!(parse_size("99999999999999999999GB"), Err(SizeError::TooLarge));
    }

    #[test]
    fn shown_to_people() {
        assert_eq!(format_size(0), "0 B");
        assert_eq!(format_size(999), "999 B");
        assert_eq!(format_size(32_000_000_000), "32 GB");
        assert_eq!(format_size(32 << 30), "32 GiB");
        assert_eq!(format_size(1536), "1.5 KiB");
        assert_eq!(format_size(123_456_789), "123.5 MB");
        assert_eq!(format_size(u64::MAX), "18446.7 PB");
    }

    #[test]
    fn shown_while_it_changes() {
        assert_eq!([0, 999, 1 << 20, 1 << 30].map(round_size), ["0 B", "999 B", "1.0 MB", "1.1 GB"]);
    }

    proptest! {
        #[test]
        fn never_panics(text in ".*", bytes: u64) {
            _ = parse_size(&text);
            let back = parse_size(&format_size(bytes));
            prop_assert!(back == Err(SizeError::TooLarge) || back.is_ok());
        }

        #[test]
        fn whole_units_come_back(number in 1_u64..1000, (unit, factor) in prop::sample::select(&SHOWN[..])) {
            prop_assert_eq!(parse_size(&format!("{number}{unit}")), Ok(number * factor));
            prop_assert_eq!(parse_size(&format_size(number * factor)), Ok(number * factor));
        }

        #[test]
        fn what_is_shown_is_near(bytes in 1_u64..1 << 60) {
            let shown = parse_size(&format_size(bytes)).unwrap_or(0);
            prop_assert!(shown.abs_diff(bytes) <= bytes / 19, "{}", format_size(bytes));
        }
    }
}
