//! Debian's registry on loopback, and an image for it.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trainyard_image::{Blob, Digest, Layout, Places, Platform, Reference, Registry, Source};

/// A registry, ended with its value.
pub struct Server {
    pub folder: tempfile::TempDir,
    pub port: u16,
    process: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Server {
    pub fn start(more: &str) -> Self {
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

pub fn skopeo(arguments: &[&str]) {
    let output = Command::new("skopeo").arg("--insecure-policy").args(arguments).output();
    let output = output.expect("skopeo; `./test registry` installs it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// An OCI layout with an index: this platform, another one, and an attestation.
pub fn layout(folder: &Path) -> PathBuf {
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

pub fn platform(architecture: &str) -> Platform {
    Platform { os: "linux".to_owned(), architecture: architecture.to_owned(), variant: None }
}

pub fn bytes(blob: Blob) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match blob {
        Blob::Stream(mut stream) => stream.read_to_end(&mut bytes)?,
        Blob::Range(mut range) => range.read_to_end(&mut bytes)?,
        Blob::Folder(_) => panic!("a folder"),
    };
    Ok(bytes)
}

pub fn opened(name: &str, architecture: &str, places: &Places) -> trainyard_image::Result<Registry> {
    Registry::open(Reference::parse(name)?, platform(architecture), places)
}

/// That a registry gives what the layout holds.
pub fn assert_same(registry: &mut Registry, layout: &Path, architecture: &str) {
    let mut expected = Layout::new(layout, None, platform(architecture));
    let image = registry.image().unwrap();
    assert_eq!(image, expected.image().unwrap());
    assert_eq!(image.config.architecture, architecture);
    let read = bytes(registry.layer(0).unwrap()).unwrap();
    assert!(read == bytes(expected.layer(0).unwrap()).unwrap());
    assert_eq!(image.layers[0].digest.as_ref(), Some(&Digest::of(&read)));
}
