//! The protobuf wire format, read in place: one message's fields, one after the other. It knows no schema, copies
//! nothing and never recurses, so that neither depth nor declared lengths can hurt. Groups, which protobuf gave up
//! in 2008 and event files never had, count as malformed.

/// The bytes are no protobuf message, or not of the kind expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a protobuf message of the expected kind")]
pub struct Malformed;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Field<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    Fixed32([u8; 4]),
}

impl<'a> Field<'a> {
    pub(crate) fn varint(self) -> Result<u64, Malformed> {
        if let Field::Varint(number) = self { Ok(number) } else { Err(Malformed) }
    }

    pub(crate) fn bytes(self) -> Result<&'a [u8], Malformed> {
        if let Field::Bytes(bytes) = self { Ok(bytes) } else { Err(Malformed) }
    }

    pub(crate) fn double(self) -> Result<f64, Malformed> {
        if let Field::Fixed64(bytes) = self { Ok(f64::from_le_bytes(bytes)) } else { Err(Malformed) }
    }

    pub(crate) fn float(self) -> Result<f32, Malformed> {
        if let Field::Fixed32(bytes) = self { Ok(f32::from_le_bytes(bytes)) } else { Err(Malformed) }
    }
}

/// The fields of one message in the order they were written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next field's number and content; `None` at the end. After an error there is nothing more to be had.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Field<'a>)>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let field = match key & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(self.chunk()?),
            2 => Field::Bytes(self.delimited()?),
            5 => Field::Fixed32(self.chunk()?),
            _ => return Err(Malformed),
        };
        let number = key >> 3;
        if number == 0 { Err(Malformed) } else { Ok(Some((number, field))) }
    }

    /// One varint, for fields and for what a packed field holds.
    #[inline(always)]
    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let (&first, rest) = self.rest.split_first().ok_or(Malformed)?;
        if first < 0x80 {
            self.rest = rest;
            return Ok(u64::from(first));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0_u64;
        for shift in (0..70).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(Malformed)?;
            self.rest = rest;
            // The tenth byte has one bit to give; protobuf's own parsers drop the others too.
            number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    #[inline(always)]
    fn chunk<const SIZE: usize>(&mut self) -> Result<[u8; SIZE], Malformed> {
        let (chunk, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*chunk)
    }

    #[inline(always)]
    fn delimited(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(message: &[u8]) -> Result<Vec<(u64, Field<'_>)>, Malformed> {
        let mut fields = Fields::of(message);
        let mut found = Vec::new();
        while let Some(field) = fields.next()? {
            found.push(field);
        }
        Ok(found)
    }

    #[test]
    fn every_wire_type_is_read() {
        let message = [0x08, 0x96, 0x01, 0x11, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0x1a, 2, b'h', b'i', 0x25, 0, 0, 0, 0x40];
        let fields = all(&message).expect("well formed");
        assert_eq!(fields[0], (1, Field::Varint(150)));
        assert_eq!(fields[1].1.double(), Ok(1.0));
        assert_eq!(fields[2], (3, Field::Bytes(b"hi")));
        assert_eq!(fields[3].1.float(), Ok(2.0));
    }

    #[test]
    fn a_negative_number_takes_ten_bytes() {
        let message = [0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(all(&message), Ok(vec![(2, Field::Varint(u64::MAX))]));
    }

    #[test]
    fn malformed_is_an_answer() {
        for message in [
            &[0x08][..],                                    // ends where a number should be
            &[0x12, 5, 1, 2],                               // longer than what is left
            &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1], // much longer
            &[0x0b, 0x0c],                                  // a group
            &[0x02, 0],                                     // field number nought
            &[0x09, 1, 2, 3],                               // a short double
            &[0x80; 11],                                    // a varint without end
        ] {
            assert_eq!(all(message), Err(Malformed), "{message:?}");
        }
    }
}
