//! What a pack holds, in groups of one block each. A group that is cut or damaged ends the list: all before it is true.

/// Of a content: BLAKE3, and how many bytes it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) digest: [u8; 32],
    pub(super) size: u32,
}

/// A block, where it is in its pack, and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) names: Vec<Name>,
}

const CHECK: usize = 16;
const NAME: usize = 32 + 4;

impl Group {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(16 + self.names.len() * NAME);
        body.extend_from_slice(&self.offset.to_le_bytes());
        body.extend_from_slice(&self.length.to_le_bytes());
        body.extend_from_slice(&u32::try_from(self.names.len()).unwrap_or(u32::MAX).to_le_bytes());
        for name in &self.names {
            body.extend_from_slice(&name.digest);
            body.extend_from_slice(&name.size.to_le_bytes());
        }
        let mut group = check(&body).to_vec();
        group.append(&mut body);
        group
    }
}

fn check(body: &[u8]) -> [u8; CHECK] {
    let mut check = [0; CHECK];
    check.copy_from_slice(&blake3::hash(body).as_bytes()[..CHECK]);
    check
}

/// The groups of an index.
pub(super) fn groups(mut rest: &[u8]) -> impl Iterator<Item = Group> {
    std::iter::from_fn(move || {
        let (group, after) = first(rest)?;
        rest = after;
        Some(group)
    })
}

fn first(bytes: &[u8]) -> Option<(Group, &[u8])> {
    let (told, body) = bytes.split_first_chunk::<CHECK>()?;
    let (offset, rest) = body.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (count, rest) = rest.split_first_chunk::<4>()?;
    let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
    let (table, after) = rest.split_at_checked(count.checked_mul(NAME)?)?;
    if check(body.get(..16 + table.len())?) != *told {
        return None;
    }
    let (offset, length) = (u64::from_le_bytes(*offset), u32::from_le_bytes(*length));
    let names = table.as_chunks::<NAME>().0.iter().filter_map(name).collect();
    Some((Group { offset, length, names }, after))
}

fn name(bytes: &[u8; NAME]) -> Option<Name> {
    let (digest, size) = bytes.split_first_chunk::<32>()?;
    Some(Name { digest: *digest, size: u32::from_le_bytes(*size.first_chunk::<4>()?) })
}
