//! Registries that do not let everybody in: passwords, tokens, certificates. `./test registry` installs what is needed.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::json;
use support::registry::{Server, assert_same, layout, opened, skopeo};
use trainyard_image::{Places, Source};

#[test]
fn logins_and_certificates_are_those_of_docker() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(at("server.pem"), made.cert.pem()).unwrap();
    std::fs::write(at("server.key"), made.signing_key.serialize_pem()).unwrap();
    let hash = Command::new("htpasswd").args(["-Bbn", "me", "open sesame"]).output();
    std::fs::write(at("htpasswd"), hash.expect("htpasswd of apache2-utils").stdout).unwrap();
    let root = folder.path().display();
    let server = Server::start(&format!(
        "  tls:\n    certificate: {root}/server.pem\n    key: {root}/server.key\nauth:\n  htpasswd:\n    realm: x\n    path: {root}/htpasswd\n"
    ));
    let layout = layout(folder.path());
    let host = format!("localhost:{}", server.port);
    let name = format!("{host}/robot");
    let (from, to) = (format!("oci:{}", layout.display()), format!("docker://{name}"));
    skopeo(&["copy", "-q", "--all", "--dest-tls-verify=false", "--dest-creds", "me:open sesame", &from, &to]);

    let stranger = opened(&name, "amd64", &Places::default()).unwrap_err().to_string();
    assert!(stranger.contains("cannot be trusted"), "{stranger}");
    std::fs::create_dir_all(at("certs.d").join(&host)).unwrap();
    std::fs::copy(at("server.pem"), at("certs.d").join(&host).join("ca.crt")).unwrap();
    let certificates = vec![at("certs.d")];
    let nobody = Places { logins: vec![at("missing.json")], certificates: certificates.clone(), given: None };
    let denied = opened(&name, "amd64", &nobody).unwrap_err().to_string();
    assert!(denied.contains("docker login"), "{denied}");
    let with = |auth: &str| {
        std::fs::write(at("config.json"), json!({ "auths": { &host: { "auth": auth } } }).to_string()).unwrap();
        Places { logins: vec![at("config.json")], certificates: certificates.clone(), given: None }
    };
    // me:wrong
    let wrong = opened(&name, "amd64", &with("bWU6d3Jvbmc=")).and_then(|mut registry| registry.image()).unwrap_err();
    assert!(wrong.to_string().contains("not enough"), "{wrong}");
    // me:open sesame
    assert_same(&mut opened(&name, "amd64", &with("bWU6b3BlbiBzZXNhbWU=")).unwrap(), &layout, "amd64");
}

/// A server of tokens as registries name one: for a login by password it gives one, and for a token that lasts.
struct Tokens {
    port: u16,
    /// First lines of what it was asked.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Tokens {
    fn start(folder: &Path) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (all, folder) = (Arc::clone(&asked), folder.to_owned());
        std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let mut lines = BufReader::new(client.try_clone().unwrap());
                let (mut head, mut length) = (String::new(), 0);
                while lines.read_line(&mut head).is_ok_and(|read| read > 2) {
                    let last = head.lines().last().unwrap_or_default().to_ascii_lowercase();
                    length = last.strip_prefix("content-length: ").map_or(length, |length| length.parse().unwrap());
                }
                let mut body = vec![0; length];
                lines.read_exact(&mut body).unwrap();
                let body = String::from_utf8(body).unwrap();
                all.lock().unwrap().push(head.lines().next().unwrap().to_owned());
                // me:open sesame
                let password = head.to_ascii_lowercase().contains("authorization: basic bwu6b3blbibzzxnhbwu=");
                let lasting = body.contains("grant_type=refresh_token") && body.contains("refresh_token=for-ever");
                let (status, answer) = match (password, lasting) {
                    (true, _) => ("200 OK", json!({ "token": token(&folder) })),
                    (_, true) => ("200 OK", json!({ "access_token": token(&folder) })),
                    _ => ("401 Unauthorized", json!({ "errors": [] })),
                };
                let answer = answer.to_string();
                let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close");
                write!(client, "{head}\r\nContent-Length: {}\r\n\r\n{answer}", answer.len()).unwrap();
            }
        });
        Self { port, asked }
    }
}

