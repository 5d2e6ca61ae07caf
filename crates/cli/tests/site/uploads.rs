//! Snapshots to a depot: only what is missing, verified, whole or not at all, whatever is cut and whenever.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use trainyard_agent::depot::Depot;
use trainyard_agent::pack::{Packs, content};
use trainyard_agent::snapshot::{Entry, Kind, Manifest, encode};
use trainyard_core::id::Digest;
use trainyard_engine::host::{Host, SshHost};
use trainyard_engine::pipe::{Pipe, PipeError};
use trainyard_engine::snapshot::Snapshot;
use trainyard_engine::transfer::{Base, Sent, TransferError, upload};
use trainyard_testkit::small_disk::SmallDisk;

use crate::sshd::Sshd;
use crate::{LIMIT, PROGRAM, here};

/// Numbers that look random and are the same each time.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 16) % end
    }
}

pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

pub(crate) fn text(seed: u64, length: usize) -> Vec<u8> {
    format!("line {seed} of some program\n").into_bytes().into_iter().cycle().take(length).collect()
}

/// Small and large, noise and text, empty, and the same twice.
fn project(folder: &Path, files: u64) {
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    for number in 0..files {
        let length = usize::try_from(number * 37 % 9000).unwrap();
        let bytes = if number % 2 == 0 { text(number, length) } else { noise(number, length) };
        std::fs::write(folder.join(format!("sub/{number}")), bytes).unwrap();
    }
    std::fs::write(folder.join("empty"), "").unwrap();
    std::fs::write(folder.join("twice"), text(4, 148)).unwrap();
    std::fs::write(folder.join("large-noise"), noise(1, 2_500_000)).unwrap();
    std::fs::write(folder.join("large-text"), text(1, 3_000_001)).unwrap();
}

fn scan(folder: &Path) -> Snapshot {
    let mut manifest = Manifest::default();
    let (mut files, mut bytes) = (BTreeMap::new(), 0);
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            let name = encode(path.strip_prefix(folder).unwrap());
            let kind = if path.is_dir() {
                waiting.push(path);
                Kind::Folder
            } else {
                let content = std::fs::read(&path).unwrap();
                let blob = Digest(blake3::hash(&content).to_hex().to_string());
                files.insert(blob.clone(), path);
                bytes += content.len() as u64;
                Kind::File { blob, size: content.len() as u64, mode: 0o644 }
            };
            manifest.entries.push(Entry { path: name, kind });
        }
    }
    manifest.entries.sort_by(|a, b| a.path.cmp(&b.path));
    Snapshot::new(manifest, files, bytes)
}

fn send(pipe: &mut Pipe, snapshot: &Snapshot) -> Result<Sent, TransferError> {
    upload(pipe, snapshot, None, &mut |_| {})
}

/// Of these snapshots, how many contents are there, in packs or in files of their own.
fn blobs(depot: &Path, snapshots: &[&Snapshot]) -> usize {
    let single = single(depot, snapshots);
    let depot = Depot::new(depot);
    let packs = Packs::read(&depot);
    let all: BTreeSet<&Digest> = snapshots.iter().flat_map(|snapshot| snapshot.files.keys()).collect();
    let is_packed = |digest: &&&Digest| !single.contains(**digest) && content(&depot, &packs, digest).is_some();
    single.len() + all.iter().filter(is_packed).count()
}

