//! Against nginx and tinyproxy, and against servers that misbehave. `./test web` installs what is needed.
#![expect(clippy::unwrap_used, reason = "tests")]

mod servers;

use std::collections::BTreeSet;
use std::io::Read as _;
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use trainyard_web::{Address, Auth, Body, Client, Error, Identity, Limits, Retry, Secret, Settings, Trust, Wait};

use servers::{Authority, Nginx, free_port, saying, self_signed};

const YEARS: i32 = 2099;

fn client(url: &str) -> Client {
    Client::new(settings(url)).unwrap()
}

fn settings(url: &str) -> Settings {
    let retry = Retry { times: 2, first: Duration::from_millis(1), longest: Duration::from_millis(5) };
    Settings { retry, ..Settings::new(url).unwrap() }
}

fn plain() -> Nginx {
    Nginx::start(&self_signed("localhost"), None)
}

fn basic(user: &str, password: &str) -> Auth {
    Auth::Basic { user: user.to_owned(), password: Secret::new(password.to_owned()) }
}

#[test]
fn many_requests_use_one_connection() {
    let nginx = plain();
    let client = client(&format!("http://127.0.0.1:{}/prefix/", nginx.http));
    for _ in 0..50 {
        assert_eq!(client.get("hello").send(Body::None).unwrap().text().unwrap(), "hello");
    }
    let lines = nginx.requests(100);
    let of_ours = |line: &&String| line.contains("/prefix/");
    let connections: BTreeSet<_> = lines.iter().filter(of_ours).map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!((connections.len(), lines.iter().filter(of_ours).count()), (1, 50), "{lines:?}");
}

