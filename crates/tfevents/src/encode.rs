//! Writes the few protobuf messages of an event, into a buffer that the caller keeps.

/// A message under construction; fields are appended in the order of the calls.
#[derive(Debug, Default)]
pub(crate) struct Message {
    out: Vec<u8>,
}

impl Message {
    pub(crate) fn clear(&mut self) {
        self.out.clear();
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.out
    }

    pub(crate) fn varint(&mut self, number: u8, value: u64) -> &mut Self {
        self.key(number, 0);
        self.raw_varint(value);
        self
    }

    pub(crate) fn double(&mut self, number: u8, value: f64) -> &mut Self {
        self.key(number, 1);
        self.out.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn float(&mut self, number: u8, value: f32) -> &mut Self {
        self.key(number, 5);
        self.out.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn bytes(&mut self, number: u8, value: &[u8]) -> &mut Self {
        self.key(number, 2);
        self.raw_varint(value.len() as u64);
        self.out.extend_from_slice(value);
        self
    }

    /// A message within this one.
    pub(crate) fn nested(&mut self, number: u8, fill: impl FnOnce(&mut Self)) -> &mut Self {
        self.key(number, 2);
        let start = self.out.len();
        fill(self);
        let end = self.out.len();
        // The length is known only now, and its own width with it.
        self.raw_varint((end - start) as u64);
        let width = self.out.len() - end;
        if let Some(written) = self.out.get_mut(start..) {
            written.rotate_right(width);
        }
        self
    }

    /// Field numbers up to 15 fit one byte; the messages here have no higher ones.
    fn key(&mut self, number: u8, wire_type: u8) {
        self.out.push(number << 3 | wire_type);
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Field, Fields};

    #[test]
    fn what_is_nested_reads_back() {
        for size in [0, 1, 127, 128, 20_000] {
            let inner = vec![b'x'; size];
            let mut message = Message::default();
            message.varint(1, u64::MAX).nested(5, |outer| {
                outer.bytes(1, &inner);
            });
            let mut fields = Fields::of(message.as_bytes());
            assert_eq!(fields.next(), Ok(Some((1, Field::Varint(u64::MAX)))));
            let (_, outer) = fields.next().expect("well formed").expect("a field");
            let mut outer = Fields::of(outer.bytes().expect("a message"));
            assert_eq!(outer.next(), Ok(Some((1, Field::Bytes(&inner)))));
            assert_eq!(fields.next(), Ok(None));
        }
    }
}
