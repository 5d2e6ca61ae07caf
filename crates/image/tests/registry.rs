//! Against Debian's registry on loopback, with images that skopeo pushed. `./test registry` installs both.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trainyard_image::{
    Blob, Build, Builder, Daemon, Digest, Engine, Layout, Places, Platform, Reference, Registry, Source,
};

/// A registry, ended with its value.
struct Server {
    folder: tempfile::TempDir,
    port: u16,
    process: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Server {
    fn start(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let root = folder.path().display();
        let text = format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {root}/data\nhttp:\n  addr: 127.0.0.1:{port}\n  secret: x\n{more}"
        );
        std::fs::write(folder.path().join("config.yml"), text).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(folder.path().join("config.yml")).env("OTEL_TRACES_EXPORTER", "none");
        command.stdout(log.try_clone().unwrap()).stderr(log).stdin(Stdio::null());
        let process = command.spawn().expect("docker-registry; `./test registry` installs it");
        let mut server = Self { folder, port, process };
        let until = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let log = || std::fs::read_to_string(server.folder.path().join("log")).unwrap();
            assert!(server.process.try_wait().unwrap().is_none() && Instant::now() < until, "{}", log());
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }
}

fn skopeo(arguments: &[&str]) {
    let output = Command::new("skopeo").arg("--insecure-policy").args(arguments).output();
    let output = output.expect("skopeo; `./test registry` installs it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// An OCI layout with an index: this platform, another one, and an attestation.
fn layout(folder: &Path) -> PathBuf {
    let root = folder.join("layout");
    let blobs = root.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    std::fs::write(root.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
    let put = |bytes: &[u8], kind: &str| -> Value {
        let digest = Digest::of(bytes);
        std::fs::write(blobs.join(digest.hex()), bytes).unwrap();
        json!({ "mediaType": kind, "digest": digest.as_str(), "size": bytes.len() })
    };
    let manifest_kind = "application/vnd.oci.image.manifest.v1+json";
    let image = |architecture: &str| {
        let tree = folder.join(architecture);
        std::fs::create_dir_all(tree.join("etc")).unwrap();
        std::fs::write(tree.join("etc/architecture"), architecture).unwrap();
        // Does not compress, so that there is something to break off in.
        let mut state = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        })
        .take(3 << 20)
        .collect();
        std::fs::write(tree.join("noise"), noise).unwrap();
        let tar = Command::new("tar").args(["-C", tree.to_str().unwrap(), "-cf", "-", "."]).output().unwrap().stdout;
        let diff_id = Digest::of(&tar);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&tar).unwrap();
        let layer = put(&gzip.finish().unwrap(), "application/vnd.oci.image.layer.v1.tar+gzip");
        let config = json!({
            "architecture": architecture, "os": "linux", "config": { "Env": ["A=b"], "Cmd": ["/bin/sh"] },
            "rootfs": { "type": "layers", "diff_ids": [diff_id.as_str()] },
        });
        let config = put(config.to_string().as_bytes(), "application/vnd.oci.image.config.v1+json");
        let manifest = json!({ "schemaVersion": 2, "mediaType": manifest_kind, "config": config, "layers": [layer] });
        let mut entry = put(manifest.to_string().as_bytes(), manifest_kind);
        entry["platform"] = json!({ "architecture": architecture, "os": "linux" });
        entry
    };
    let (amd, arm) = (image("amd64"), image("arm64"));
    let mut attestation = amd.clone();
    attestation["platform"] = json!({ "architecture": "unknown", "os": "unknown" });
    attestation["annotations"] = json!({ "vnd.docker.reference.type": "attestation-manifest" });
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [attestation, arm, amd],
    });
    let inner = put(index.to_string().as_bytes(), "application/vnd.oci.image.index.v1+json");
    std::fs::write(root.join("index.json"), json!({ "schemaVersion": 2, "manifests": [inner] }).to_string()).unwrap();
    root
}

fn platform(architecture: &str) -> Platform {
    Platform { os: "linux".to_owned(), architecture: architecture.to_owned(), variant: None }
}

fn bytes(blob: Blob) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match blob {
        Blob::Stream(mut stream) => stream.read_to_end(&mut bytes)?,
        Blob::Range(mut range) => range.read_to_end(&mut bytes)?,
        Blob::Folder(_) => panic!("a folder"),
    };
    Ok(bytes)
}

