#![expect(clippy::unwrap_used, reason = "tests")]
use std::collections::BTreeMap;

use trainyard_core::id::{Digest, RunId, Token};
use trainyard_core::spec::{Layer, load};

use super::*;

fn store(depot: &Depot, files: &[(&str, &str)]) -> Digest {
    let mut manifest = Manifest::default();
    let mut folders: Vec<&str> = files.iter().filter_map(|(path, _)| Some(path.rsplit_once('/')?.0)).collect();
    folders.sort_unstable();
    folders.dedup();
    manifest.entries.extend(folders.into_iter().map(|path| Entry { path: path.to_owned(), kind: Kind::Folder }));
    for (path, text) in files {
        let blob = Digest(blake3::hash(text.as_bytes()).to_hex().to_string());
        fs_err::create_dir_all(depot.blob(&blob).parent().unwrap()).unwrap();
        fs_err::write(depot.blob(&blob), text).unwrap();
        let kind = Kind::File { blob, size: text.len() as u64, mode: 0o644 };
        manifest.entries.push(Entry { path: (*path).to_owned(), kind });
    }
    fs_err::create_dir_all(depot.snapshots()).unwrap();
    fs_err::write(depot.snapshot(&manifest.digest()), manifest.bytes()).unwrap();
    manifest.digest()
}

fn order(depot: &Depot, snapshot: &Digest, number: u128) -> Order {
    let text = "[jobs.any]\ncommand = [\"true\"]".to_owned();
    let config = load(&[Layer { name: "trainyard.toml".to_owned(), text }], &[], "any").unwrap().config;
    let run: RunId = format!("019a0000-0000-7000-8000-{number:012x}").parse().unwrap();
    let order = Order {
        depot: depot.clone(),
        run,
        name: "any".to_owned(),
        attempt: 1,
        token: Token::new(run, 1),
        job: config.jobs["any"].clone(),
        seed: None,
        params: BTreeMap::new(),
        from: None,
        extra: Vec::new(),
        source: Source::Snapshot(snapshot.clone()),
        env: BTreeMap::new(),
        devices: Vec::new(),
        lease: None,
    };
    fs_err::create_dir_all(depot.run(run).attempt(1).path()).unwrap();
    order
}

fn below(folder: &Path) -> BTreeMap<String, String> {
    fn look(top: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
        for entry in fs_err::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                found.insert(name, String::new());
                look(top, &path, found);
            } else {
                found.insert(name, fs_err::read_to_string(&path).unwrap_or_default());
            }
        }
    }
    let mut found = BTreeMap::new();
    look(folder, folder, &mut found);
    found
}

#[test]
fn five_hundred_runs_of_ten_thousand_files_do_not_make_five_million() {
    let root = tempfile::tempdir().unwrap();
    let depot = Depot::new(root.path());
    let files: Vec<(String, String)> =
        (0..10_000).map(|n| (format!("d{:03}/f{n:05}", n % 100), format!("{}", n % 50))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let snapshot = store(&depot, &files);
    for number in 0..500 {
        let work = prepare(&order(&depot, &snapshot, number)).unwrap();
        assert!(work.overlay.is_some(), "this machine has no overlay mounts for us");
        assert!(work.view.find(Path::new("d007/f00007")).is_some());
    }
    assert_eq!(below(&depot.tree(&snapshot)).len(), 10_100);
    let inodes = below(&depot.runs()).len();
    // Run, attempts, attempt, work, overlay and the note.
    assert_eq!(inodes, 500 * 6, "{:?}", below(&depot.runs()).keys().take(12).collect::<Vec<_>>());
}

#[test]
fn a_folder_is_filled_up_where_no_overlay_can_be_had() {
    let root = tempfile::tempdir().unwrap();
    let depot = Depot::new(root.path());
    let files = [("a/gone", "1"), ("a/kept", "2"), ("b/under", "3"), ("c/deep", "4"), ("changed", "5"), ("same", "6")];
    let snapshot = store(&depot, &files);
    let folder = depot.run(order(&depot, &snapshot, 1).run);
    let work = folder.work();
    for path in ["a", "b"] {
        fs_err::create_dir_all(work.join(path)).unwrap();
    }
    fs_err::write(work.join("changed"), "mine").unwrap();
    fs_err::write(work.join("b/new"), "mine").unwrap();
    let device = rustix::fs::FileType::CharacterDevice;
    for gone in ["a/gone", "c"] {
        rustix::fs::mknodat(rustix::fs::CWD, work.join(gone), device, rustix::fs::Mode::empty(), 0).unwrap();
    }
    rustix::fs::setxattr(work.join("b"), OPAQUE, b"y", rustix::fs::XattrFlags::empty()).unwrap();
    let layered = Layered { tree: snapshot.clone() };
    replace_json(&folder.layers(), &layered, Durability::Cached).unwrap();
    // Left by one that was killed while it did the same.
    fs_err::write(folder.path().join(PART), "half").unwrap();

    let manifest = Manifest::read(&depot, &snapshot).unwrap();
    fill_up(&depot, &folder, &layered, &manifest).unwrap();
    let expected = [("a", ""), ("a/kept", "2"), ("b", ""), ("b/new", "mine"), ("changed", "mine"), ("same", "6")];
    let expected: BTreeMap<String, String> =
        expected.into_iter().map(|(path, text)| (path.to_owned(), text.to_owned())).collect();
    assert_eq!(below(&work), expected);
    assert!(!folder.layers().exists());
}

#[test]
fn a_half_made_folder_is_made_anew() {
    let root = tempfile::tempdir().unwrap();
    let depot = Depot::new(root.path());
    let snapshot = store(&depot, &[("a", "1")]);
    let order = order(&depot, &snapshot, 1);
    let folder = depot.run(order.run);
    fs_err::create_dir_all(folder.work()).unwrap();
    fs_err::write(folder.work().join("half"), "").unwrap();
    replace_json(&folder.layers(), &Layered { tree: snapshot.clone() }, Durability::Cached).unwrap();
    prepare(&order).unwrap();
    assert_eq!(below(&folder.work()).keys().collect::<Vec<_>>(), ["a"]);
    assert!(!folder.layers().exists());
}