/// Lets its bearer read and write `robot` for a minute, signed as the registry wants it.
fn token(folder: &Path) -> String {
    let certificate = std::fs::read_to_string(folder.join("tokens.pem")).unwrap();
    let certificate: String = certificate.lines().filter(|line| !line.starts_with("---")).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let encode = |value: serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let head = encode(json!({ "alg": "RS256", "typ": "JWT", "x5c": [certificate] }));
    let claims = encode(json!({
        "iss": "issuer", "sub": "me", "aud": "registry", "exp": now + 60, "nbf": now - 60, "iat": now, "jti": "1",
        "access": [{ "type": "repository", "name": "robot", "actions": ["pull", "push"] }],
    }));
    let text = format!("{head}.{claims}");
    let mut sign = Command::new("openssl");
    sign.args(["dgst", "-sha256", "-sign"]).arg(folder.join("tokens.key"));
    let mut sign = sign.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    sign.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let signed = sign.wait_with_output().unwrap();
    assert!(signed.status.success());
    format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(signed.stdout))
}

#[test]
fn tokens_are_got_for_a_password_and_for_a_token_that_lasts() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut made = Command::new("openssl");
    made.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=issuer", "-keyout"]);
    let made = made.arg(at("tokens.key")).arg("-out").arg(at("tokens.pem")).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let tokens = Tokens::start(folder.path());
    let server = Server::start(&format!(
        "auth:\n  token:\n    realm: http://127.0.0.1:{}/token\n    service: registry\n    issuer: issuer\n    rootcertbundle: {}\n",
        tokens.port,
        at("tokens.pem").display()
    ));
    let layout = layout(folder.path());
    let host = format!("localhost:{}", server.port);
    let name = format!("{host}/robot");
    let (from, to) = (format!("oci:{}", layout.display()), format!("docker://{name}"));
    skopeo(&["copy", "-q", "--all", "--dest-tls-verify=false", "--dest-creds", "me:open sesame", &from, &to]);
    let with = |login: serde_json::Value| {
        std::fs::write(at("config.json"), json!({ "auths": { &host: login } }).to_string()).unwrap();
        Places { logins: vec![at("config.json")], certificates: Vec::new(), given: None }
    };
    let asked = || std::mem::take(&mut *tokens.asked.lock().unwrap());
    asked();
    // me:open sesame
    let password = with(json!({ "auth": "bWU6b3BlbiBzZXNhbWU=" }));
    assert_same(&mut opened(&name, "amd64", &password).unwrap(), &layout, "amd64");
    let lines = asked();
    let is_get = |line: &String| line.starts_with("GET /token?") && line.contains("scope=repository%3Arobot%3Apull");
    assert!(lines.len() == 1 && lines.iter().all(is_get), "{lines:?}");
    let lasting = with(json!({ "auth": "MDA6", "identitytoken": "for-ever" }));
    assert_same(&mut opened(&name, "amd64", &lasting).unwrap(), &layout, "amd64");
    let lines = asked();
    assert!(lines.len() == 1 && lines[0].starts_with("POST /token"), "{lines:?}");
    // me:wrong
    for wrong in [json!({ "auth": "bWU6d3Jvbmc=" }), json!({ "identitytoken": "expired" })] {
        let error = opened(&name, "amd64", &with(wrong)).unwrap_err().to_string();
        assert!(error.contains("not enough"), "{error}");
    }
    let error = opened(&name, "amd64", &Places::default()).unwrap_err().to_string();
    assert!(error.contains("docker login"), "{error}");
    // It is for one image only.
    let other = opened(&format!("{host}/other"), "amd64", &password).and_then(|mut registry| registry.image());
    let error = other.unwrap_err().to_string();
    assert!(error.contains("not enough"), "{error}");
}