fn opened(name: &str, architecture: &str, places: &Places) -> trainyard_image::Result<Registry> {
    Registry::open(Reference::parse(name)?, platform(architecture), places)
}

/// That a registry gives what the layout holds.
fn assert_same(registry: &mut Registry, layout: &Path, architecture: &str) {
    let mut expected = Layout::new(layout, None, platform(architecture));
    let image = registry.image().unwrap();
    assert_eq!(image, expected.image().unwrap());
    assert_eq!(image.config.architecture, architecture);
    let read = bytes(registry.layer(0).unwrap()).unwrap();
    assert!(read == bytes(expected.layer(0).unwrap()).unwrap());
    assert_eq!(image.layers[0].digest.as_ref(), Some(&Digest::of(&read)));
}

#[test]
fn images_come_from_a_registry_of_this_machine() {
    let server = Server::start("");
    let folder = tempfile::tempdir().unwrap();
    let layout = layout(folder.path());
    let name = format!("localhost:{}/team/robot:v1", server.port);
    let (from, to) = (format!("oci:{}", layout.display()), format!("docker://{name}"));
    skopeo(&["copy", "-q", "--all", "--dest-tls-verify=false", &from, &to]);
    let places = Places::default();
    for architecture in ["amd64", "arm64"] {
        assert_same(&mut opened(&name, architecture, &places).unwrap(), &layout, architecture);
    }
    let other = opened(&name, "riscv64", &places).unwrap().image().unwrap_err().to_string();
    assert!(other.contains("riscv64") && other.contains("linux/arm64") && !other.contains("unknown"), "{other}");
    let missing = opened(&name.replace("v1", "v2"), "amd64", &places).unwrap().image().unwrap_err().to_string();
    assert!(missing.contains("there is no image") && missing.contains("robot:v2"), "{missing}");
    let pinned = format!("localhost:{}/team/robot@{}", server.port, Digest::of(b"another"));
    assert!(opened(&pinned, "amd64", &places).unwrap().image().is_err());

    // Connections break in the middle of a layer, and it is read on from there.
    let (port, cuts) = cutting(server.port, 700_000, 4);
    let name = format!("127.0.0.1:{port}/team/robot:v1");
    assert_same(&mut opened(&name, "amd64", &places).unwrap(), &layout, "amd64");
    assert_eq!(cuts.load(Ordering::SeqCst), 4);

    // What was changed at the registry is no longer what its name says.
    let blobs = server.folder.path().join("data/docker/registry/v2/blobs/sha256");
    let mut damaged = 0;
    for file in files(&blobs) {
        let text = std::fs::read(&file).unwrap();
        if text.starts_with(b"{") && String::from_utf8_lossy(&text).contains("A=b") {
            std::fs::write(&file, String::from_utf8(text).unwrap().replace("A=b", "A=c")).unwrap();
            damaged += 1;
        }
    }
    assert_eq!(damaged, 2);
    let name = format!("localhost:{}/team/robot:v1", server.port);
    let error = opened(&name, "amd64", &places).unwrap().image().unwrap_err();
    assert!(matches!(error, trainyard_image::Error::Digest { .. }), "{error}");
}

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

/// Podman with a store of its own; these are the variables that make it so.
fn podman(folder: &Path) -> Vec<(String, String)> {
    let root = folder.display();
    let settings = format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{root}/store\"\nrunroot = \"{root}/run\"\n");
    std::fs::write(folder.join("storage.conf"), settings).unwrap();
    std::fs::write(
        folder.join("containers.conf"),
        "[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\n",
    )
    .unwrap();
    let policy = r#"{"default":[{"type":"insecureAcceptAnything"}]}"#;
    std::fs::create_dir_all(folder.join(".config/containers")).unwrap();
    std::fs::write(folder.join(".config/containers/policy.json"), policy).unwrap();
    let at = |name: &str| folder.join(name).display().to_string();
    [("CONTAINERS_STORAGE_CONF", at("storage.conf")), ("CONTAINERS_CONF", at("containers.conf")), ("HOME", at(""))]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
}