/// Every blob that has its final name has its content, or is known by its length to be cut short.
fn single(depot: &Path, snapshots: &[&Snapshot]) -> BTreeSet<Digest> {
    let entries = || snapshots.iter().flat_map(|snapshot| &snapshot.manifest.entries);
    let size_of = |digest: &str| {
        entries().find_map(|entry| match &entry.kind {
            Kind::File { blob, size, .. } if blob.0 == digest => Some(*size),
            _ => None,
        })
    };
    let mut found = BTreeSet::new();
    for folder in std::fs::read_dir(depot.join("blobs")).into_iter().flatten() {
        let folder = folder.unwrap();
        for blob in std::fs::read_dir(folder.path()).unwrap() {
            let blob = blob.unwrap().path();
            let name = blob.file_name().unwrap().to_str().unwrap();
            if !name.ends_with(".tmp") {
                let digest = format!("{}{name}", folder.file_name().to_str().unwrap());
                let content = std::fs::read(&blob).unwrap();
                if size_of(&digest).is_some_and(|size| size > content.len() as u64) {
                    continue;
                }
                assert_eq!(blake3::hash(&content).to_hex().as_str(), digest);
                assert_eq!(blob.metadata().unwrap().permissions().mode() & 0o777, 0o444);
                found.insert(Digest(digest));
            }
        }
    }
    found
}

fn is_whole(depot: &Path, snapshot: &Snapshot) -> bool {
    let depot = Depot::new(depot);
    let there = Manifest::read(&depot, &snapshot.digest);
    let Ok(manifest) = there else { return false };
    assert_eq!(manifest, snapshot.manifest);
    let packs = Packs::read(&depot);
    snapshot.files.keys().for_each(|digest| assert!(content(&depot, &packs, digest).is_some(), "{}", digest.0));
    true
}

#[test]
fn only_what_is_missing_is_sent() {
    let root = tempfile::tempdir().unwrap();
    let (folder, depot) = (root.path().join("p"), root.path().join("d"));
    project(&folder, 300);
    let snapshot = scan(&folder);
    let mut pipe = here(&depot);
    let mut last = None;
    let sent = upload(&mut pipe, &snapshot, None, &mut |progress| last = Some(progress)).unwrap();
    assert_eq!(sent.files, snapshot.files.len() as u64);
    assert!(sent.wire < sent.bytes, "text gets smaller: {sent:?}");
    let last = last.unwrap();
    assert_eq!((last.bytes, last.of), (sent.bytes, sent.bytes));
    assert!(is_whole(&depot, &snapshot));
    assert_eq!(send(&mut pipe, &snapshot).unwrap(), Sent::default());
    std::fs::write(folder.join("sub/7"), "new").unwrap();
    std::fs::remove_file(folder.join("sub/8")).unwrap();
    let changed = scan(&folder);
    assert_eq!(send(&mut pipe, &changed).unwrap().files, 1);
    assert!(is_whole(&depot, &changed) && is_whole(&depot, &snapshot));
}

#[test]
fn many_small_files_are_few_files_at_the_site() {
    let root = tempfile::tempdir().unwrap();
    let (folder, depot) = (root.path().join("p"), root.path().join("d"));
    std::fs::create_dir(&folder).unwrap();
    for number in 0..3000 {
        std::fs::write(folder.join(number.to_string()), text(number, 500)).unwrap();
    }
    // Of these eight fill a block.
    for number in 0..45 {
        std::fs::write(folder.join(format!("z{number:02}")), noise(number, 60_000)).unwrap();
    }
    let snapshot = scan(&folder);
    let mut pipe = here(&depot);
    assert_eq!(send(&mut pipe, &snapshot).unwrap().files, 3045);
    assert!(is_whole(&depot, &snapshot));
    assert_eq!(single(&depot, &[&snapshot]).len(), 0);
    let packs = std::fs::read_dir(depot.join("packs")).unwrap().count();
    assert!((2..=8).contains(&packs), "{packs}: a pack and its index for each thread that received something");
    // Few that change get files of their own, so that packs stay few.
    std::fs::write(folder.join("7"), "new").unwrap();
    let changed = scan(&folder);
    assert_eq!(send(&mut pipe, &changed).unwrap().files, 1);
    assert_eq!(single(&depot, &[&changed]).len(), 1);
    assert!(is_whole(&depot, &changed) && is_whole(&depot, &snapshot));
}

