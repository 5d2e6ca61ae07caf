//! What goes wrong on the way to a host is told in words that help.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use trainyard_engine::host::{Host, HostError, Person, SshHost};
use trainyard_engine::pipe::{Pipe, PipeError};

use crate::sshd::Sshd;
use crate::{LIMIT, PROGRAM, words};

fn connect(host: &Host) -> Result<(), HostError> {
    host.connect(Person::Nobody, Duration::from_secs(20))
}

#[test]
fn one_connection_is_kept_and_shared() {
    let sshd = Sshd::start("");
    let host = sshd.client("");
    connect(&host).unwrap();
    let Host::Ssh(ssh) = &host else { panic!() };
    assert!(ssh.is_connected());
    let depot = sshd.path().join("depot");
    for _ in 0..3 {
        let mut pipe = Pipe::open(&host, depot.to_str().unwrap(), Path::new(PROGRAM), LIMIT).unwrap();
        let ran = pipe.run(&words(&["echo", "hi"]), b"", &BTreeMap::new(), LIMIT).unwrap();
        assert_eq!(ran.stdout(), "hi\n");
    }
    let log = std::fs::read_to_string(sshd.path().join("log")).unwrap();
    assert_eq!(log.matches("Accepted publickey").count(), 1, "{log}");
    host.disconnect();
    assert!(!ssh.is_connected());
}

#[test]
fn every_way_to_fail_has_its_name() {
    let sshd = Sshd::start("");
    let stranger = format!("Host *\nIdentityFile {}/stranger\n", sshd.path().display());
    assert!(matches!(
        connect(&sshd.client("Host site\nHostName no.such.host.invalid")),
        Err(HostError::UnknownName { .. })
    ));
    assert!(matches!(connect(&sshd.client("Host site\nPort 1")), Err(HostError::ConnectionRefused { .. })));
    let strict = "Host site\nStrictHostKeyChecking ask";
    assert!(matches!(connect(&sshd.client(strict)), Err(HostError::HostKeyUnknown { .. })));
    std::fs::rename(sshd.path().join("key"), sshd.path().join("away")).unwrap();
    assert!(matches!(connect(&sshd.client(&stranger)), Err(HostError::KeyRefused { .. })));
    std::fs::rename(sshd.path().join("away"), sshd.path().join("key")).unwrap();
    connect(&sshd.client("")).unwrap();
    let known = std::fs::read_to_string(sshd.known()).unwrap();
    let other = std::fs::read_to_string(sshd.path().join("stranger.pub")).unwrap();
    let address = known.split(' ').next().unwrap();
    std::fs::write(sshd.known(), format!("{address} {other}")).unwrap();
    assert!(matches!(connect(&sshd.client("Host x")), Err(HostError::HostKeyChanged { .. })));
}

#[test]
fn a_host_that_asks_wants_a_person() {
    let sshd = Sshd::start(
        "AuthenticationMethods publickey,keyboard-interactive\nKbdInteractiveAuthentication yes\nUsePAM yes",
    );
    let error = connect(&sshd.client("")).unwrap_err();
    assert!(matches!(error, HostError::NeedsPerson { .. }), "{error:?}");
    assert!(error.hint().contains("yard target check"));
}

#[test]
fn a_silent_host_does_not_hold_us_up() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let sshd = Sshd::start("");
    let port = silent.local_addr().unwrap().port();
    let host = sshd.client(&format!("Host site\nPort {port}"));
    let began = std::time::Instant::now();
    let error = host.connect(Person::Nobody, Duration::from_secs(2)).unwrap_err();
    assert!(matches!(error, HostError::Unreachable { .. } | HostError::Dropped { .. }), "{error:?}");
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn names_that_are_options_are_refused() {
    for name in ["", "-oProxyCommand=touch /tmp/x", "a\nb"] {
        assert!(matches!(SshHost::new(name, &[], Path::new("/tmp")), Err(HostError::BadName { .. })));
    }
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let host = SshHost::new("x", &words(&["/no/such/ssh"]), &folder.path().join("c")).unwrap();
    let error = connect(&Host::Ssh(host)).unwrap_err();
    assert!(matches!(error, HostError::NoProgram { .. }), "{error:?}");
}

#[test]
fn a_chatty_login_is_skipped_and_a_login_that_ends_is_named() {
    let chatty = Sshd::start("ForceCommand echo Welcome; echo; echo yard-0 {}; sh -c \"$SSH_ORIGINAL_COMMAND\"");
    let depot = chatty.path().join("depot");
    let depot = depot.to_str().unwrap();
    let mut pipe = Pipe::open(&chatty.client(""), depot, Path::new(PROGRAM), LIMIT).unwrap();
    assert!(pipe.run(&words(&["true"]), b"", &BTreeMap::new(), LIMIT).unwrap().succeeded());
    let ends = Sshd::start("ForceCommand echo This account is not available >&2; exit 1");
    let error = Pipe::open(&ends.client(""), depot, Path::new(PROGRAM), LIMIT).unwrap_err();
    let PipeError::Host(HostError::NoShell { said, .. }) = error else { panic!("{error:?}") };
    assert_eq!(said, "This account is not available");
}

#[test]
fn a_cut_connection_is_told_and_the_next_one_works() {
    let sshd = Sshd::start("");
    let host = sshd.client("");
    let depot = sshd.path().join("depot");
    let open = || Pipe::open(&host, depot.to_str().unwrap(), Path::new(PROGRAM), LIMIT);
    let mut pipe = open().unwrap();
    sshd.cut();
    let error = pipe.space().unwrap_err();
    assert!(matches!(error, PipeError::Dropped), "{error:?}");
    assert!(matches!(pipe.space().unwrap_err(), PipeError::Dropped));
    open().unwrap().space().unwrap();
}

#[test]
fn more_talks_than_a_host_allows_wait_their_turn() {
    let sshd = Sshd::start("");
    let host = sshd.client("");
    let depot = sshd.path().join("depot");
    let open = || Pipe::open(&host, depot.to_str().unwrap(), Path::new(PROGRAM), LIMIT);
    open().unwrap();
    let places: Vec<Pipe> = (0..8).map(|_| open().unwrap()).collect();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| open().unwrap().space().unwrap());
        std::thread::sleep(Duration::from_millis(100));
        assert!(!waiting.is_finished(), "eight are taken");
        drop(places);
        waiting.join().unwrap();
    });
    let log = std::fs::read_to_string(sshd.path().join("log")).unwrap();
    assert_eq!(log.matches("Accepted publickey").count(), 1, "nobody made a connection of their own: {log}");
}
