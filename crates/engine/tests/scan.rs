//! Which files a scan finds, what it remembers, and what it refuses.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use trainyard_agent::depot::Depot;
use trainyard_agent::snapshot::{Kind, decode};
use trainyard_engine::snapshot::{Mistake, Rules, Snapshot, SnapshotError, Suspicion, scan, store};

struct Place {
    root: tempfile::TempDir,
    project: PathBuf,
}

impl Place {
    fn new() -> Self {
        Self::in_folder("p")
    }

    fn in_folder(project: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let project = root.path().join(project);
        std::fs::create_dir_all(&project).unwrap();
        Self { root, project }
    }

    fn write(&self, name: &str, text: &str) {
        write(&self.project.join(name), text);
    }

    fn cache(&self) -> PathBuf {
        self.root.path().join("cache/scan")
    }

    fn scan(&self) -> Snapshot {
        self.scan_with(&Rules::default()).unwrap()
    }

    fn scan_with(&self, rules: &Rules) -> Result<Snapshot, SnapshotError> {
        scan(&self.project, rules, &self.cache())
    }

    /// Files and links.
    fn names(&self, rules: &Rules) -> BTreeSet<String> {
        let entries = self.scan_with(rules).unwrap().manifest.entries;
        entries.into_iter().filter(|entry| entry.kind != Kind::Folder).map(|entry| entry.path).collect()
    }

    fn mistake(&self) -> Mistake {
        match self.scan_with(&Rules::default()) {
            Err(SnapshotError::Mistake(mistake)) => *mistake,
            other => panic!("{other:?}"),
        }
    }

    /// A file of this size that takes no space.
    fn large(&self, name: &str, size: u64) {
        self.write(name, "");
        std::fs::File::options().write(true).open(self.project.join(name)).unwrap().set_len(size).unwrap();
    }

