//! One record's content: an `Event` with its moment and, mostly, a summary of tagged values. Everything borrows from
//! the record. Field numbers are those of TensorFlow's `event.proto` and `summary.proto`.

use crate::tensor::Tensor;
use crate::wire::{Fields, Malformed};

/// What one record says.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// Seconds since 1970.
    pub wall_time: f64,
    pub step: i64,
    pub what: What<'a>,
}

#[derive(Debug, Clone, Copy)]
pub enum What<'a> {
    /// `brain.Event:2` in the first record of each file.
    FileVersion(&'a [u8]),
    Summary(Summary<'a>),
    /// A writer that starts at `step` says that what others wrote from there on is void.
    SessionStart,
    /// A graph, run metadata or another kind that this crate does not look into.
    Other,
}

impl<'a> Event<'a> {
    /// Reads one record's payload. The summary's values are checked only when they are asked for.
    #[inline]
    pub fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut event = Self { wall_time: 0.0, step: 0, what: What::Other };
        let mut fields = Fields::of(payload);
        while let Some((number, field)) = fields.next()? {
            match number {
                1 => event.wall_time = field.double()?,
                2 => event.step = field.varint()?.cast_signed(),
                3 => event.what = What::FileVersion(field.bytes()?),
                5 => event.what = What::Summary(Summary { message: field.bytes()? }),
                7 => event.what = session(field.bytes()?)?,
                4 | 6 | 8 | 9 => event.what = What::Other,
                _ => {}
            }
        }
        Ok(event)
    }
}

fn session<'a>(log: &[u8]) -> Result<What<'a>, Malformed> {
    const START: u64 = 1;
    let mut status = 0;
    let mut fields = Fields::of(log);
    while let Some((number, field)) = fields.next()? {
        if number == 1 {
            status = field.varint()?;
        }
    }
    Ok(if status == START { What::SessionStart } else { What::Other })
}

/// The values that a writer logged together.
#[derive(Debug, Clone, Copy)]
pub struct Summary<'a> {
    message: &'a [u8],
}

impl<'a> Summary<'a> {
    /// Each value as it comes; after an error there are no more.
    pub fn values(&self) -> Values<'a> {
        Values { fields: Fields::of(self.message) }
    }
}

#[derive(Debug, Clone)]
pub struct Values<'a> {
    fields: Fields<'a>,
}

impl<'a> Iterator for Values<'a> {
    type Item = Result<Value<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let value = match self.fields.next() {
                Ok(None) => return None,
                Ok(Some((1, field))) => field.bytes().and_then(Value::parse),
                Ok(Some(_)) => continue,
                Err(malformed) => Err(malformed),
            };
            if value.is_err() {
                self.fields = Fields::of(&[]);
            }
            return Some(value);
        }
    }
}

/// One tagged value.
#[derive(Debug, Clone, Copy)]
pub struct Value<'a> {
    /// UTF-8, not yet checked: comparing with known tags needs no check.
    pub tag: &'a [u8],
    pub datum: Datum<'a>,
    exact: Option<f64>,
    metadata: &'a [u8],
}

/// The number of our own field in a value. Whoever does not know it passes over it.
pub(crate) const EXACT: u8 = 15;

/// The datum as it was written. The legacy kinds are left encoded.
#[derive(Debug, Clone, Copy)]
pub enum Datum<'a> {
    Simple(f32),
    Tensor(Tensor<'a>),
    Image(&'a [u8]),
    Histogram(&'a [u8]),
    Audio(&'a [u8]),
    /// Only metadata, as hyperparameters are written.
    Nothing,
}

/// Which plugin of TensorBoard a value is for. Writers say so only in the first value of each tag.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Metadata<'a> {
    pub plugin: &'a [u8],
    /// The plugin's own content.
    pub content: &'a [u8],
    /// 1 scalar, 2 tensor, 3 blob sequence; 0 where the writer is too old to say.
    pub data_class: u64,
}

impl<'a> Value<'a> {
    #[inline]
    fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut value = Self { tag: &[], datum: Datum::Nothing, exact: None, metadata: &[] };
        let mut fields = Fields::of(message);
        while let Some((number, field)) = fields.next()? {
            match number {
                1 => value.tag = field.bytes()?,
                2 => value.datum = Datum::Simple(field.float()?),
                4 => value.datum = Datum::Image(field.bytes()?),
                5 => value.datum = Datum::Histogram(field.bytes()?),
                6 => value.datum = Datum::Audio(field.bytes()?),
                8 => value.datum = Datum::Tensor(Tensor::of(field.bytes()?)),
                9 => value.metadata = field.bytes()?,
                15 => value.exact = field.double().ok(),
                _ => {}
            }
        }
        Ok(value)
    }

    /// The number of a [`Datum::Simple`], in double precision if it was written by [`crate::Writer::exact_scalar`].
    #[inline]
    pub fn simple(&self) -> Option<f64> {
        let Datum::Simple(single) = self.datum else { return None };
        let exact = self.exact.filter(|exact| (*exact as f32).to_bits() == single.to_bits());
        Some(exact.unwrap_or(f64::from(single)))
    }

    /// `None` where the writer gave none, as is usual after a tag's first value.
    pub fn metadata(&self) -> Result<Option<Metadata<'a>>, Malformed> {
        if self.metadata.is_empty() {
            return Ok(None);
        }
        let mut metadata = Metadata::default();
        let mut fields = Fields::of(self.metadata);
        while let Some((number, field)) = fields.next()? {
            match number {
                1 => metadata.read_plugin(field.bytes()?)?,
                4 => metadata.data_class = field.varint()?,
                _ => {}
            }
        }
        Ok(Some(metadata))
    }
}

impl<'a> Metadata<'a> {
    fn read_plugin(&mut self, message: &'a [u8]) -> Result<(), Malformed> {
        let mut fields = Fields::of(message);
        while let Some((number, field)) = fields.next()? {
            match number {
                1 => self.plugin = field.bytes()?,
                2 => self.content = field.bytes()?,
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_may_come_in_any_order() {
        // summary { value { simple_value: 2, tag: "a" } }, step: 7, wall_time: 1
        let payload =
            [&[0x2a, 10, 0x0a, 8, 0x15, 0, 0, 0, 0x40, 0x0a, 1, b'a', 0x10, 7, 0x09][..], &1.0_f64.to_le_bytes()]
                .concat();
        let event = Event::parse(&payload).expect("well formed");
        assert_eq!((event.step, event.wall_time), (7, 1.0));
        let What::Summary(summary) = event.what else { panic!("{event:?}") };
        let values: Vec<_> = summary.values().collect::<Result<_, _>>().expect("well formed");
        assert!(matches!(values[..], [Value { tag: b"a", datum: Datum::Simple(2.0), .. }]), "{values:?}");
    }

    #[test]
    fn a_malformed_value_ends_the_summary() {
        let payload = [0x2a, 6, 0x0a, 1, 0x0a, 0x0a, 0x01, 0x00];
        let event = Event::parse(&payload).expect("the outer message is well formed");
        let What::Summary(summary) = event.what else { panic!("{event:?}") };
        assert!(matches!(summary.values().collect::<Vec<_>>()[..], [Err(Malformed)]));
    }

    #[test]
    fn only_a_start_is_a_start() {
        for (log, starts) in [(&[0x08, 1][..], true), (&[0x08, 2], false), (&[], false)] {
            let what = session(log).expect("well formed");
            assert_eq!(matches!(what, What::SessionStart), starts, "{log:?}");
        }
    }
}
