//! Real servers on loopback: nginx and tinyproxy, ended with the test; and one that says exactly what a test wants.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// A program that is ended when this goes.
pub(crate) struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // TERM first: nginx has workers to end.
        let pid = self.0.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        self.0.wait().unwrap();
    }
}

fn start(program: &str, arguments: &[&str], log: &Path, port: u16) -> Daemon {
    let log_file = std::fs::File::create(log).unwrap();
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(log_file.try_clone().unwrap()).stderr(log_file);
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{program}: {error}; `./test web` installs it"));
    let until = Instant::now() + PATIENCE;
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none() && Instant::now() < until, "{program}: {}", std::fs::read_to_string(log).unwrap());
        std::thread::sleep(Duration::from_millis(5));
    }
    Daemon(child)
}

/// An nginx that serves `files/`, with plain and encrypted ports and a socket.
pub(crate) struct Nginx {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) http: u16,
    pub(crate) https: u16,
    _daemon: Daemon,
}

/// A certificate authority, and what it signs.
pub(crate) struct Authority {
    certificate: rcgen::Certificate,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "test authority");
        let certificate = params.self_signed(&key).unwrap();
        Self { certificate, issuer: rcgen::Issuer::new(params, key) }
    }

    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// Certificate and key for `names`, valid until this year.
    pub(crate) fn sign(&self, names: &[&str], last_year: i32) -> (String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = rcgen::CertificateParams::new(names).unwrap();
        params.not_after = rcgen::date_time_ymd(last_year, 1, 1);
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// A certificate that signs itself, as `openssl req -x509` makes it, and its key.
pub(crate) fn self_signed(name: &str) -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

impl Nginx {
    pub(crate) fn start(certificate: &(String, String), client_authority: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("files/secret")).unwrap();
        std::fs::write(at("files/secret/x"), "secret").unwrap();
        std::fs::write(at("files/hello"), "hello").unwrap();
        std::fs::write(at("cert.pem"), &certificate.0).unwrap();
        std::fs::write(at("key.pem"), &certificate.1).unwrap();
        std::fs::write(at("htpasswd"), "me:{PLAIN}open sesame\n").unwrap();
        let ask = client_authority.map_or(String::new(), |pem| {
            std::fs::write(at("clients.pem"), pem).unwrap();
            format!("ssl_client_certificate {}; ssl_verify_client on;", at("clients.pem").display())
        });
        let (http, https) = (free_port(), free_port());
        let configuration = format!(
            "daemon off; pid {folder}/pid; error_log stderr; worker_processes 1; {user}
events {{ worker_connections 64; }}
http {{
  access_log {folder}/access.log combined;
  log_format kept '$connection $connection_requests $request_method $request_uri auth=$http_authorization';
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e; client_max_body_size 0;
  server {{
    listen 127.0.0.1:{http}; listen unix:{folder}/socket; listen 127.0.0.1:{https} ssl; access_log {folder}/kept.log kept;
    ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem; {ask}
    root {folder}/files;
    location /secret/ {{ auth_basic x; auth_basic_user_file {folder}/htpasswd; }}
    location /prefix/ {{ proxy_pass http://127.0.0.1:{http}/; proxy_http_version 1.1; proxy_buffering off; }}
    location = /moved {{ return 302 /hello; }}
    location = /post-moved {{ return 301 /hello; }}
    location = /away {{ return 307 http://localhost:{http}/whoami; }}
    location = /down {{ return 302 http://127.0.0.1:{http}/hello; }}
    location = /loop {{ return 302 /loop; }}
    location = /whoami {{ return 200 'auth=$http_authorization'; }}
    location = /busy {{ add_header Retry-After 1 always; return 503 'come back later'; }}
    location = /json {{ default_type application/json; return 200 '{{\"a\":1}}'; }}
    location = /put {{ return 200 '$content_length $http_transfer_encoding'; }}
  }}
}}
",
            folder = folder.path().display(),
            // As root the worker would be somebody who cannot read the test's folder.
            user = if is_root() { "user root;" } else { "" },
        );
        std::fs::write(at("nginx.conf"), configuration).unwrap();
        let (conf, prefix) = (at("nginx.conf"), folder.path().display().to_string());
        let daemon = start("/usr/sbin/nginx", &["-p", &prefix, "-c", conf.to_str().unwrap()], &at("nginx.out"), http);
        Self { folder, http, https, _daemon: daemon }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What was asked for, one line per request: connection, its requests so far, the request, credentials. Waits for this
    /// many lines, for nginx answers before it writes them.
    pub(crate) fn requests(&self, least: usize) -> Vec<String> {
        let until = Instant::now() + PATIENCE;
        loop {
            let text = std::fs::read_to_string(self.path("kept.log")).unwrap_or_default();
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            if lines.len() >= least {
                return lines;
            }
            assert!(Instant::now() < until, "{lines:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
}

/// A forward proxy.
pub(crate) fn tinyproxy(folder: &Path, ports: &[u16]) -> (Daemon, u16) {
    let port = free_port();
    let allowed: String = ports.iter().map(|port| format!("ConnectPort {port}\n")).collect();
    let configuration = format!(
        "Port {port}\nListen 127.0.0.1\nTimeout 60\nAllow 127.0.0.1\nMaxClients 10\n{allowed}LogFile \"{}\"\nLogLevel Connect\nBasicAuth me sesame\n",
        folder.join("tinyproxy.log").display()
    );
    let path = folder.join("tinyproxy.conf");
    std::fs::write(&path, configuration).unwrap();
    let daemon =
        start("/usr/bin/tinyproxy", &["-d", "-c", path.to_str().unwrap()], &folder.join("tinyproxy.out"), port);
    (daemon, port)
}

/// Answers each connection with the next of these texts after the request's head was read, and closes it; then listens no
/// more. Returns its port.
pub(crate) fn saying(answers: Vec<Vec<u8>>) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for answer in answers {
            let Ok((stream, _)) = listener.accept() else { return };
            let mut reader = BufReader::new(&stream);
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
                line.clear();
            }
            // The client may have left already.
            drop((&stream).write_all(&answer));
        }
    });
    port
}