    /// As if everything had been written long ago, which is when it is remembered.
    fn let_time_pass(&self) {
        std::thread::sleep(Duration::from_millis(150));
    }
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn git(folder: &Path, arguments: &[&str]) {
    let settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"];
    let mut git = Command::new("git");
    git.current_dir(folder).args(settings).args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(git.status().unwrap().success(), "git {arguments:?}");
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn exclude(lines: &[&str]) -> Rules {
    Rules { exclude: lines.iter().map(|line| (*line).to_owned()).collect(), ..Rules::default() }
}

#[test]
fn ignore_files_count_at_any_depth_with_exceptions() {
    let place = Place::new();
    place.write(".gitignore", "*.log\n/build/\n!keep.log\n");
    place.write("sub/.gitignore", "secret\n!a.log\n");
    place.write("sub/.yardignore", "*.tmp\n");
    place.write(".yardignore", "big/\n!build/\n");
    place.write(".ignore", "a.py\n");
    for name in ["a.py", "x.log", "keep.log", "build/out", "sub/secret", "sub/a.log", "sub/b.log", "sub/x.tmp", "x.tmp"]
    {
        place.write(name, name);
    }
    place.write("big/x", "");
    place.write("lib/__pycache__/x.pyc", "");
    place.write("yard-results/x", "");
    place.write("sub/yard-results/x", "");
    place.write(".git/config", "");
    let ignores = [".gitignore", "sub/.gitignore", "sub/.yardignore", ".yardignore", ".ignore"];
    let files = ["a.py", "keep.log", "build/out", "sub/a.log", "x.tmp", "sub/yard-results/x"];
    assert_eq!(place.names(&Rules::default()), set(&[&ignores[..], &files[..]].concat()));
    let fewer = place.names(&exclude(&["*.py", "/sub/", "!x.tmp"]));
    assert_eq!(fewer, set(&[".gitignore", ".yardignore", ".ignore", "keep.log", "build/out", "x.tmp"]));
}

#[test]
fn untracked_and_changed_files_and_those_of_submodules_are_in() {
    let place = Place::new();
    let library = place.root.path().join("library");
    write(&library.join("lib.py"), "1");
    write(&library.join(".gitignore"), "*.so\n");
    for folder in [&library, &place.project] {
        git(folder, &["init", "-q"]);
    }
    git(&library, &["add", "."]);
    git(&library, &["commit", "-qm", "x"]);
    place.write(".gitignore", "*.bin\n");
    place.write("tracked", "1");
    place.write("deleted", "1");
    git(&place.project, &["submodule", "add", "-q", library.to_str().unwrap(), "third/library"]);
    git(&place.project, &["add", "."]);
    git(&place.project, &["commit", "-qm", "x"]);
    assert!(place.project.join("third/library/.git").is_file(), "a submodule has a file there");
    place.write("tracked", "changed");
    std::fs::remove_file(place.project.join("deleted")).unwrap();
    for name in ["untracked", "x.bin", "third/library/fast.so", "third/library/data.bin", "third/library/new.py"] {
        place.write(name, "");
    }
    let names = place.names(&Rules::default());
    let expected = [".gitignore", ".gitmodules", "tracked", "untracked", "third/library/.gitignore"];
    let inside = ["third/library/lib.py", "third/library/new.py", "third/library/data.bin"];
    assert_eq!(names, set(&[&expected[..], &inside[..]].concat()), "its own rules inside, ours outside");
}

#[test]
fn rules_of_a_repository_around_count_and_end_at_its_border() {
    let place = Place::in_folder("repo/robots/p");
    let repo = place.root.path().join("repo");
    git(&repo, &["init", "-q"]);
    write(&repo.join(".gitignore"), "*.log\n/robots/p/data/\n");
    write(&place.root.path().join(".gitignore"), "*\n");
    for name in ["a.py", "x.log", "data/x"] {
        place.write(name, "");
    }
    assert_eq!(place.names(&Rules::default()), set(&["a.py"]));
    git(&place.project, &["init", "-q"]);
    assert_eq!(place.names(&Rules::default()), set(&["a.py", "x.log", "data/x"]), "now it is its own");

    let alone = Place::in_folder("home/p");
    write(&alone.root.path().join("home/.gitignore"), "*\n");
    alone.write("a.py", "");
    assert_eq!(alone.names(&Rules::default()), set(&["a.py"]), "no repository, no rules from above");
}

#[test]
fn odd_files_are_kept_as_they_are() {
    let place = Place::new();
    let names: [&[u8]; 6] = [b"\xff\xfe", b"new\nline", b"-rf", b" space ", "\u{f7e4}".as_bytes(), b"a\\b*?[x]"];
    for name in names {
        std::fs::write(place.project.join(OsStr::from_bytes(name)), name).unwrap();
    }
    std::fs::create_dir_all(place.project.join("empty/inner")).unwrap();
    place.write("run.sh", "#!/bin/sh");
    std::fs::set_permissions(place.project.join("run.sh"), std::fs::Permissions::from_mode(0o750)).unwrap();
    let link = |to: &[u8], name: &str| {
        std::os::unix::fs::symlink(OsStr::from_bytes(to), place.project.join(name)).unwrap();
    };
    link(b"nowhere\xff", "dead");
    link(b"empty", "folder");
    link(b"/etc/passwd", "outside");
    let made = Command::new("mkfifo").arg(place.project.join("pipe")).status().unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(place.project.join("socket")).unwrap();

    let snapshot = place.scan();
    let find = |name: &[u8]| {
        let entry = snapshot.manifest.entries.iter().find(|entry| decode(&entry.path).as_os_str().as_bytes() == name);
        entry.map(|entry| entry.kind.clone())
    };
    for name in names {
        let Some(Kind::File { blob, size, .. }) = find(name) else { panic!("{name:?}") };
        assert_eq!((blob.0.as_str(), size), (blake3::hash(name).to_hex().as_str(), name.len() as u64));
    }
    assert_eq!(find(b"empty/inner"), Some(Kind::Folder));
    assert!(matches!(find(b"run.sh"), Some(Kind::File { mode: 0o750, .. })));
    let Some(Kind::Link { to }) = find(b"dead") else { panic!() };
    assert_eq!(decode(&to).as_os_str().as_bytes(), b"nowhere\xff");
    assert!(matches!(find(b"folder"), Some(Kind::Link { .. })));
    assert_eq!(find(b"folder/inner"), None, "links are not followed");
    assert!(matches!(find(b"outside"), Some(Kind::Link { .. })));
    assert_eq!((find(b"pipe"), find(b"socket")), (None, None));
}

#[test]
fn what_was_hashed_is_remembered_until_it_changes() {
    let place = Place::new();
    for n in 0..50 {
        place.write(&format!("f{n}"), "one");
    }
    place.let_time_pass();
    let first = place.scan();
    let remembered = std::fs::read(place.cache()).unwrap();
    assert!(remembered.len() > 50 * 60);
    assert_eq!(place.scan().digest, first.digest);
    assert_eq!(std::fs::read(place.cache()).unwrap(), remembered);

    // Same size, same mtime: the change time tells.
    let path = place.project.join("f7");
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    std::fs::write(&path, "two").unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    let second = place.scan();
    assert_ne!(second.digest, first.digest);
    std::fs::write(&path, "one").unwrap();
    assert_eq!(place.scan().digest, first.digest);
    // Another file in its place, with the same times.
    let other = place.project.join("f8");
    std::fs::write(place.root.path().join("new"), "six").unwrap();
    std::fs::rename(place.root.path().join("new"), &other).unwrap();
    assert_ne!(place.scan().digest, first.digest);
}

/// Written again in the tick in which it was read: the times do not tell, so it must not be remembered.
#[test]
fn a_file_written_just_now_is_read_again() {
    let place = Place::new();
    for round in 0..200 {
        place.write("f", &format!("{round:04}"));
        let Kind::File { blob, .. } = place.scan().manifest.entries[0].kind.clone() else { panic!() };
        assert_eq!(blob.0, blake3::hash(format!("{round:04}").as_bytes()).to_hex().as_str(), "round {round}");
    }
}

#[test]
fn a_damaged_cache_is_as_good_as_none() {
    let place = Place::new();
    place.write("a", "one");
    place.write("b/c", "two");
    place.let_time_pass();
    let right = place.scan().digest;
    let good = std::fs::read(place.cache()).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        std::fs::write(place.cache(), &bad).unwrap();
        assert_eq!(place.scan().digest, right, "byte {at}");
        std::fs::write(place.cache(), &good[..at]).unwrap();
        assert_eq!(place.scan().digest, right, "cut at {at}");
    }
    let elsewhere = place.root.path().join("file");
    std::fs::write(&elsewhere, "").unwrap();
    let unwritable = elsewhere.join("cache");
    assert_eq!(scan(&place.project, &Rules::default(), &unwritable).unwrap().digest, right, "nor is one needed");
}

#[test]
fn a_file_that_changes_before_it_is_stored_is_noticed_and_one_that_grows_is_not_in_the_way() {
    let place = Place::new();
    place.write("log", "line 1\n");
    let depot = Depot::new(place.root.path().join("depot"));
    let snapshot = place.scan();
    place.write("log", "line 1\nline 2\n");
    store(&snapshot, &depot).unwrap();
    let blob = snapshot.files.keys().next().unwrap();
    assert_eq!(std::fs::read_to_string(depot.blob(blob)).unwrap(), "line 1\n");

    place.write("log", "other\n");
    let snapshot = place.scan();
    place.write("log", "OTHER\n");
    assert!(matches!(store(&snapshot, &depot), Err(SnapshotError::Changing { .. })));
    assert!(!depot.snapshot(&snapshot.digest).exists(), "no manifest without its blobs");
    std::fs::remove_file(place.project.join("log")).unwrap();
    assert!(matches!(store(&snapshot, &depot), Err(SnapshotError::Changing { .. })));
    let left = std::fs::read_dir(depot.blob(snapshot.files.keys().next().unwrap()).parent().unwrap());
    assert_eq!(left.map_or(0, Iterator::count), 0, "nothing half made stays");
}

#[test]
fn environments_and_checkpoints_are_refused_by_name() {
    let place = Place::new();
    place.write("tools/env/pyvenv.cfg", "");
    place.write("tools/env/lib/python3/site-packages/x.py", "12345");
    let mistake = place.mistake();
    assert_eq!((mistake.suspicion, mistake.files, mistake.bytes), (Suspicion::Virtualenv, 2, 5));
    assert_eq!((mistake.folder.to_str(), mistake.pattern().as_str()), (Some("tools/env"), "/tools/env/"));
    let allow = Rules { allow_large: vec![mistake.pattern()], ..Rules::default() };
    assert!(place.scan_with(&allow).is_ok());
    assert!(place.scan_with(&exclude(&["/tools/env/"])).is_ok());

    for (file, suspicion) in
        [("conda-meta/history", Suspicion::CondaEnvironment), ("node_modules/x/y.js", Suspicion::NodeModules)]
    {
        let place = Place::new();
        place.write(&format!("deep/er/{file}"), "");
        assert_eq!(place.mistake().suspicion, suspicion);
    }

    let place = Place::new();
    place.large("policies/good.pt", 20_000_000);
    assert!(place.scan_with(&Rules::default()).is_ok(), "a policy or two are part of many projects");
    place.large("logs/2024/a/model_1.pt", 60_000_000);
    place.large("logs/2024/a/model_2.ckpt", 60_000_000);
    let mistake = place.mistake();
    assert_eq!((mistake.suspicion, mistake.folder.to_str()), (Suspicion::Checkpoints, Some("logs/2024/a")));
    assert_eq!(mistake.to_string(), "checkpoints would be shipped: `logs/2024/a` (2 files, 120 MB)");
}

#[test]
fn the_worst_folder_is_named_however_deep_it_lies() {
    let place = Place::new();
    place.large("data/raw/camera [1]/x.mp4", 550_000_000);
    place.large("data/labels.csv", 3_000_000);
    place.write("train.py", "");
    let mistake = place.mistake();
    assert_eq!((mistake.suspicion, mistake.folder.to_str()), (Suspicion::TooLarge, Some("data/raw/camera [1]")));
    assert_eq!((mistake.files, mistake.bytes), (1, 550_000_000));
    assert!(place.names(&exclude(&[&mistake.pattern()])).contains("data/labels.csv"), "its name is no pattern");
    let allow = Rules { allow_large: vec!["data/".to_owned()], ..Rules::default() };
    assert!(place.scan_with(&allow).is_ok());

    let many = Place::new();
    for n in 0..20_001 {
        let folder = many.project.join(format!("cache/{}", n % 3));
        if n < 3 {
            std::fs::create_dir_all(&folder).unwrap();
        }
        std::fs::File::create(folder.join(n.to_string())).unwrap();
    }
    let mistake = many.mistake();
    assert_eq!((mistake.folder.to_str(), mistake.files), (Some("cache"), 20_001));
}

#[test]
fn times_in_the_future_are_not_trusted() {
    let place = Place::new();
    place.write("f", "one");
    let path = place.project.join("f");
    let future = SystemTime::now() + Duration::from_secs(3600);
    let freeze = || std::fs::File::options().write(true).open(&path).unwrap().set_modified(future).unwrap();
    freeze();
    place.let_time_pass();
    let first = place.scan().digest;
    std::fs::write(&path, "two").unwrap();
    freeze();
    assert_ne!(place.scan().digest, first);
}
