//! The file that apptainer and singularity run: a head, a table of objects, the objects, and the squashfs as the last of them.
//!
//! The squashfs goes to a fixed place, so that it can be written before anything is known about it; the head comes last.

/// Where the squashfs begins: behind head, table and small objects, aligned as partitions are.
pub(crate) const PARTITION: u64 = 64 << 10;
const TABLE: usize = 4096;
const SLOTS: usize = 48;
const SLOT: usize = 585;
const DATA: usize = TABLE + SLOTS * SLOT;
/// What small objects may take; a larger one is left out.
const ROOM: usize = 64 * 1024 - DATA;

const DEFINITION: u32 = 0x4001;
const FILE_SYSTEM: u32 = 0x4004;
const JSON: u32 = 0x4006;
const SQUASHFS: u32 = 1;
const PRIMARY: u32 = 2;
/// The first group; the high bits say that it is one.
const GROUP: u32 = 0xf000_0001;
/// Go's zero time, as apptainer writes it when it is told to be reproducible.
const NO_TIME: i64 = -62_135_596_800;

/// A small object before the file system.
pub(crate) struct Object {
    pub(crate) name: &'static str,
    pub(crate) kind: ObjectKind,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Clone, Copy)]
pub(crate) enum ObjectKind {
    Definition,
    Json,
}

/// Everything before the squashfs, which has `size` bytes. `identity` is what the image's id is made of.
pub(crate) fn head(objects: &[Object], architecture: &str, identity: &[u8; 32], size: u64) -> Vec<u8> {
    let mut bytes = vec![0; PARTITION as usize];
    let (mut slot, mut end) = (0, DATA);
    for object in objects.iter().filter(|object| object.bytes.len() <= ROOM) {
        if end + object.bytes.len() > PARTITION as usize {
            continue;
        }
        bytes[end..end + object.bytes.len()].copy_from_slice(&object.bytes);
        let kind = match object.kind {
            ObjectKind::Definition => DEFINITION,
            ObjectKind::Json => JSON,
        };
        let place = Place { start: end as u64, size: object.bytes.len() as u64, padding: 0 };
        describe(&mut bytes, slot, kind, &place, object.name, &[]);
        end += object.bytes.len();
        slot += 1;
    }
    let arch = code(architecture);
    let extra = [&SQUASHFS.to_le_bytes()[..], &PRIMARY.to_le_bytes(), &arch].concat();
    let place = Place { start: PARTITION, size, padding: PARTITION - end as u64 };
    describe(&mut bytes, slot, FILE_SYSTEM, &place, "rootfs.squashfs", &extra);
    global(&mut bytes, slot + 1, arch, identity, size);
    bytes
}

struct Place {
    start: u64,
    size: u64,
    padding: u64,
}

fn describe(bytes: &mut [u8], slot: usize, kind: u32, place: &Place, name: &str, extra: &[u8]) {
    let mut out = Vec::with_capacity(SLOT);
    out.extend(kind.to_le_bytes());
    out.push(1);
    out.extend(u32::try_from(slot + 1).unwrap_or_default().to_le_bytes());
    out.extend(GROUP.to_le_bytes());
    out.extend([0; 4]);
    [place.start, place.size, place.size + place.padding].iter().for_each(|value| out.extend(value.to_le_bytes()));
    [NO_TIME, NO_TIME, 0, 0].iter().for_each(|value| out.extend(value.to_le_bytes()));
    out.extend(name.as_bytes());
    out.resize(201, 0);
    out.extend(extra);
    out.resize(SLOT, 0);
    bytes[TABLE + slot * SLOT..][..SLOT].copy_from_slice(&out);
}

fn global(bytes: &mut [u8], used: usize, arch: [u8; 3], identity: &[u8; 32], size: u64) {
    let mut out = b"#!/usr/bin/env run-singularity\n\0".to_vec();
    out.extend(b"SIF_MAGIC\x0001\0");
    out.extend(arch);
    out.extend(uuid(identity));
    [NO_TIME, NO_TIME].iter().for_each(|value| out.extend(value.to_le_bytes()));
    let table = [SLOTS - used, SLOTS, TABLE, SLOTS * SLOT, DATA];
    table.iter().for_each(|value| out.extend((*value as u64).to_le_bytes()));
    out.extend((PARTITION + size - DATA as u64).to_le_bytes());
    bytes[..out.len()].copy_from_slice(&out);
}

/// The same image has the same id. Marked as one that was made freely (version 8).
fn uuid(identity: &[u8; 32]) -> [u8; 16] {
    let mut id = [0; 16];
    id.copy_from_slice(&identity[..16]);
    id[6] = id[6] & 0x0f | 0x80;
    id[8] = id[8] & 0x3f | 0x80;
    id
}

/// Apptainer refuses to run what is for another processor; it does not look at what is unknown to us.
fn code(architecture: &str) -> [u8; 3] {
    let known = [
        "386", "amd64", "arm", "arm64", "ppc64", "ppc64le", "mips", "mipsle", "mips64", "mips64le", "s390x", "riscv64",
        "loong64",
    ];
    let number = known.iter().position(|name| *name == architecture).map_or(0, |at| at + 1);
    let digit = |value: usize| b'0' + u8::try_from(value).unwrap_or_default();
    [digit(number / 10), digit(number % 10), 0]
}