#[test]
fn of_a_project_that_was_sent_before_only_the_difference_is_told() {
    let root = tempfile::tempdir().unwrap();
    let (folder, depot) = (root.path().join("p"), root.path().join("d"));
    project(&folder, 300);
    let earlier = scan(&folder);
    let mut pipe = here(&depot);
    send(&mut pipe, &earlier).unwrap();
    std::fs::write(folder.join("sub/7"), "new").unwrap();
    std::fs::write(folder.join("sub/zz"), "last").unwrap();
    std::fs::remove_file(folder.join("sub/8")).unwrap();
    let changed = scan(&folder);
    let base = Base { digest: &earlier.digest, text: &earlier.text };
    let sent = upload(&mut pipe, &changed, Some(base), &mut |_| {}).unwrap();
    assert_eq!(sent.files, 2);
    assert!(is_whole(&depot, &changed) && is_whole(&depot, &earlier));

    // A file less: nothing is sent, and the snapshot is there.
    std::fs::remove_file(folder.join("sub/9")).unwrap();
    let fewer = scan(&folder);
    let base = Base { digest: &changed.digest, text: &changed.text };
    assert_eq!(upload(&mut pipe, &fewer, Some(base), &mut |_| {}).unwrap(), Sent::default());
    assert!(is_whole(&depot, &fewer));

    // The site has cleaned up, or what is remembered here is not what is there: then all of it is told.
    std::fs::write(folder.join("sub/7"), "newer").unwrap();
    let newer = scan(&folder);
    let strange = Base { digest: &fewer.digest, text: &earlier.text };
    assert_eq!(upload(&mut pipe, &newer, Some(strange), &mut |_| {}).unwrap().files, 1);
    assert!(is_whole(&depot, &newer));
    std::fs::remove_dir_all(&depot).unwrap();
    let base = Base { digest: &fewer.digest, text: &fewer.text };
    let sent = upload(&mut here(&depot), &newer, Some(base), &mut |_| {}).unwrap();
    assert_eq!(sent.files, newer.files.len() as u64);
    assert!(is_whole(&depot, &newer));
}

/// What stands for `ssh`: runs the command here, with so many bytes each way.
pub(crate) fn cut(folder: &Path, up: u64, down: u64) -> Host {
    let program = folder.join("cut");
    let script = r#"#!/bin/sh
up=$1; down=$2; for last; do :; done
[ -n "$APART" ] || { export APART=1; exec setsid "$0" "$@"; }
pass() { dd bs=65536 iflag=count_bytes count="$1" status=none; }
pass "$up" | sh -c "$last" | { pass "$down"; kill -9 0; }
"#;
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let words = [program.to_str().unwrap().to_owned(), up.to_string(), down.to_string()];
    Host::Ssh(SshHost::new("site", &words, &folder.join("c")).unwrap())
}

#[test]
fn a_cut_anywhere_leaves_whole_blobs_and_the_next_try_goes_on() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("p");
    project(&folder, 200);
    let snapshot = scan(&folder);
    let mut numbers = Numbers(42);
    let (mut cuts, mut resumed) = (0, 0);
    for round in 0..6 {
        let depot = root.path().join(format!("d{round}"));
        drop(here(&depot));
        let (mut before, mut tries) = (0, 0);
        loop {
            tries += 1;
            assert!(tries < 60, "it goes on, slowly");
            let up = 20_000 + numbers.below(if tries < 12 { 400_000 } else { 4_000_000 });
            let down = if numbers.below(5) == 0 { 300 + numbers.below(9000) } else { 1 << 40 };
            let host = cut(root.path(), up, down);
            let opened = Pipe::open(&host, depot.to_str().unwrap(), Path::new(PROGRAM), LIMIT);
            let sent = opened.map_err(TransferError::from).and_then(|mut pipe| send(&mut pipe, &snapshot));
            let there = blobs(&depot, &[&snapshot]);
            assert!(there >= before, "what arrived whole stays");
            resumed += usize::from(there > before && before > 0);
            before = there;
            match sent {
                Ok(_) => break,
                Err(TransferError::Pipe(PipeError::Dropped | PipeError::Host(_))) => cuts += 1,
                Err(error) => panic!("{error:?}"),
            }
        }
        assert!(is_whole(&depot, &snapshot));
        assert_eq!(blobs(&depot, &[&snapshot]), snapshot.files.len());
    }
    assert!(cuts >= 50, "{cuts} cuts");
    assert!(resumed >= 6, "{resumed} went on");
}

