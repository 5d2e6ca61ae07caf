//! Results home: only what changed, checked, resumed, and never outside the folder.

use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use trainyard_agent::pipe::message::PROTOCOL;
use trainyard_engine::host::{Host, SshHost};
use trainyard_engine::pipe::{Pipe, PipeError};
use trainyard_engine::transfer::{Pulled, TransferError, pull};

use crate::uploads::{Numbers, cut, noise, text};
use crate::{LIMIT, PROGRAM, here};

fn bring(pipe: &mut Pipe, to: &Path) -> Result<Pulled, TransferError> {
    pull(pipe, &[("runs/1/work/logs".to_owned(), "logs".to_owned())], to, &mut |_| {})
}

fn results(depot: &Path) -> std::path::PathBuf {
    let logs = depot.join("runs/1/work/logs");
    std::fs::create_dir_all(logs.join("deep/empty")).unwrap();
    for number in 0..50_u64 {
        std::fs::write(logs.join(format!("deep/{number}")), text(number, 100 * usize::try_from(number).unwrap()))
            .unwrap();
    }
    std::fs::write(logs.join("model.pt"), noise(3, 3_000_000)).unwrap();
    std::fs::write(logs.join("gr\u{fc}n \n'x"), "odd").unwrap();
    std::fs::set_permissions(logs.join("deep/1"), std::fs::Permissions::from_mode(0o4755)).unwrap();
    symlink("deep/1", logs.join("latest")).unwrap();
    symlink("/etc/passwd", logs.join("away")).unwrap();
    logs
}

fn same(left: &Path, right: &Path) -> bool {
    let diff =
        std::process::Command::new("diff").args(["-r", "--no-dereference"]).args([left, right]).output().unwrap();
    diff.status.success()
}

#[test]
fn only_what_changed_is_brought() {
    let root = tempfile::tempdir().unwrap();
    let (depot, to) = (root.path().join("d"), root.path().join("results"));
    let logs = results(&depot);
    let mut pipe = here(&depot);
    let first = bring(&mut pipe, &to).unwrap();
    assert_eq!((first.files, first.unchanged), (52, 0));
    assert!(same(&logs, &to.join("logs")));
    assert_eq!(to.join("logs/deep/1").metadata().unwrap().permissions().mode() & 0o7777, 0o755, "not set-user-id");
    let modified = |path: &Path| path.metadata().unwrap().modified().unwrap();
    assert_eq!(modified(&to.join("logs/model.pt")), modified(&logs.join("model.pt")));
    assert_eq!(std::fs::read_dir(&to).unwrap().count(), 1, "no parts are left");
    let second = bring(&mut pipe, &to).unwrap();
    assert_eq!((second.files, second.unchanged, second.bytes), (0, 52, 0));

    std::fs::File::options().append(true).open(logs.join("model.pt")).unwrap().write_all(b"more").unwrap();
    std::fs::write(logs.join("deep/9"), text(77, 900)).unwrap();
    std::fs::File::options()
        .write(true)
        .open(to.join("logs/deep/8"))
        .unwrap()
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    let third = bring(&mut pipe, &to).unwrap();
    assert_eq!((third.files, third.bytes), (3, 4 + 900), "what grew goes on, what is in doubt is compared");
    assert!(same(&logs, &to.join("logs")));
    std::fs::remove_file(logs.join("deep/7")).unwrap();
    std::fs::create_dir(logs.join("deep/7")).unwrap();
    std::fs::remove_file(logs.join("latest")).unwrap();
    std::fs::write(logs.join("latest"), "a file now").unwrap();
    bring(&mut pipe, &to).unwrap();
    assert!(same(&logs, &to.join("logs")));
    let missing = pull(&mut pipe, &[("runs/2".to_owned(), "x".to_owned())], &to, &mut |_| {}).unwrap();
    assert_eq!(missing.missing, ["runs/2"]);
    let one =
        pull(&mut pipe, &[("runs/1/work/logs/model.pt".to_owned(), "one.pt".to_owned())], &to, &mut |_| {}).unwrap();
    assert_eq!(one.files, 1);
    assert_eq!(to.join("one.pt").metadata().unwrap().len(), 3_000_004);
}

