//! The masked CRC-32C that guards each record's length and data.

/// TensorFlow rotates and shifts the sum, because a CRC over data that holds its own CRC is a weak one.
#[inline]
pub(crate) fn masked(data: &[u8]) -> u32 {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn as_tensorflow_sums() {
        // From `masked_crc32c` of tensorboard 2.21.
        assert_eq!(masked(b""), 0xa282_ead8);
        assert_eq!(masked(b"123456789"), 0xc78a_b0e5);
        assert_eq!(masked(&24_u64.to_le_bytes()), 0x224b_7fa3);
    }
}
