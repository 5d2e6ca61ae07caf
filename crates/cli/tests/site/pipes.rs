//! The pipe: what is asked is done, below the depot and nowhere else.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use trainyard_engine::pipe::{ListedKind, PipeError, Status};
use trainyard_testkit::eventually;

use crate::{LIMIT, PROGRAM, here, words};

fn none() -> BTreeMap<String, String> {
    BTreeMap::new()
}

#[test]
fn programs_run_with_input_environment_and_their_own_arguments() {
    let root = tempfile::tempdir().unwrap();
    let mut pipe = here(root.path());
    let hostile = words(&["printf", "%s|", "a b", "$HOME", "'\"", "*", "\n", "ß", ""]);
    assert_eq!(pipe.run(&hostile, b"", &none(), LIMIT).unwrap().stdout(), "a b|$HOME|'\"|*|\n|ß||");
    let env = BTreeMap::from([("WHO".to_owned(), "me $x".to_owned())]);
    let script = words(&["sh", "-c", "cat; printf %s \"$WHO\"; echo bad >&2; exit 7"]);
    let ran = pipe.run(&script, b"given ", &env, LIMIT).unwrap();
    assert_eq!(
        (ran.stdout().as_ref(), ran.stderr().as_ref(), &ran.status),
        ("given me $x", "bad\n", &Status::Exited(7))
    );
    let large = vec![b'x'; 3_000_000];
    assert_eq!(pipe.run(&words(&["cat"]), &large, &none(), LIMIT).unwrap().stdout, large);
    assert!(pipe.run(&words(&["true"]), &large, &none(), LIMIT).unwrap().succeeded(), "input that nobody reads");
    let ran = pipe.run(&words(&["/no/such/program"]), b"", &none(), LIMIT).unwrap();
    assert!(matches!(ran.status, Status::NotStarted(why) if why.contains("/no/such/program")));
    let killed = pipe.run(&words(&["sh", "-c", "kill -9 $$"]), b"", &none(), LIMIT).unwrap();
    assert_eq!(killed.status, Status::Killed(9));
}

#[test]
fn the_limit_ends_the_whole_group_and_daemons_do_not_hold_us_up() {
    let root = tempfile::tempdir().unwrap();
    let mut pipe = here(root.path());
    let script = words(&["sh", "-c", "sleep 1000 & echo $!; sleep 1000"]);
    let ran = pipe.run(&script, b"", &none(), Duration::from_millis(300)).unwrap();
    assert_eq!(ran.status, Status::TimedOut);
    let sleeper = format!("/proc/{}/cmdline", ran.stdout().trim());
    eventually("the end of the group", || {
        std::fs::read(&sleeper).is_ok_and(|text| !text.is_empty()).then_some(()).map_or(Some(()), |()| None)
    });
    let began = Instant::now();
    let ran = pipe.run(&words(&["sh", "-c", "sleep 30 & echo $!"]), b"", &none(), LIMIT).unwrap();
    assert!(began.elapsed() < Duration::from_secs(10) && ran.succeeded());
    pipe.run(&words(&["kill", ran.stdout().trim()]), b"", &none(), LIMIT).unwrap();
}

#[test]
fn a_program_ends_when_nobody_waits_for_it() {
    let root = tempfile::tempdir().unwrap();
    let mut pipe = here(root.path());
    let mark = root.path().join("pid");
    let script = format!("echo $$ > {}.new; mv {0}.new {0}; exec sleep 1000", mark.display());
    let asked =
        std::thread::spawn(move || pipe.run(&words(&["sh", "-c", &script]), b"", &none(), Duration::from_millis(1)));
    assert!(asked.join().unwrap().is_ok());
    let mut child = agent(root.path());
    let script = format!("echo $$ > {}.new; mv {0}.new {0}; exec sleep 1000", mark.display());
    let head = format!(r#"{{"ask":"run","argv":["sh","-c","{script}"],"env":{{}},"milliseconds":600000}}"#);
    std::fs::remove_file(&mark).ok();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&frame(1, head.as_bytes())).unwrap();
    stdin.write_all(&frame(3, b"")).unwrap();
    let pid = eventually("the program", || std::fs::read_to_string(&mark).ok());
    drop(stdin);
    eventually("its end", || {
        std::fs::read(format!("/proc/{}/cmdline", pid.trim())).map_or(Some(()), |text| text.is_empty().then_some(()))
    });
    assert!(child.wait().unwrap().success());
}

