//! Snapshots: by content, whole or not at all.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use trainyard_agent::depot::Depot;
use trainyard_agent::snapshot::{Kind, Manifest};
use trainyard_core::id::Digest;
use trainyard_engine::snapshot::{Rules, SnapshotError, Suspicion};

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn take(project: &Path, rules: &Rules, depot: &Depot) -> Result<Digest, SnapshotError> {
    let cache = depot.root().with_file_name("cache");
    trainyard_engine::snapshot::take(project, rules, &cache, depot).map(|snapshot| snapshot.digest)
}

#[test]
fn the_same_files_give_the_same_snapshot_and_any_change_another() {
    let root = tempfile::tempdir().unwrap();
    let (project, depot) = (root.path().join("p"), Depot::new(root.path().join("d")));
    write(&project.join("a.py"), "one");
    write(&project.join("sub/b.py"), "two");
    let first = take(&project, &Rules::default(), &depot).unwrap();
    assert_eq!(take(&project, &Rules::default(), &depot).unwrap(), first);
    let mut seen = vec![first];
    let changes: [&dyn Fn(); 4] = [
        &|| write(&project.join("a.py"), "oNe"),
        &|| std::fs::set_permissions(project.join("a.py"), std::fs::Permissions::from_mode(0o755)).unwrap(),
        &|| std::fs::create_dir(project.join("empty")).unwrap(),
        &|| std::fs::remove_file(project.join("sub/b.py")).unwrap(),
    ];
    for change in changes {
        change();
        let next = take(&project, &Rules::default(), &depot).unwrap();
        assert!(!seen.contains(&next));
        seen.push(next);
    }
}

#[test]
fn a_blob_cut_short_by_a_power_cut_is_put_again() {
    let root = tempfile::tempdir().unwrap();
    let (project, depot) = (root.path().join("p"), Depot::new(root.path().join("d")));
    write(&project.join("a.py"), "content");
    let digest = take(&project, &Rules::default(), &depot).unwrap();
    let Kind::File { blob, .. } = Manifest::read(&depot, &digest).unwrap().entries[0].kind.clone() else { panic!() };
    let path = depot.blob(&blob);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::write(&path, "").unwrap();
    take(&project, &Rules::default(), &depot).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "content");
}

#[test]
fn a_damaged_or_hostile_manifest_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let (project, depot) = (root.path().join("p"), Depot::new(root.path().join("d")));
    write(&project.join("a.py"), "content");
    let digest = take(&project, &Rules::default(), &depot).unwrap();
    std::fs::write(depot.snapshot(&digest), "{\"entries\":[]}").unwrap();
    assert!(Manifest::read(&depot, &digest).is_err(), "its name is its hash");
    let hostile = br#"{"entries":[{"path":"../../etc/x","kind":"folder"}]}"#;
    let name = Digest(blake3::hash(hostile).to_hex().to_string());
    std::fs::write(depot.snapshot(&name), hostile).unwrap();
    assert!(Manifest::read(&depot, &name).unwrap_err().to_string().contains("leads out of the folder"));
}

#[test]
fn a_likely_mistake_is_named() {
    let root = tempfile::tempdir().unwrap();
    let (project, depot) = (root.path().join("p"), Depot::new(root.path().join("d")));
    write(&project.join("train.py"), "code");
    let large = project.join("checkpoints/model.pt");
    write(&large, "");
    std::fs::File::options().write(true).open(&large).unwrap().set_len(600_000_000).unwrap();
    let Err(SnapshotError::Mistake(mistake)) = take(&project, &Rules::default(), &depot) else { panic!() };
    assert_eq!((mistake.suspicion, mistake.bytes, mistake.files), (Suspicion::Checkpoints, 600_000_000, 1));
    assert_eq!(mistake.folder, Path::new("checkpoints"));
    let exclude = Rules { exclude: vec![mistake.pattern()], ..Rules::default() };
    assert!(take(&project, &exclude, &depot).is_ok(), "and can be left out");
}
