#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::Write;
use std::path::PathBuf;

use proptest::prelude::*;
use trainyard_core::id::Digest;

use super::*;
use crate::block::{Packer, Record, Worth};
use crate::depot::Depot;

pub(crate) fn texts(from: usize, count: usize) -> Vec<String> {
    (from..from + count).map(|number| format!("content {number}")).collect()
}

pub(crate) fn digest(text: &str) -> Digest {
    Digest(blake3::hash(text.as_bytes()).to_hex().to_string())
}

/// As it comes over the wire.
fn put(writer: &mut Writer<'_>, texts: &[String]) {
    let record = |text: &String| (*blake3::hash(text.as_bytes()).as_bytes(), text.clone());
    let owned: Vec<([u8; 32], String)> = texts.iter().map(record).collect();
    let records: Vec<Record<'_>> = owned
        .iter()
        .map(|(digest, text)| Record { digest: *digest, total: text.len() as u64, offset: 0, bytes: text.as_bytes() })
        .collect();
    let mut block = Vec::new();
    records.iter().for_each(|record| record.append(&mut block));
    let packed = Packer::new().unwrap().pack(3, &block, Worth::Compressing).unwrap();
    writer.add(&packed, &records).unwrap();
}

/// In a pack of their own.
pub(crate) fn pack(depot: &Depot, texts: &[String]) {
    put(&mut Writer::new(depot), texts);
}

fn file(depot: &Depot, ending: &str) -> PathBuf {
    let mut paths = std::fs::read_dir(depot.packs()).unwrap().map(|entry| entry.unwrap().path());
    paths.find(|path| path.extension().unwrap() == ending).unwrap()
}

fn found(depot: &Depot, texts: &[String]) -> usize {
    let packs = Packs::read(depot);
    let content = |text: &&String| content(depot, &packs, &digest(text)).is_some_and(|bytes| bytes == text.as_bytes());
    texts.iter().filter(content).count()
}

#[test]
fn what_was_put_is_there_with_its_size_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let depot = Depot::new(root.path());
    let all = texts(0, 90);
    let mut writer = Writer::new(&depot);
    put(&mut writer, &all[..40]);
    put(&mut writer, &all[40..60]);
    pack(&depot, &all[60..]);
    assert_eq!(std::fs::read_dir(depot.packs()).unwrap().count(), 4, "two packs, two indexes");
    assert_eq!(found(&depot, &all), 90);
    let packs = Packs::read(&depot);
    assert_eq!(packs.size(&digest("content 7")), Some(9));
    assert_eq!((packs.size(&digest("other")), packs.place(&Digest("no name".to_owned()))), (None, None));
}

#[test]
fn an_end_that_was_cut_is_not_read_and_what_is_before_it_stays() {
    let all = texts(0, 60);
    for ending in ["index", "pack"] {
        let root = tempfile::tempdir().unwrap();
        let depot = Depot::new(root.path());
        let mut writer = Writer::new(&depot);
        put(&mut writer, &all[..20]);
        put(&mut writer, &all[20..40]);
        let path = file(&depot, ending);
        let length = std::fs::metadata(&path).unwrap().len();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 1).unwrap();
        assert_eq!(found(&depot, &all), 20, "{ending}");
        // Whoever sends the rest again has another pack.
        pack(&depot, &all[20..]);
        assert_eq!(found(&depot, &all), 60, "{ending}");
    }
}

#[test]
fn damage_is_never_given_out() {
    let root = tempfile::tempdir().unwrap();
    let depot = Depot::new(root.path());
    let all = texts(0, 20);
    pack(&depot, &all);
    let path = file(&depot, "pack");
    let whole = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x40;
        std::fs::write(&path, damaged).unwrap();
        let packs = Packs::read(&depot);
        for text in &all {
            let content = content(&depot, &packs, &digest(text));
            assert!(content.is_none_or(|bytes| bytes == text.as_bytes()), "byte {at}");
        }
    }
}

proptest! {
    #[test]
    fn any_index_is_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let root = tempfile::tempdir().unwrap();
        let depot = Depot::new(root.path());
        std::fs::create_dir(depot.packs()).unwrap();
        std::fs::File::create(depot.packs().join("a.pack")).unwrap().write_all(&bytes).unwrap();
        std::fs::File::create(depot.packs().join("a.index")).unwrap().write_all(&bytes).unwrap();
        prop_assert!(Packs::read(&depot).is_empty());
    }
}
