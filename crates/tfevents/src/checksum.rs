//! The masked CRC-32C that guards each record's length and data.

use std::sync::LazyLock;

/// TensorFlow rotates and shifts the sum, because a CRC over data that holds its own CRC is a weak one.
#[inline]
pub(crate) fn masked(data: &[u8]) -> u32 {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Most records are short and their lengths few: half of all sums need not be computed.
const SHORT: usize = 512;

static OF_LENGTHS: LazyLock<[u32; SHORT]> =
    LazyLock::new(|| std::array::from_fn(|length| masked(&(length as u64).to_le_bytes())));

/// The sum of a record's length.
#[inline]
pub(crate) fn masked_length(length: u64) -> u32 {
    let known = usize::try_from(length).ok().and_then(|length| OF_LENGTHS.get(length));
    known.copied().unwrap_or_else(|| masked(&length.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use super::{masked, masked_length};

    #[test]
    fn as_tensorflow_sums() {
        // From `masked_crc32c` of tensorboard 2.21.
        assert_eq!(masked(b""), 0xa282_ead8);
        assert_eq!(masked(b"123456789"), 0xc78a_b0e5);
        assert_eq!(masked(&24_u64.to_le_bytes()), 0x224b_7fa3);
    }

    #[test]
    fn lengths_known_and_unknown() {
        for length in [0, 24, 511, 512, 1 << 20, u64::MAX] {
            assert_eq!(masked_length(length), masked(&length.to_le_bytes()), "{length}");
        }
    }
}
