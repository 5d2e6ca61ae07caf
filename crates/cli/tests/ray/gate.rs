//! A dashboard behind a real reverse proxy: below a path, with a certificate of a private authority, for those who have the
//! token.

use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use trainyard_testkit::ray::Ray;
use trainyard_testkit::{Yard, ports, within};

const JOBS: &str = "[project]\nname = 'p'
[jobs.train]\ncommand = ['sh', '-c', 'echo through the gate; mkdir out; head -c 3000000 /dev/urandom > out/model']\noutputs = ['out/']\n";

/// The nginx, and what it needs; ended with it.
struct Gate {
    folder: tempfile::TempDir,
    port: u16,
    nginx: Child,
}

impl Drop for Gate {
    fn drop(&mut self) {
        // TERM: nginx has workers to end.
        drop(Command::new("kill").args(["-TERM", &self.nginx.id().to_string()]).status());
        drop(self.nginx.wait());
    }
}

/// An authority's certificate, and one it has signed for `localhost` with its key.
fn certificates() -> (String, String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap().pem();
    let issuer = rcgen::Issuer::new(params, key);
    let own = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    (authority, params.signed_by(&own, &issuer).unwrap().pem(), own.serialize_pem())
}

impl Gate {
    fn open(to: &str, token: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (authority, certificate, key) = certificates();
        let files =
            [("ca.pem", authority), ("cert.pem", certificate), ("key.pem", key), ("other.pem", certificates().0)];
        files.iter().for_each(|(name, text)| std::fs::write(folder.path().join(name), text).unwrap());
        let (port, at) = (ports::free(), folder.path().display());
        // As root the worker would be somebody who cannot read the test's folder.
        let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
        let text = format!(
            "daemon off; pid {at}/pid; error_log {at}/error.log; worker_processes 1; {user}
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {at}/a; proxy_temp_path {at}/b; fastcgi_temp_path {at}/c;
  uwsgi_temp_path {at}/d; scgi_temp_path {at}/e; client_max_body_size 0;
  server {{
    listen 127.0.0.1:{port} ssl; ssl_certificate {at}/cert.pem; ssl_certificate_key {at}/key.pem;
    location /lab/ray/ {{
      if ($http_authorization != \"Bearer {token}\") {{ return 401 'who are you'; }}
      proxy_pass {to}/; proxy_http_version 1.1; proxy_read_timeout 120s;
    }}
  }}
}}
"
        );
        let conf = folder.path().join("nginx.conf");
        std::fs::write(&conf, text).unwrap();
        let mut command = Command::new("/usr/sbin/nginx");
        command.arg("-p").arg(folder.path()).arg("-c").arg(conf).stdin(Stdio::null()).stdout(Stdio::null());
        let nginx = command.stderr(Stdio::null()).spawn().expect("nginx; `./test ray` installs it");
        within(Duration::from_secs(60), "nginx", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok());
        Self { folder, port, nginx }
    }

    fn yard(&self, ray: &Ray, ca: Option<&str>, token: &Path) -> Yard {
        let ca = ca.map(|name| format!("ca = '{}'\n", self.folder.path().join(name).display())).unwrap_or_default();
        let (port, depot, token) = (self.port, ray.depot(), token.display());
        let target = format!(
            "[targets.r]\nkind = 'ray'\naddress = 'https://localhost:{port}/lab/ray/'\ndepot = '{}'\ntoken = {{ file = '{token}' }}\n{ca}",
            depot.display()
        );
        let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), &format!("{JOBS}{target}"));
        yard.set("YARD_PACE", "300");
        yard
    }
}

pub(crate) fn through_a_gate(ray: &Ray, token: &str) {
    let gate = Gate::open(&ray.address(), token);
    let yard = gate.yard(ray, Some("ca.pem"), &ray.token_file());
    let ran = yard.run(&["run", "train", "--on", "r"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert_eq!(yard.run(&["logs", "train"]).stdout, "through the gate\n");
    let pulled = yard.json(&["pull", "train"]);
    assert_eq!(pulled["pulled"][0]["bytes"], 3_000_000, "{pulled}");

    // An authority that is not the server's, none at all, and a token that is not the gate's: said, and nothing is sent.
    for ca in [Some("other.pem"), None] {
        let stranger = gate.yard(ray, ca, &ray.token_file());
        let refused = stranger.run(&["run", "train", "--on", "r", "--detach"]);
        assert_eq!(refused.exit, 4, "{refused:?}");
        assert!(refused.stderr.contains("its certificate is"), "{refused:?}");
        assert!(refused.stderr.contains("`ca`"), "it says what to do: {refused:?}");
        assert!(stranger.runs().is_empty());
    }
    let wrong = gate.folder.path().join("token");
    std::fs::write(&wrong, "nobody").unwrap();
    let stranger = gate.yard(ray, Some("ca.pem"), &wrong);
    let refused = stranger.run(&["run", "train", "--on", "r", "--detach"]);
    assert_eq!(refused.exit, 5, "{refused:?}");
    assert!(refused.stderr.contains("401"), "{refused:?}");
}