#[test]
fn a_cut_pull_goes_on_where_it_ended() {
    let root = tempfile::tempdir().unwrap();
    let (depot, to) = (root.path().join("d"), root.path().join("results"));
    let logs = results(&depot);
    drop(here(&depot));
    let mut numbers = Numbers(7);
    let (mut cuts, mut bytes) = (0, 0);
    loop {
        let host = cut(root.path(), 1 << 40, 200 + numbers.below(900_000));
        let opened = Pipe::open(&host, depot.to_str().unwrap(), Path::new(PROGRAM), LIMIT);
        let mut seen = 0;
        let pulled = opened.map_err(TransferError::from).and_then(|mut pipe| {
            pull(&mut pipe, &[("runs/1/work/logs".to_owned(), "logs".to_owned())], &to, &mut |now| seen = now.wire)
        });
        bytes += seen;
        match pulled {
            Ok(_) => break,
            Err(TransferError::Pipe(PipeError::Dropped | PipeError::Host(_))) => cuts += 1,
            Err(error) => panic!("{error:?}"),
        }
        assert!(cuts < 200);
    }
    assert!(cuts > 5, "{cuts}");
    assert!(bytes < 3_500_000, "{bytes} bytes for 3 MB");
    assert!(same(&logs, &to.join("logs")));
}

/// An agent that lies: its listing leads out, its bytes are not what it says.
const LIAR: &str = r#"#!/usr/bin/env python3
import json, re, struct, sys
marker = re.search(r'--marker (yard-\w+)', sys.argv[-1]).group(1)
out = sys.stdout.buffer
def frame(tag, data): out.write(struct.pack('<BI', tag, len(data)) + data); out.flush()
out.write(f'\n{marker} {{"protocol":PROTOCOL,"version":"0","depot":"/d"}}\n'.encode()); out.flush()
def entry(path, kind): return {"path": path, "kind": kind, "size": 3, "mode": 0o644, "modified": 1}
TREE = [entry("../out", "file"), entry("/tmp/yard-out", "file"), entry("a/../../out", "folder"), entry(".", "file"),
        entry("way", {"link": {"to": sys.argv[1]}}), entry("way/in", "file"), entry("fine", "file")]
def piece(index, head, data=b''):
    head = json.dumps(head).encode()
    return struct.pack('<III', index, len(head), len(data)) + head + data
while True:
    head = sys.stdin.buffer.read(5)
    if len(head) < 5: break
    tag, length = struct.unpack('<BI', head)
    data = sys.stdin.buffer.read(length)
    if tag == 1: request = json.loads(data)
    if tag != 3: continue
    if request["ask"] == "list":
        frame(1, b'{"answer":"tree","there":true}')
        frame(2, ''.join(json.dumps(line) + '\n' for line in TREE).encode())
    elif request["ask"] == "fetch":
        frame(1, b'{"answer":"fetching"}')
        for index, file in enumerate(request["files"]):
            block = piece(index, {"begin": {"start": 0, "size": 3, "mode": 0o644, "modified": 1}}) + piece(index, "more", b'abc') + piece(index, {"end": {"digest": "0" * 64}})
            frame(2, struct.pack('<BBI', 0, 0, len(block)) + block)
    frame(3, b'')
"#;

#[test]
fn a_hostile_site_writes_nothing_outside() {
    let root = tempfile::tempdir().unwrap();
    let outside = root.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let program = root.path().join("liar");
    std::fs::write(&program, LIAR.replace("PROTOCOL", &PROTOCOL.to_string())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let words = [program.to_str().unwrap().to_owned(), outside.to_str().unwrap().to_owned()];
    let host = Host::Ssh(SshHost::new("liar", &words, &root.path().join("c")).unwrap());
    let to = root.path().join("results");
    let mut pipe = Pipe::open(&host, "/d", Path::new(PROGRAM), LIMIT).unwrap();
    let error = pull(&mut pipe, &[("x".to_owned(), "logs".to_owned())], &to, &mut |_| {}).unwrap_err();
    assert!(matches!(error, TransferError::Write { .. } | TransferError::Pipe(PipeError::Refused(_))), "{error:?}");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    assert!(!to.join("logs/fine").exists(), "damaged bytes are not published");
    let mut names: Vec<_> = std::fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["c", "liar", "outside", "results"]);
    assert!(matches!(pipe.space(), Err(PipeError::Dropped)), "a pipe that was left in the middle is not used again");
}