#[test]
fn tls_is_verified_and_kept() {
    let authority = Authority::new();
    let nginx = Nginx::start(&authority.sign(&["localhost"], YEARS), None);
    let ca = nginx.path("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let url = format!("https://localhost:{}", nginx.https);

    let stranger = client(&url).get("hello").send(Body::None).unwrap_err();
    let Error::Untrusted { distrust, .. } = &stranger else { panic!("{stranger:?}") };
    assert!(stranger.to_string().contains("`ca`"), "{stranger}");

    let trusting = |trust| Client::new(Settings { trust, ..settings(&url) }).unwrap();
    let by_authority = trusting(Trust { authorities: vec![ca.clone()], ..Trust::default() });
    for _ in 0..20 {
        assert_eq!(by_authority.get("hello").send(Body::None).unwrap().text().unwrap(), "hello");
    }
    assert_eq!(nginx.requests(20).iter().map(|line| line.split(' ').next().unwrap()).collect::<BTreeSet<_>>().len(), 1);

    let pinned = trusting(Trust { fingerprints: vec![distrust.fingerprint], ..Trust::default() });
    assert_eq!(pinned.get("hello").send(Body::None).unwrap().text().unwrap(), "hello");
    let other = trusting(Trust { fingerprints: vec!["00".repeat(32).parse().unwrap()], ..Trust::default() });
    let other = other.get("hello").send(Body::None).unwrap_err();
    assert!(other.to_string().contains("not the one that was named"), "{other}");

    let by_address = format!("https://127.0.0.1:{}", nginx.https);
    let trust = Trust { authorities: vec![ca], ..Trust::default() };
    let name = Client::new(Settings { trust, ..settings(&by_address) }).unwrap().get("x").send(Body::None).unwrap_err();
    assert!(name.to_string().contains("is for"), "{name}");
}

#[test]
fn expired_and_self_signed_certificates_are_told_apart() {
    let authority = Authority::new();
    let nginx = Nginx::start(&authority.sign(&["localhost"], 2001), None);
    let ca = nginx.path("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let trust = Trust { authorities: vec![ca], ..Trust::default() };
    let url = format!("https://localhost:{}", nginx.https);
    let expired = Client::new(Settings { trust, ..settings(&url) }).unwrap().get("x").send(Body::None).unwrap_err();
    assert!(expired.to_string().contains("has expired"), "{expired}");
    assert!(!expired.may_pass());

    let own = self_signed("localhost");
    let nginx = Nginx::start(&own, None);
    let trust = Trust { authorities: vec![nginx.path("cert.pem")], ..Trust::default() };
    let url = format!("https://localhost:{}", nginx.https);
    let trusting = Client::new(Settings { trust: trust.clone(), ..settings(&url) }).unwrap();
    assert_eq!(trusting.get("hello").send(Body::None).unwrap().text().unwrap(), "hello");
    let other_name = format!("https://127.0.0.1:{}", nginx.https);
    let other_name = Client::new(Settings { trust, ..settings(&other_name) }).unwrap();
    assert!(matches!(other_name.get("hello").send(Body::None), Err(Error::Untrusted { .. })));
    assert!(matches!(client(&url).get("hello").send(Body::None), Err(Error::Untrusted { .. })));
}

#[test]
fn we_show_our_own_certificate() {
    let authority = Authority::new();
    let nginx = Nginx::start(&authority.sign(&["localhost"], YEARS), Some(&authority.pem()));
    let (certificate, key) = authority.sign(&["me"], YEARS);
    for (name, text) in [("ca.pem", authority.pem()), ("me.pem", certificate), ("me.key", key)] {
        std::fs::write(nginx.path(name), text).unwrap();
    }
    let url = format!("https://localhost:{}", nginx.https);
    let anonymous = Trust { authorities: vec![nginx.path("ca.pem")], ..Trust::default() };
    let identity = Some(Identity { certificate: nginx.path("me.pem"), key: nginx.path("me.key") });
    let known = Trust { identity, ..anonymous.clone() };
    let ask = |trust| Client::new(Settings { trust, ..settings(&url) }).unwrap().get("hello").send(Body::None);
    assert_eq!(ask(anonymous).unwrap_err().status().unwrap().as_u16(), 400);
    assert_eq!(ask(known).unwrap().text().unwrap(), "hello");
}

#[test]
fn files_that_are_no_certificates_are_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "nothing").unwrap();
    let with = |path: &std::path::Path| {
        let trust = Trust { authorities: vec![path.to_owned()], ..Trust::default() };
        Client::new(Settings { trust, ..settings("https://localhost") }).unwrap_err()
    };
    assert!(matches!(with(&empty), Error::NoCertificate { .. }));
    assert!(with(&folder.path().join("missing")).to_string().contains("missing"));
}

#[test]
fn sockets_of_this_machine_are_served_and_kept() {
    let nginx = plain();
    let settings = Settings::of(Address::socket(nginx.path("socket")).unwrap());
    let client = Client::new(settings).unwrap();
    for _ in 0..10 {
        assert_eq!(client.get("/hello").send(Body::None).unwrap().text().unwrap(), "hello");
    }
    assert_eq!(nginx.requests(10).iter().map(|line| line.split(' ').next().unwrap()).collect::<BTreeSet<_>>().len(), 1);
    let nobody = Settings { retry: Retry::NONE, ..Settings::of(Address::socket("/nowhere/socket").unwrap()) };
    assert!(matches!(Client::new(nobody).unwrap().get("x").send(Body::None), Err(Error::Refused { .. })));
}

#[test]
fn credentials_go_to_their_server_only() {
    let nginx = plain();
    let url = format!("http://127.0.0.1:{}/", nginx.http);
    let known = Client::new(Settings { auth: Some(basic("me", "open sesame")), ..settings(&url) }).unwrap();
    assert_eq!(known.get("secret/x").send(Body::None).unwrap().text().unwrap(), "secret");
    let refused = client(&url).get("secret/x").send(Body::None).unwrap_err();
    assert_eq!(refused.status().unwrap().as_u16(), 401);

    let text = |path: &str| known.get(path).send(Body::None).unwrap().text().unwrap();
    assert!(text("whoami").starts_with("auth=Basic "));
    // Another host, though the same machine.
    assert_eq!(text("away"), "auth=");
    assert_eq!(text(&format!("http://localhost:{}/whoami", nginx.http)), "auth=");
    let token = Auth::Bearer(Secret::new("t".to_owned()));
    assert_eq!(known.get("whoami").auth(token.clone()).send(Body::None).unwrap().text().unwrap(), "auth=Bearer t");
    assert_eq!(known.get("away").auth(token).send(Body::None).unwrap().text().unwrap(), "auth=");
}

