//! Times as SLURM writes them.

use crate::time::{Instant, Span};

/// Seconds since the epoch, or `2026-11-16T02:46:17` as UTC, which our commands ask for. What SLURM does not know it
/// writes as `N/A`, `Unknown`, `None` or `NONE`.
pub(super) fn instant(text: &str) -> Option<Instant> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds: i64 = text.parse().ok()?;
        return (seconds > 0).then_some(Instant(seconds.checked_mul(1000)?));
    }
    let (date, clock) = text.split_once('T')?;
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(clock, ':')?;
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let days = days_since_epoch(year, month, day);
    Some(Instant((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000))
}

fn numbers(text: &str, between: char) -> Option<[i64; 3]> {
    let parts: Option<Vec<i64>> = text.split(between).map(|part| part.parse::<u16>().ok().map(i64::from)).collect();
    parts?.try_into().ok()
}

/// In the Gregorian calendar, counted in years that begin with March.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

/// For `sacct`, which takes no seconds since the epoch.
pub(super) fn utc(at: Instant) -> String {
    let seconds = at.0.max(0) / 1000;
    let (days, clock) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let era_day = shifted % 146_097;
    let era_year = (era_day - era_day / 1460 + era_day / 36_524 - era_day / 146_096) / 365;
    let day_of_year = era_day - (365 * era_year + era_year / 4 - era_year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era_year + shifted / 146_097 * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", clock / 3600, clock / 60 % 60, clock % 60)
}

/// A limit as `sinfo` and `scontrol` write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    Unlimited,
    At(Span),
}

/// `[days-]hours:minutes:seconds`, `minutes:seconds` or `minutes`; `infinite` and `UNLIMITED`. `None` is what stands
/// for no value, such as `n/a`.
pub(super) fn limit(text: &str) -> Option<Limit> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("infinite") || text.eq_ignore_ascii_case("unlimited") {
        return Some(Limit::Unlimited);
    }
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(days.parse::<u32>().ok()?), clock),
        None => (None, text),
    };
    let parts: Option<Vec<u64>> = clock.split(':').map(|part| part.parse::<u32>().ok().map(u64::from)).collect();
    let seconds = match (days, &parts?[..]) {
        (_, [hours, minutes, seconds]) => (hours * 60 + minutes) * 60 + seconds,
        (Some(_), [hours, minutes]) => (hours * 60 + minutes) * 60,
        (Some(_), [hours]) => hours * 3600,
        (None, [minutes, seconds]) => minutes * 60 + seconds,
        (None, [minutes]) => minutes * 60,
        _ => return None,
    };
    Some(Limit::At(Span::seconds(u64::from(days.unwrap_or(0)) * 86_400 + seconds)))
}

/// A time limit for `--time`, which counts minutes.
pub(super) fn minutes(minutes: u64) -> String {
    let (days, hours, minutes) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    if days > 0 { format!("{days}-{hours:02}:{minutes:02}:00") } else { format!("{hours:02}:{minutes:02}:00") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times() {
        assert_eq!(instant("1794797187"), Some(Instant(1_794_797_187_000)));
        assert_eq!(instant("2026-11-16T02:46:17"), Some(Instant(1_794_797_177_000)));
        assert_eq!(instant("2024-02-29T23:59:59"), Some(Instant(1_709_251_199_000)));
        assert_eq!(instant("1970-01-01T00:00:00"), Some(Instant(0)));
        for none in ["", "0", "N/A", "Unknown", "None", "NONE", "2026-11-16", "T", "2026-13-01T00:00:00", "+1"] {
            assert_eq!(instant(none), None, "{none}");
        }
    }

    #[test]
    fn limits() {
        let minutes = |n: u64| Some(Limit::At(Span::seconds(n * 60)));
        assert_eq!(limit("1:00:00"), minutes(60));
        assert_eq!(limit("5:00"), minutes(5));
        assert_eq!(limit("90"), minutes(90));
        assert_eq!(limit("7-00:00:00"), minutes(7 * 1440));
        assert_eq!(limit("1-12"), minutes(36 * 60));
        assert_eq!(limit("infinite"), Some(Limit::Unlimited));
        assert_eq!(limit("UNLIMITED"), Some(Limit::Unlimited));
        assert_eq!(limit("n/a"), None);
        assert_eq!(limit("Partition_Limit"), None);
    }

    proptest! {
        #[test]
        fn never_panics(text in ".*", near in "[0-9T:-]{0,24}") {
            _ = (instant(&text), limit(&text), instant(&near), limit(&near));
        }

        #[test]
        fn instants_read_back(seconds in 1_i64..200_000_000_000) {
            prop_assume!(utc(Instant(seconds * 1000)).len() == 19);
            prop_assert_eq!(instant(&utc(Instant(seconds * 1000))), Some(Instant(seconds * 1000)));
        }

        #[test]
        fn what_is_written_reads_back(n in 1_u64..100_000) {
            prop_assert_eq!(limit(&minutes(n)), Some(Limit::At(Span::seconds(n * 60))));
        }
    }
}