#[test]
fn a_blob_that_was_left_short_is_put_again() {
    let root = tempfile::tempdir().unwrap();
    let (folder, depot) = (root.path().join("p"), root.path().join("d"));
    project(&folder, 20);
    let snapshot = scan(&folder);
    let place = Depot::new(&depot);
    let short: Vec<&Digest> = snapshot.files.keys().take(7).collect();
    for (length, digest) in short.iter().enumerate() {
        std::fs::create_dir_all(place.blob(digest).parent().unwrap()).unwrap();
        std::fs::write(place.blob(digest), &b"123456"[..length.min(2)]).unwrap();
        std::fs::set_permissions(place.blob(digest), std::fs::Permissions::from_mode(0o444)).unwrap();
    }
    send(&mut here(&depot), &snapshot).unwrap();
    assert!(is_whole(&depot, &snapshot));
    assert_eq!(blobs(&depot, &[&snapshot]), snapshot.files.len());
}

#[test]
fn over_ssh_a_killed_connection_is_told_and_resumed() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("p");
    project(&folder, 500);
    std::fs::write(folder.join("huge"), noise(9, 40_000_000)).unwrap();
    let snapshot = scan(&folder);
    let sshd = Sshd::start("");
    let host = sshd.client("");
    let depot = sshd.path().join("depot");
    let open = || Pipe::open(&host, depot.to_str().unwrap(), Path::new(PROGRAM), LIMIT).unwrap();
    let mut pipe = open();
    let mut cut = false;
    let error = upload(&mut pipe, &snapshot, None, &mut |progress| {
        if progress.bytes > 1_000_000 && !std::mem::replace(&mut cut, true) {
            sshd.cut();
        }
    });
    assert!(matches!(error, Err(TransferError::Pipe(PipeError::Dropped))), "{error:?}");
    drop(pipe);
    assert!(!is_whole(&depot, &snapshot));
    send(&mut open(), &snapshot).unwrap();
    assert!(is_whole(&depot, &snapshot));
}

#[test]
fn a_file_that_changed_since_the_scan_is_named() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("p");
    project(&folder, 50);
    let snapshot = scan(&folder);
    type Change = fn(&Path);
    let changes: [(&str, Change); 4] = [
        ("sub/9", |path| std::fs::write(path, noise(77, 333)).unwrap()),
        ("sub/8", |path| std::fs::write(path, text(8, 5000)).unwrap()),
        ("large-noise", |path| std::fs::write(path, noise(78, 2_500_000)).unwrap()),
        ("sub/6", |path| std::fs::remove_file(path).unwrap()),
    ];
    for (name, change) in changes {
        let path: PathBuf = folder.join(name);
        let old = std::fs::read(&path).unwrap();
        change(&path);
        let depot = root.path().join(format!("depot of {}", name.replace('/', "-")));
        let mut pipe = here(&depot);
        let error = send(&mut pipe, &snapshot).unwrap_err();
        assert!(matches!(&error, TransferError::Changed { path: named } if *named == path), "{name}: {error:?}");
        assert!(Manifest::read(&Depot::new(&depot), &snapshot.digest).is_err());
        std::fs::write(&path, old).unwrap();
        send(&mut pipe, &snapshot).unwrap();
        assert!(is_whole(&depot, &snapshot));
    }
}