#[test]
fn redirects_are_followed_by_readers_only() {
    let authority = Authority::new();
    let nginx = Nginx::start(&authority.sign(&["localhost"], YEARS), None);
    let client = client(&format!("http://127.0.0.1:{}/", nginx.http));
    assert_eq!(client.get("moved").send(Body::None).unwrap().text().unwrap(), "hello");
    let posted = client.post("post-moved").send(Body::Bytes(b"x")).unwrap_err();
    assert!(posted.to_string().contains("use that address"), "{posted}");
    assert!(client.get("loop").send(Body::None).unwrap_err().to_string().contains("without end"));

    std::fs::write(nginx.path("ca.pem"), authority.pem()).unwrap();
    let trust = Trust { authorities: vec![nginx.path("ca.pem")], ..Trust::default() };
    let secure = Client::new(Settings { trust, ..settings(&format!("https://localhost:{}", nginx.https)) }).unwrap();
    let down = secure.get("down").send(Body::None).unwrap_err();
    assert!(down.to_string().contains("not encrypted"), "{down}");
}

#[test]
fn bodies_stream_both_ways() {
    let nginx = plain();
    let client = client(&format!("http://127.0.0.1:{}/prefix/", nginx.http));
    let size: u64 = 64 << 20;
    std::fs::File::create(nginx.path("files/large")).unwrap().set_len(size).unwrap();
    let answer = client.get("large").send(Body::None).unwrap();
    assert_eq!(answer.length(), Some(size));
    assert_eq!(answer.copy_to(&mut std::io::sink()).unwrap(), size);
    let rest = client.get("large").from_byte(size - 10).send(Body::None).unwrap();
    assert_eq!((rest.status().as_u16(), rest.bytes(100).unwrap().len()), (206, 10));
    let too_large = client.get("large").send(Body::None).unwrap().bytes(1000).unwrap_err();
    assert!(matches!(too_large, Error::TooLarge { limit: 1000, .. }));
    assert_eq!(client.head("large").send(Body::None).unwrap().length(), Some(size));

    let put = |length| {
        let mut stream = std::io::repeat(7).take(size);
        client.put("put").send(Body::Stream(&mut stream, length)).unwrap().text().unwrap()
    };
    assert_eq!(put(Some(size)), format!("{size} "));
    // In chunks; nginx counts them for whom it passes them on to.
    assert!(put(None).contains("chunked") || put(None).contains(&size.to_string()));
    let short = client.put("put").send(Body::Stream(&mut &b"abc"[..], Some(5))).unwrap_err();
    assert!(matches!(short, Error::Body { .. }), "{short:?}");
    assert_eq!(client.put("put").send(Body::Stream(&mut &b"abcdef"[..], Some(5))).unwrap().text().unwrap(), "5 ");
    assert_eq!(client.post("put").send(Body::None).unwrap().text().unwrap(), "0 ");
}