#[test]
fn files_are_written_read_listed_and_removed() {
    let root = tempfile::tempdir().unwrap();
    let mut pipe = here(&root.path().join("new/depot"));
    assert_eq!(Path::new(pipe.depot()), root.path().join("new/depot"));
    assert!(Path::new(pipe.agent()).metadata().unwrap().permissions().mode() & 0o111 != 0);
    let large = vec![7; 5_000_000];
    let files =
        [("a/b.txt".to_owned(), b"text".to_vec()), ("large".to_owned(), large.clone()), ("empty".to_owned(), vec![])];
    pipe.write(&files).unwrap();
    assert_eq!(pipe.read("a/b.txt", 1, 2).unwrap(), b"ex");
    assert_eq!(pipe.read("a/b.txt", 9, 2).unwrap(), b"");
    assert_eq!(pipe.read("nothing", 0, 9).unwrap(), b"");
    assert_eq!(pipe.read("large", 0, 10_000_000).unwrap(), large);
    let absolute = format!("{}/a/b.txt", pipe.depot());
    let many = pipe.read_many(&words(&["empty", "nothing", &absolute])).unwrap();
    assert_eq!(many, [Some(vec![]), None, Some(b"text".to_vec())]);
    symlink("/etc", root.path().join("new/depot/a/out")).unwrap();
    let listed = pipe.list("a").unwrap();
    let names: Vec<(&str, &ListedKind)> = listed.iter().map(|entry| (entry.path.as_str(), &entry.kind)).collect();
    assert_eq!(names, [("b.txt", &ListedKind::File), ("out", &ListedKind::Link { to: "/etc".to_owned() })]);
    assert_eq!(listed[0].size, 4);
    assert_eq!(pipe.list("nothing").unwrap(), []);
    pipe.remove(&words(&["a", "nothing", "large"])).unwrap();
    assert_eq!(pipe.read("a/b.txt", 0, 9).unwrap(), b"");
    assert!(Path::new("/etc/passwd").exists());
    let space = pipe.space().unwrap();
    assert!(space.free > 0 && space.total >= space.free);
}

#[test]
fn nothing_outside_the_depot_is_touched() {
    let root = tempfile::tempdir().unwrap();
    let depot = root.path().join("depot");
    let mut pipe = here(&depot);
    std::fs::create_dir(root.path().join("outside")).unwrap();
    std::fs::write(root.path().join("outside/precious"), "x").unwrap();
    symlink(root.path().join("outside"), depot.join("way")).unwrap();
    symlink(root.path().join("outside/precious"), depot.join("file")).unwrap();
    for path in ["../outside/precious", "way/precious", "/etc/passwd", "a/../../outside/precious", "file"] {
        assert!(matches!(pipe.read(path, 0, 9), Err(PipeError::Refused(_))), "{path}");
    }
    for path in ["../x", "way/x", "/tmp/yard-x", "..", "", "."] {
        let refused = pipe.write(&[(path.to_owned(), b"y".to_vec())]);
        assert!(matches!(refused, Err(PipeError::Refused(_))), "{path}");
    }
    for path in ["../outside", "way/precious", "..", "", "/"] {
        assert!(matches!(pipe.remove(&words(&[path])), Err(PipeError::Refused(_))), "{path}");
    }
    assert!(pipe.list("way").unwrap().iter().all(|entry| entry.path.is_empty()), "a link is itself");
    pipe.remove(&words(&["way"])).unwrap();
    assert_eq!(std::fs::read_to_string(root.path().join("outside/precious")).unwrap(), "x");
    pipe.write(&[("file".to_owned(), b"own".to_vec())]).unwrap();
    assert_eq!(std::fs::read_to_string(root.path().join("outside/precious")).unwrap(), "x", "replaced, not followed");
    assert!(pipe.space().is_ok(), "refusals do not break the pipe");
}

fn agent(depot: &Path) -> std::process::Child {
    let mut command = Command::new(PROGRAM);
    command.args(["agent", "serve", "--depot"]).arg(depot);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn frame(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
    [&[tag][..], &length, bytes].concat()
}

#[test]
fn hostile_input_ends_the_agent_without_memory() {
    let root = tempfile::tempdir().unwrap();
    let mut seed = 1_u64;
    let mut noise = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33).to_le_bytes()[0]
    };
    let mut cases: Vec<Vec<u8>> = vec![
        vec![1, 255, 255, 255, 255],
        vec![2, 255, 255, 255, 127, 1, 2, 3],
        frame(1, b"{}"),
        frame(1, b"\xff\xfe"),
        frame(3, b""),
        [frame(1, br#"{"ask":"space"}"#), frame(1, b"{}")].concat(),
        frame(1, br#"{"ask":"write","files":[["x",18446744073709551615]]}"#),
        frame(1, "[".repeat(100_000).as_bytes()),
    ];
    cases.extend((0..20).map(|_| (0..500).map(|_| noise()).collect()));
    for case in cases {
        let mut child = agent(root.path());
        // It may leave before it has read all of it.
        let _ = child.stdin.take().unwrap().write_all(&case);
        let mut said = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut said).unwrap();
        assert!(said.len() < 100_000);
        let status = child.wait().unwrap();
        assert!(status.code().is_some(), "{status:?} after {case:?}");
    }
}
