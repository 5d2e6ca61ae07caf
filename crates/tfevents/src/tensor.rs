//! `TensorProto`, as far as a scalar or a text needs it: a single number of any plain type, or strings. Tensors of
//! more elements stay encoded.

use crate::wire::{Field, Fields, Malformed};

/// A tensor as it was written.
#[derive(Debug, Clone, Copy)]
pub struct Tensor<'a> {
    message: &'a [u8],
}

/// TensorFlow's `DataType`, the plain ones.
mod dtype {
    pub(super) const FLOAT: u64 = 1;
    pub(super) const DOUBLE: u64 = 2;
    pub(super) const INT32: u64 = 3;
    pub(super) const UINT8: u64 = 4;
    pub(super) const INT16: u64 = 5;
    pub(super) const INT8: u64 = 6;
    pub(super) const INT64: u64 = 9;
    pub(super) const BOOL: u64 = 10;
    pub(super) const BFLOAT16: u64 = 14;
    pub(super) const UINT16: u64 = 17;
    pub(super) const HALF: u64 = 19;
    pub(super) const UINT32: u64 = 22;
    pub(super) const UINT64: u64 = 23;
}

impl<'a> Tensor<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Self {
        Self { message }
    }

    /// The number, if the tensor holds exactly one; a shape such as `[1]` is fine. `None` for everything else.
    pub fn number(&self) -> Result<Option<f64>, Malformed> {
        let mut dtype = 0;
        let mut elements = 1;
        let mut content: &[u8] = &[];
        let mut listed = None;
        let mut fields = Fields::of(self.message);
        while let Some((number, field)) = fields.next()? {
            match number {
                1 => dtype = field.varint()?,
                2 => elements = count(field.bytes()?)?,
                4 => content = field.bytes()?,
                // A number list in two pieces has two numbers or more.
                5..=7 | 10 | 11 | 13 | 16 | 17 if listed.is_some() => return Ok(None),
                5..=7 | 10 | 11 | 13 | 16 | 17 => listed = Some((number, field)),
                _ => {}
            }
        }
        if elements != 1 {
            return Ok(None);
        }
        Ok(match listed {
            Some((number, field)) => from_list(dtype, number, field),
            None => from_content(dtype, content),
        })
    }

    /// The strings of a text.
    pub fn strings(&self) -> Result<Vec<&'a [u8]>, Malformed> {
        let mut strings = Vec::new();
        let mut fields = Fields::of(self.message);
        while let Some((number, field)) = fields.next()? {
            if number == 8 {
                strings.push(field.bytes()?);
            }
        }
        Ok(strings)
    }
}

/// How many elements a `TensorShapeProto` speaks of; an unknown size is not one.
fn count(shape: &[u8]) -> Result<u64, Malformed> {
    let mut elements = 1_u64;
    let mut fields = Fields::of(shape);
    while let Some((number, field)) = fields.next()? {
        if number == 2 {
            let mut size = 0;
            let mut dimension = Fields::of(field.bytes()?);
            while let Some((number, field)) = dimension.next()? {
                if number == 1 {
                    size = field.varint()?;
                }
            }
            elements = elements.saturating_mul(size);
        }
    }
    Ok(elements)
}

/// From `float_val`, `int_val` and so on: packed, as proto3 writes, or bare.
fn from_list(dtype: u64, number: u64, field: Field<'_>) -> Option<f64> {
    match (number, dtype) {
        (5, dtype::FLOAT) => Some(f64::from(match field {
            Field::Bytes(packed) => f32::from_le_bytes(packed.try_into().ok()?),
            bare => bare.float().ok()?,
        })),
        (6, dtype::DOUBLE) => match field {
            Field::Bytes(packed) => Some(f64::from_le_bytes(packed.try_into().ok()?)),
            bare => bare.double().ok(),
        },
        (7, dtype::INT32 | dtype::INT16 | dtype::INT8 | dtype::UINT8 | dtype::UINT16) | (10, dtype::INT64) => {
            Some(only_varint(field)?.cast_signed() as f64)
        }
        (11, dtype::BOOL) | (16, dtype::UINT32) | (17, dtype::UINT64) => Some(only_varint(field)? as f64),
        (13, dtype::HALF) => Some(half(u16::try_from(only_varint(field)?).ok()?)),
        (13, dtype::BFLOAT16) => Some(bfloat16(u16::try_from(only_varint(field)?).ok()?)),
        _ => None,
    }
}

fn only_varint(field: Field<'_>) -> Option<u64> {
    let Field::Bytes(packed) = field else { return field.varint().ok() };
    let mut numbers = Fields::of(packed);
    let number = numbers.varint().ok()?;
    numbers.is_empty().then_some(number)
}