#[test]
fn answers_in_json_and_refusals_in_words() {
    let nginx = plain();
    let client = client(&format!("http://127.0.0.1:{}/", nginx.http));
    assert_eq!(client.get("json").json::<serde_json::Value>().unwrap()["a"], 1);
    let page = client.get("hello").json::<serde_json::Value>().unwrap_err();
    assert!(matches!(page, Error::Unexpected { .. }));
    let missing = client.get("no%20such").query("token", "hunter2").send(Body::None).unwrap_err();
    let text = format!("{missing} {missing:?}");
    assert!(text.contains("404") && text.contains("/no%20such") && !text.contains("hunter2"), "{text}");
    let before = nginx.requests(3).len();
    let busy = client.get("busy").send(Body::None).unwrap_err();
    assert!(busy.may_pass() && busy.to_string().contains("come back later"), "{busy}");
    let busy = client.post("busy").send(Body::Bytes(b"x")).unwrap_err();
    assert_eq!(busy.status().unwrap().as_u16(), 503);
    // Asked three times, told once.
    let lines = nginx.requests(before + 4).split_off(before);
    let count = |method: &str| lines.iter().filter(|line| line.contains(method)).count();
    assert_eq!((count("GET /busy"), count("POST /busy")), (3, 1));
}

#[test]
fn every_failure_to_connect_has_its_sentence() {
    let ask = |url: &str| client(url).get("x").send(Body::None).unwrap_err();
    let refused = ask(&format!("http://127.0.0.1:{}", free_port()));
    assert!(matches!(&refused, Error::Refused { .. }), "{refused:?}");
    assert!(refused.may_pass() && !refused.is_doubtful());
    let unknown = ask("http://no-such-host.invalid:5000/");
    assert!(matches!(&unknown, Error::UnknownHost { host } if host == "no-such-host.invalid"), "{unknown:?}");
    let nginx = plain();
    let no_tls = ask(&format!("https://127.0.0.1:{}", nginx.http));
    assert!(no_tls.to_string().contains("does not speak TLS"), "{no_tls}");
}

#[test]
fn every_wait_has_a_limit() {
    // The kernel accepts; nobody ever answers.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = silent.local_addr().unwrap().port();
    let second = Duration::from_millis(300);
    let hour = Duration::from_secs(3600);
    let ask = |scheme: &str, limits: Limits| {
        let settings = Settings { limits, retry: Retry::NONE, ..settings(&format!("{scheme}://127.0.0.1:{port}")) };
        let before = Instant::now();
        let error = Client::new(settings).unwrap().get("x").send(Body::None).unwrap_err();
        assert!(before.elapsed() < Duration::from_secs(20));
        let Error::Timeout { wait, .. } = error else { panic!("{error:?}") };
        wait
    };
    assert_eq!(ask("http", Limits { connect: hour, silence: second, total: None }), Wait::Silence(second));
    assert_eq!(ask("http", Limits { connect: hour, silence: hour, total: Some(second) }), Wait::Total(second));
    assert_eq!(ask("https", Limits { connect: second, silence: hour, total: None }), Wait::Connect(second));

    let socket = tempfile::tempdir().unwrap();
    let path = socket.path().join("socket");
    let _silent = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let limits = Limits { connect: hour, silence: second, total: None };
    let settings = Settings { limits, retry: Retry::NONE, ..Settings::of(Address::socket(path).unwrap()) };
    let error = Client::new(settings).unwrap().get("x").send(Body::None).unwrap_err();
    assert!(matches!(error, Error::Timeout { wait: Wait::Silence(_), .. }), "{error:?}");
}