#[test]
fn many_uploads_at_once_share_blobs() {
    let root = tempfile::tempdir().unwrap();
    let depot = root.path().join("d");
    let snapshots: Vec<Snapshot> = (0..4)
        .map(|number| {
            let folder = root.path().join(format!("p{number}"));
            project(&folder, 200);
            std::fs::write(folder.join("own"), number.to_string()).unwrap();
            scan(&folder)
        })
        .collect();
    std::thread::scope(|scope| {
        for snapshot in &snapshots {
            scope.spawn(|| send(&mut here(&depot), snapshot).unwrap());
        }
    });
    assert!(snapshots.iter().all(|snapshot| is_whole(&depot, snapshot)));
    assert_eq!(blobs(&depot, &snapshots.iter().collect::<Vec<_>>()), snapshots[0].files.len() + 3);
}

#[test]
fn a_full_disk_is_told_before_and_during() {
    let root = tempfile::tempdir().unwrap();
    let size = usize::try_from(std::fs::metadata(PROGRAM).unwrap().len() >> 20).unwrap();
    let open = |disk: &SmallDisk| {
        let depot = disk.folder().join("depot");
        Pipe::open(&cut(root.path(), 1 << 40, 1 << 40), depot.to_str().unwrap(), Path::new(PROGRAM), LIMIT)
    };
    let small = SmallDisk::on(&root.path().join("small"), size / 2);
    let error = open(&small).unwrap_err().to_string();
    assert!(error.contains("cannot be stored in the depot on `site`") && error.contains("No space left"), "{error}");
    assert_eq!(std::fs::read_dir(small.folder().join("depot/bin")).unwrap().count(), 0, "nothing is left behind");

    let disk = SmallDisk::on(&root.path().join("disk"), size + 64);
    let folder = root.path().join("p");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("a"), noise(1, 60 << 20)).unwrap();
    let mut pipe = open(&disk).unwrap();
    let error = send(&mut pipe, &scan(&folder)).unwrap_err();
    assert!(matches!(error, TransferError::Full { .. }), "{error:?}");
    std::fs::write(folder.join("a"), noise(1, 30 << 20)).unwrap();
    let snapshot = scan(&folder);
    let mut filled = false;
    let error = upload(&mut pipe, &snapshot, None, &mut |_| {
        if !std::mem::replace(&mut filled, true) {
            let _ = std::fs::write(disk.folder().join("other"), noise(2, 64 << 20));
        }
    });
    assert!(
        matches!(&error, Err(TransferError::Pipe(PipeError::Refused(why))) if why.contains("No space left")),
        "{error:?}"
    );
    std::fs::remove_file(disk.folder().join("other")).unwrap();
    send(&mut pipe, &snapshot).unwrap();
    assert!(is_whole(&disk.folder().join("depot"), &snapshot));
}

#[test]
fn hostile_manifests_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let mut pipe = here(&root.path().join("d"));
    for (path, blob) in
        [("../x", "0".repeat(64)), ("a", "../../../../x".to_owned()), ("/x", "0".repeat(64)), ("a", "A".repeat(64))]
    {
        let kind = Kind::File { blob: Digest(blob), size: 1, mode: 0o644 };
        let manifest = Manifest { entries: vec![Entry { path: path.to_owned(), kind }] };
        let snapshot = Snapshot::new(manifest, BTreeMap::new(), 1);
        let error = send(&mut pipe, &snapshot).unwrap_err();
        assert!(matches!(error, TransferError::Pipe(PipeError::Refused(_))), "{error:?}");
    }
    let manifest = Manifest::default();
    let lie = Snapshot { digest: Digest("1".repeat(64)), ..Snapshot::new(manifest, BTreeMap::new(), 0) };
    assert!(matches!(send(&mut pipe, &lie), Err(TransferError::Pipe(PipeError::Refused(_)))));
    assert!(pipe.space().is_ok());
}
