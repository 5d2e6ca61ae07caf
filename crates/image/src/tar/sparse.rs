//! Sparse files, in the four ways that tars describe them.

use crate::entry::Piece;

/// No honest file has more; each costs memory.
pub(crate) const MOST_STRETCHES: usize = 1 << 18;

/// Data and holes in turn. Nothing where the stretches overlap, go backwards, leave the file, or are not what is stored.
pub(crate) fn pieces(stretches: &[(u64, u64)], size: u64, stored: u64) -> Option<Vec<Piece>> {
    let (mut pieces, mut at, mut data) = (Vec::new(), 0u64, 0u64);
    for &(offset, length) in stretches {
        let hole = offset.checked_sub(at)?;
        if hole > 0 {
            pieces.push(Piece::Hole(hole));
        }
        if length > 0 {
            pieces.push(Piece::Data(length));
        }
        at = offset.checked_add(length)?;
        data = data.checked_add(length)?;
    }
    let rest = size.checked_sub(at)?;
    if rest > 0 {
        pieces.push(Piece::Hole(rest));
    }
    (data == stored && stretches.len() <= MOST_STRETCHES).then_some(pieces)
}

/// `offset,length,offset,length`, as format 0.1 has them in one record.
pub(crate) fn listed(map: &[u8]) -> Option<Vec<(u64, u64)>> {
    let numbers: Option<Vec<u64>> =
        std::str::from_utf8(map).ok()?.split(',').map(|number| number.parse().ok()).collect();
    let numbers = numbers?;
    let pairs = numbers.chunks_exact(2);
    pairs.remainder().is_empty().then(|| numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

/// Format 1.0 writes the map before the data: decimal numbers, one a line, the first says how many pairs follow.
#[derive(Default)]
pub(crate) struct MapReader {
    numbers: Vec<u64>,
    current: Option<u64>,
}

impl MapReader {
    /// Takes one block of the map; `Some(true)` when it was the last, nothing when it is no map.
    pub(crate) fn block(&mut self, block: &[u8]) -> Option<bool> {
        for byte in block {
            match byte {
                b'0'..=b'9' => {
                    let value = self.current.unwrap_or(0).checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
                    self.current = Some(value);
                }
                b'\n' => {
                    self.numbers.push(self.current.take()?);
                    if self.is_complete()? {
                        return Some(true);
                    }
                }
                _ => return None,
            }
        }
        Some(false)
    }

    fn is_complete(&self) -> Option<bool> {
        let pairs = usize::try_from(*self.numbers.first()?).ok().filter(|pairs| *pairs <= MOST_STRETCHES)?;
        Some(self.numbers.len() == 1 + 2 * pairs)
    }

    pub(crate) fn stretches(&self) -> Vec<(u64, u64)> {
        self.numbers[1..].chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn holes_lie_between_data() {
        let found = pieces(&[(0, 5), (10, 5), (20, 0)], 20, 10).unwrap();
        assert_eq!(found, [Piece::Data(5), Piece::Hole(5), Piece::Data(5), Piece::Hole(5)]);
        assert_eq!(pieces(&[(10, 5), (0, 5)], 20, 10), None);
        assert_eq!(pieces(&[(10, 15)], 20, 15), None);
        assert_eq!(pieces(&[(0, 5)], 20, 6), None);
        assert_eq!(pieces(&[(u64::MAX, 5)], 20, 5), None);
    }

    #[test]
    fn maps_come_in_blocks() {
        let mut map = MapReader::default();
        assert_eq!(map.block(b"2\n0\n5\n1"), Some(false));
        assert_eq!(map.block(b"0\n5\n\0\0"), Some(true));
        assert_eq!(map.stretches(), [(0, 5), (10, 5)]);
        assert_eq!(MapReader::default().block(b"99999999999\n"), None);
        assert_eq!(MapReader::default().block(b"\n"), None);
    }
}