#[test]
fn images_are_built_and_lie_with_a_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let variables = podman(folder.path());
    let context = folder.path().join("code");
    std::fs::create_dir_all(&context).unwrap();
    std::fs::write(context.join("hello"), "hello").unwrap();
    let dockerfile = context.join("Dockerfile");
    std::fs::write(
        &dockerfile,
        "FROM scratch AS one\nARG WORD\nENV WORD=$WORD\nCOPY hello /hello\nFROM one\nLABEL last=yes\n",
    )
    .unwrap();
    let mut build = Build {
        builder: Builder::Podman,
        context,
        dockerfile: dockerfile.clone(),
        target: Some("one".to_owned()),
        arguments: vec![("WORD".to_owned(), "a b'$c".to_owned())],
        variables: variables.clone(),
        platform: platform("amd64"),
        spool: folder.path().to_owned(),
    };
    let mut heard = Vec::new();
    let mut source = build.run(&mut |line| heard.push(line.to_owned())).unwrap();
    assert!(heard.iter().any(|line| line.contains("COPY hello")), "{heard:?}");
    let built = source.image().unwrap();
    assert!(built.config.run.env.contains(&"WORD=a b'$c".to_owned()), "{:?}", built.config.run);
    assert!(!built.config.run.labels.contains_key("last"), "the stage was not stopped at");
    let top = bytes(source.layer(built.layers.len() - 1).unwrap()).unwrap();
    assert!(top.windows(5).any(|window| window == b"hello"));

    // The same image, from the daemon.
    let mut service = Command::new("podman");
    let socket = folder.path().join("socket");
    service
        .args(["system", "service", "--time", "0"])
        .arg(format!("unix://{}", socket.display()))
        .envs(variables.clone());
    let mut service = service.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).spawn().unwrap();
    let engine = Engine::at(&socket).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !engine.is_there() {
        assert!(service.try_wait().unwrap().is_none() && Instant::now() < until, "podman does not serve");
        std::thread::sleep(Duration::from_millis(10));
    }
    let id =
        Command::new("podman").args(["images", "-q", "--no-trunc"]).envs(variables.clone()).output().unwrap().stdout;
    let id = String::from_utf8(id).unwrap().lines().next().unwrap().to_owned();
    let spool = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::open(&engine, &id, platform("amd64"), spool.path()).unwrap();
    assert_eq!(daemon.id(), id);
    let image = daemon.image().unwrap();
    assert_eq!(image.config.diff_ids, built.config.diff_ids);
    assert_eq!(image.config.run.env, built.config.run.env);
    assert_eq!(std::fs::read_dir(spool.path()).unwrap().count(), 0, "nothing is fetched before it is wanted");
    assert!(bytes(daemon.layer(image.layers.len() - 1).unwrap()).unwrap() == top);
    drop(daemon);
    assert_eq!(std::fs::read_dir(spool.path()).unwrap().count(), 0);
    let missing = Daemon::open(&engine, "no/such:image", platform("amd64"), spool.path()).err().unwrap().to_string();
    assert!(missing.contains("no image `no/such:image`"), "{missing}");
    service.kill().unwrap();
    service.wait().unwrap();

    std::fs::write(&dockerfile, "FROM scratch\nCOPY missing /\n").unwrap();
    build.target = None;
    let failed = build.run(&mut |_| {}).err().unwrap().to_string();
    assert!(failed.contains("podman") && failed.contains("missing"), "{failed}");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Stands before a server, and ends the first connections after so many bytes of an answer.
fn cutting(server: u16, after: usize, times: usize) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let cuts = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&cuts);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || drop(std::io::copy(&mut from, &mut to)));
            let (mut from, mut to, count) = (server, client, Arc::clone(&count));
            std::thread::spawn(move || {
                let (mut buffer, mut passed) = ([0; 65536], 0);
                while let Ok(read) = from.read(&mut buffer) {
                    passed += read;
                    let is_cut = passed > after && count.fetch_add(1, Ordering::SeqCst) < times;
                    if passed > after && !is_cut {
                        count.fetch_sub(1, Ordering::SeqCst);
                    }
                    if read == 0 || is_cut || to.write_all(&buffer[..read]).is_err() {
                        break;
                    }
                }
                drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
            });
        }
    });
    (port, cuts)
}