/// From `tensor_content`, which is the array's memory, little-endian.
fn from_content(dtype: u64, content: &[u8]) -> Option<f64> {
    Some(match dtype {
        dtype::FLOAT => f64::from(f32::from_le_bytes(content.try_into().ok()?)),
        dtype::DOUBLE => f64::from_le_bytes(content.try_into().ok()?),
        dtype::INT8 => f64::from(i8::from_le_bytes(content.try_into().ok()?)),
        dtype::INT16 => f64::from(i16::from_le_bytes(content.try_into().ok()?)),
        dtype::INT32 => f64::from(i32::from_le_bytes(content.try_into().ok()?)),
        dtype::INT64 => i64::from_le_bytes(content.try_into().ok()?) as f64,
        dtype::UINT8 | dtype::BOOL => f64::from(u8::from_le_bytes(content.try_into().ok()?)),
        dtype::UINT16 => f64::from(u16::from_le_bytes(content.try_into().ok()?)),
        dtype::UINT32 => f64::from(u32::from_le_bytes(content.try_into().ok()?)),
        dtype::UINT64 => u64::from_le_bytes(content.try_into().ok()?) as f64,
        dtype::HALF => half(u16::from_le_bytes(content.try_into().ok()?)),
        dtype::BFLOAT16 => bfloat16(u16::from_le_bytes(content.try_into().ok()?)),
        _ => return None,
    })
}

fn bfloat16(bits: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(bits) << 16))
}

/// IEEE 754 binary16: one sign bit, five of exponent, ten of fraction.
fn half(bits: u16) -> f64 {
    let fraction = f64::from(bits & 0x3ff) / 1024.0;
    let magnitude = match (bits >> 10) & 0x1f {
        0 => fraction * 2_f64.powi(-14),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        exponent => (1.0 + fraction) * 2_f64.powi(i32::from(exponent) - 15),
    };
    if bits & 0x8000 == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(message: &[u8]) -> Option<f64> {
        Tensor::of(message).number().expect("well formed")
    }

    #[test]
    fn lists_packed_and_bare() {
        assert_eq!(number(&[0x08, 1, 0x2a, 4, 0, 0, 0, 0x40]), Some(2.0), "packed float_val");
        assert_eq!(number(&[0x08, 1, 0x2d, 0, 0, 0, 0x40]), Some(2.0), "bare float_val");
        assert_eq!(number(&[0x08, 3, 0x3a, 1, 9]), Some(9.0), "packed int_val");
        let minus_one = [0x08, 9, 0x52, 10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(number(&minus_one), Some(-1.0), "int64_val");
        assert_eq!(number(&[0x2a, 4, 0, 0, 0, 0x40, 0x08, 1]), Some(2.0), "the type after the value");
    }

    #[test]
    fn content_by_type() {
        let content = |dtype: u64, bytes: &[u8]| from_content(dtype, bytes);
        assert_eq!(content(dtype::DOUBLE, &0.1_f64.to_le_bytes()), Some(0.1));
        assert_eq!(content(dtype::INT8, &[0xff]), Some(-1.0));
        assert_eq!(content(dtype::UINT8, &[0xff]), Some(255.0));
        assert_eq!(content(dtype::HALF, &[0x00, 0x3c]), Some(1.0));
        assert_eq!(content(dtype::HALF, &[0x01, 0x80]), Some(-(2_f64.powi(-24))));
        assert_eq!(content(dtype::HALF, &[0x00, 0xfc]), Some(f64::NEG_INFINITY));
        assert_eq!(content(dtype::BFLOAT16, &[0x80, 0x3f]), Some(1.0));
        assert_eq!(content(7, b"text"), None);
    }

    #[test]
    fn anything_but_one_number_is_none() {
        assert_eq!(number(&[0x08, 1, 0x2a, 8, 0, 0, 0, 0x40, 0, 0, 0, 0x40]), None, "two numbers");
        assert_eq!(number(&[0x08, 1, 0x2d, 0, 0, 0, 0x40, 0x2d, 0, 0, 0, 0x40]), None, "two bare numbers");
        assert_eq!(number(&[0x08, 1, 0x12, 4, 0x12, 2, 0x08, 2, 0x2a, 4, 0, 0, 0, 0x40]), None, "shape [2]");
        assert_eq!(number(&[0x08, 1, 0x12, 4, 0x12, 2, 0x08, 1, 0x2a, 4, 0, 0, 0, 0x40]), Some(2.0), "shape [1]");
        assert_eq!(number(&[0x08, 1]), None, "no number");
        assert_eq!(number(&[0x08, 2, 0x2a, 4, 0, 0, 0, 0x40]), None, "a list of another type");
        assert_eq!(number(&[0x08, 1, 0x22, 2, 0, 0]), None, "short content");
    }
}
