//! Axes with ticks at round numbers.

use super::Along;

/// From numbers to places between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Scale {
    /// From the least to the greatest of these. A single number gets some room around it.
    pub(super) fn of(numbers: impl Iterator<Item = f64>, is_log: bool) -> Option<Self> {
        let inside = |number: f64| if is_log { number.log10() } else { number };
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for number in numbers.map(inside) {
            (low, high) = (low.min(number), high.max(number));
        }
        if low > high || !low.is_finite() || !high.is_finite() {
            return None;
        }
        if low == high {
            let room = if low == 0.0 { 1.0 } else { low.abs() * 0.1 };
            (low, high) = (low - room, high + room);
        }
        Some(Self { low, high, is_log })
    }

    pub(super) fn padded(numbers: impl Iterator<Item = f64>, is_log: bool) -> Option<Self> {
        let scale = Self::of(numbers, is_log)?;
        // By halves, since the whole may be beyond the largest number.
        let room = (scale.high / 2.0 - scale.low / 2.0) * 0.08;
        let (low, high) = (scale.low - room, scale.high + room);
        Some(if low.is_finite() && high.is_finite() { Self { low, high, ..scale } } else { scale })
    }

    pub(super) fn place(&self, number: f64) -> f64 {
        let inside = if self.is_log { number.log10() } else { number };
        (inside / 2.0 - self.low / 2.0) / (self.high / 2.0 - self.low / 2.0)
    }

    /// About this many ticks, with what is written at them.
    pub(super) fn ticks(&self, about: usize, along: Option<Along>) -> Vec<(f64, String)> {
        if self.is_log {
            return self.log_ticks(about);
        }
        let (unit, suffix) = match along {
            Some(Along::Time) => time_unit(self.high - self.low),
            _ => (1.0, ""),
        };
        let step = round_step((self.high / unit - self.low / unit) / about.max(1) as f64);
        let numbers = multiples(self.low / unit, self.high / unit, step);
        numbers.into_iter().map(|number| (number * unit, format!("{}{suffix}", number_text(number, step)))).collect()
    }

    /// At powers of ten, or where there are few of them at 1, 2 and 5.
    fn log_ticks(&self, about: usize) -> Vec<(f64, String)> {
        let (from, to) = (self.low.floor() as i32, self.high.ceil() as i32);
        let every = ((to - from) as usize / about.max(1)).max(1) as i32;
        let factors: &[f64] = if self.high - self.low < 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let powers = (from..=to).filter(|power| power.rem_euclid(every) == 0);
        let numbers = powers.flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)));
        let inside = |number: &f64| (self.low..=self.high).contains(&number.log10());
        let ticks: Vec<_> = numbers.filter(inside).map(|number| (number, number_text(number, number))).collect();
        if !ticks.is_empty() {
            return ticks;
        }
        let plain = Self { low: 10_f64.powf(self.low), high: 10_f64.powf(self.high), is_log: false };
        plain.ticks(about, None)
    }
}

fn multiples(low: f64, high: f64, step: f64) -> Vec<f64> {
    let first = (low / step).ceil();
    // A step too fine for such large numbers would never arrive.
    (0..1_000).map(|count| (first + f64::from(count)) * step).take_while(|number| *number <= high).collect()
}

/// 1, 2 or 5 times a power of ten.
fn round_step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough * 0.999).unwrap_or(10.0);
    factor * power
}

fn time_unit(range: f64) -> (f64, &'static str) {
    match range {
        range if range < 180.0 => (1.0, "s"),
        range if range < 3.0 * 3600.0 => (60.0, "m"),
        range if range < 3.0 * 86_400.0 => (3600.0, "h"),
        _ => (86_400.0, "d"),
    }
}

/// An end of an axis: four digits of it.
pub(super) fn end_text(number: f64) -> String {
    let size = number.abs();
    let step = if size > 0.0 { 10_f64.powf(size.log10().floor() - 3.0) } else { 1.0 };
    let text = number_text(number, step);
    let digits = text.trim_end_matches(|letter: char| letter.is_alphabetic());
    if !digits.contains('.') || digits.contains('e') {
        return text;
    }
    let suffix = text.get(digits.len()..).unwrap_or_default();
    format!("{}{suffix}", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// As many digits as tell it from its neighbours.
fn number_text(number: f64, step: f64) -> String {
    if number.abs() < step.abs() / 1e6 {
        return "0".to_owned();
    }
    let size = number.abs().max(step.abs());
    let (unit, suffix) = match size {
        size if !(1e-4..1e15).contains(&size) => return scientific(number),
        size if size >= 1e12 => (1e12, "T"),
        size if size >= 1e9 => (1e9, "G"),
        size if size >= 1e6 => (1e6, "M"),
        size if size >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let digits = (-(step / unit).abs().log10().floor()).clamp(0.0, 12.0) as usize;
    format!("{:.digits$}{suffix}", number / unit)
}

fn scientific(number: f64) -> String {
    let text = format!("{number:.2e}");
    match text.split_once('e') {
        Some((digits, power)) if digits.contains('.') => {
            format!("{}e{power}", digits.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(numbers: &[f64], about: usize, along: Option<Along>) -> Vec<String> {
        let scale = Scale::of(numbers.iter().copied(), false).expect("numbers");
        scale.ticks(about, along).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(texts(&[0.0, 1.0], 5, None), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(texts(&[-3.0, 487.0], 5, None), ["0", "100", "200", "300", "400"]);
        assert_eq!(texts(&[0.0, 2_600_000.0], 5, None), ["0", "1M", "2M"]);
        assert_eq!(texts(&[0.0, 45_000.0], 5, None), ["0", "10k", "20k", "30k", "40k"]);
        assert_eq!(texts(&[1e-7, 3e-7], 4, None), ["1e-7", "1.5e-7", "2e-7", "2.5e-7", "3e-7"]);
        assert_eq!(texts(&[0.0, 7_200.0], 4, Some(Along::Time)), ["0m", "50m", "100m"]);
    }

    #[test]
    fn logarithms() {
        let scale = Scale::of([0.001, 100.0].into_iter(), true).expect("numbers");
        let texts: Vec<_> = scale.ticks(6, None).into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["0.001", "0.01", "0.1", "1", "10", "100"]);
        assert_eq!(scale.place(0.001), 0.0);
        assert!((scale.place(100.0) - 1.0).abs() < 1e-12);
        let near = Scale::of([3.1, 3.2].into_iter(), true).expect("numbers");
        assert!(!near.ticks(4, None).is_empty());
    }

    #[test]
    fn ends_are_short() {
        let texts = [0.0, 1.0, 0.685_964_533, -3.0, 123.456, 1e-5, 45_678.0, 1.0e9].map(end_text);
        assert_eq!(texts, ["0", "1", "0.686", "-3", "123.5", "1e-5", "45.68k", "1G"]);
    }

    #[test]
    fn odd_ranges_end() {
        for numbers in [[0.0, 0.0], [5.0, 5.0], [-f64::MAX, f64::MAX], [1e15, 1e15 + 1.0], [f64::MIN_POSITIVE, 0.0]] {
            let scale = Scale::padded(numbers.into_iter(), false).expect("numbers");
            let places = numbers.map(|number| scale.place(number));
            assert!(places.iter().all(|place| (0.0..=1.0).contains(place)), "{numbers:?}: {places:?}");
            assert!(scale.ticks(5, None).len() < 1_001, "{numbers:?}");
        }
        assert_eq!(Scale::of(std::iter::empty(), false), None);
    }
}