#[test]
fn what_ends_too_early_is_no_answer() {
    let ask = |answer: &[u8]| {
        let settings =
            Settings { retry: Retry::NONE, ..settings(&format!("http://127.0.0.1:{}", saying(vec![answer.to_vec()]))) };
        Client::new(settings).unwrap().get("x").send(Body::None).and_then(trainyard_web::Response::text)
    };
    assert_eq!(ask(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc").unwrap(), "abc");
    for answer in [
        &b""[..],
        b"HTTP/1.1 200 O",
        b"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc",
    ] {
        let error = ask(answer).unwrap_err();
        assert!(error.may_pass() && error.is_doubtful(), "{}: {error:?}", String::from_utf8_lossy(answer));
    }
    for answer in
        [&b"SSH-2.0-OpenSSH\r\n\r\n"[..], b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n"]
    {
        let error = ask(answer).unwrap_err();
        assert!(!error.may_pass(), "{}: {error:?}", String::from_utf8_lossy(answer));
    }
    let endless = [b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'a'; 1 << 20]].concat();
    assert!(matches!(ask(&endless), Err(Error::Malformed { .. })));
}

#[test]
fn a_connection_the_server_closed_is_not_used_again() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec();
    let client = client(&format!("http://127.0.0.1:{}", saying(vec![answer; 5])));
    for _ in 0..5 {
        assert_eq!(client.get("x").send(Body::None).unwrap().text().unwrap(), "ok");
    }
}

#[test]
fn proxies_are_asked_for_a_tunnel() {
    let authority = Authority::new();
    let nginx = Nginx::start(&authority.sign(&["server.test"], YEARS), None);
    std::fs::write(nginx.path("ca.pem"), authority.pem()).unwrap();
    let (_proxy, port) = servers::tinyproxy(nginx.folder.path(), &[nginx.http, nginx.https]);
    // The environment belongs to the process, and so a process of its own is needed.
    let ask = |proxy: &str, url: &str| {
        // Cargo builds examples before tests, beside them.
        let mut program = std::env::current_exe().unwrap();
        program.pop();
        program.set_file_name("examples");
        let mut command = std::process::Command::new(program.join("get"));
        command.arg(url).arg(nginx.path("ca.pem")).env("ALL_PROXY", proxy);
        for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"] {
            command.env_remove(name);
        }
        command.env_remove("NO_PROXY").env_remove("no_proxy");
        let output = command.output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let proxy = format!("http://me:sesame@127.0.0.1:{port}");
    // A way to write a loopback address that only the system's resolver understands.
    let through = ask(&proxy, &format!("http://127.1:{}/hello", nginx.http));
    assert!(through.contains("hello"), "{through}");
    let log = std::fs::read_to_string(nginx.path("tinyproxy.log")).unwrap();
    assert!(log.contains(&format!("CONNECT 127.1:{}", nginx.http)), "{log}");
    let stranger = ask(&proxy.replace("sesame", "wrong"), &format!("http://127.1:{}/hello", nginx.http));
    assert!(stranger.contains("does not let us through"), "{stranger}");
    // A name that is no loopback address for us, so that the proxy is asked; it cannot know it either.
    let unknown = ask(&proxy, &format!("https://server.test:{}/hello", nginx.https));
    assert!(unknown.contains("proxy http://127.0.0.1") && !unknown.contains("sesame"), "{unknown}");
    let log = std::fs::read_to_string(nginx.path("tinyproxy.log")).unwrap();
    assert!(log.contains(&format!("CONNECT server.test:{}", nginx.https)), "{log}");
    let nobody = ask(&format!("http://127.0.0.1:{}", free_port()), "https://server.test/hello");
    assert!(nobody.contains("nobody listens there") && nobody.contains("HTTPS_PROXY"), "{nobody}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever a server says, we end with a text or an error, soon.
    #[test]
    fn no_answer_panics(head in "(HTTP/1\\.[01] [0-9]{1,4} ?[ -~]{0,9}\r\n)?((Content-Length|Transfer-Encoding|Location|X): ?[ -~]{0,12}\r\n){0,3}(\r\n)?", tail in prop::collection::vec(any::<u8>(), 0..60)) {
        let answer = [head.into_bytes(), tail].concat();
        let limits = Limits { connect: Duration::from_secs(5), silence: Duration::from_secs(5), total: Some(Duration::from_secs(10)) };
        let settings = Settings { limits, retry: Retry::NONE, ..settings(&format!("http://127.0.0.1:{}", saying(vec![answer]))) };
        drop(Client::new(settings).unwrap().get("x").send(Body::None).and_then(trainyard_web::Response::text));
    }
}
