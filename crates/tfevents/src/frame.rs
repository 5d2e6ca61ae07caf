//! The record framing: `u64 length | u32 sum of the length | data | u32 sum of the data`, little-endian, records
//! one after the other with nothing before, between or behind.

use crate::checksum::{masked, masked_length};

pub(crate) const HEADER: usize = 12;
const FOOTER: usize = 4;

/// What the bytes at a record's start turn out to be. `size` is that of the whole record with its frame.
#[derive(Debug, PartialEq)]
pub(crate) enum Frame<'a> {
    Record {
        payload: &'a [u8],
        size: usize,
    },
    /// Not all of it is here: `size` bytes are needed to say more.
    Short {
        size: u64,
    },
    /// The length is sound, the data are not.
    BadData {
        size: usize,
    },
    /// Where the next record would start is not known.
    BadLength,
}

#[inline]
pub(crate) fn first(bytes: &[u8]) -> Frame<'_> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else {
        return Frame::Short { size: HEADER as u64 };
    };
    let [l0, l1, l2, l3, l4, l5, l6, l7, sum @ ..] = *header;
    let length = u64::from_le_bytes([l0, l1, l2, l3, l4, l5, l6, l7]);
    if masked_length(length) != u32::from_le_bytes(sum) {
        return Frame::BadLength;
    }
    let Some(size) = length.checked_add((HEADER + FOOTER) as u64) else { return Frame::BadLength };
    let whole = usize::try_from(length).ok().and_then(|length| {
        let (payload, rest) = rest.split_at_checked(length)?;
        Some((payload, rest.first_chunk::<FOOTER>()?))
    });
    match whole {
        None => Frame::Short { size },
        Some((payload, sum)) => {
            let size = payload.len() + HEADER + FOOTER;
            if masked(payload) == u32::from_le_bytes(*sum) {
                Frame::Record { payload, size }
            } else {
                Frame::BadData { size }
            }
        }
    }
}

/// Appends one record.
pub(crate) fn append(record: &[u8], out: &mut Vec<u8>) {
    let length = (record.len() as u64).to_le_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&masked(&length).to_le_bytes());
    out.extend_from_slice(record);
    out.extend_from_slice(&masked(record).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        append(data, &mut out);
        out
    }

    #[test]
    fn whole_short_and_bad() {
        let good = framed(b"hello");
        assert_eq!(first(&good), Frame::Record { payload: b"hello", size: good.len() });
        for cut in 0..good.len() {
            let size = if cut < HEADER { HEADER } else { good.len() } as u64;
            assert_eq!(first(&good[..cut]), Frame::Short { size }, "cut at {cut}");
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            let expected = if at < HEADER { Frame::BadLength } else { Frame::BadData { size: good.len() } };
            assert_eq!(first(&bad), expected, "flipped at {at}");
        }
    }

    #[test]
    fn a_length_that_no_file_can_have() {
        for length in [u64::MAX, u64::MAX - 15] {
            let length = length.to_le_bytes();
            let header = [&length[..], &masked(&length).to_le_bytes(), &[0; 20]].concat();
            assert_eq!(first(&header), Frame::BadLength);
        }
    }
}
