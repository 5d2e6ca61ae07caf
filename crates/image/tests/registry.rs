//! Against Debian's registry on loopback, with images that skopeo pushed. `./test registry` installs both.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use support::registry::{Server, assert_same, bytes, layout, opened, platform, skopeo};
use trainyard_image::{Build, Builder, Daemon, Digest, Engine, Places, Source};

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
        "FROM scratch AS one\nARG WORD\nENV WORD=$WORD\nCOPY hello /hello\nLABEL is=built\nFROM one\nLABEL last=yes\n",
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
    // Images of the steps on the way are listed too, in any order; only the last step's has the label.
    let listed = Command::new("podman")
        .args(["images", "-q", "--no-trunc", "--filter", "label=is=built"])
        .envs(variables.clone())
        .output()
        .unwrap();
    let id = String::from_utf8(listed.stdout).unwrap().trim().to_owned();
    assert_eq!(id.lines().count(), 1, "{id}");
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
    let silent = Daemon::open(&engine, &id, platform("amd64"), spool.path()).err().unwrap().to_string();
    assert!(silent.contains(&format!("nobody answers at unix://{}", socket.display())), "{silent}");

    build.dockerfile = folder.path().join("none");
    let missing = build.run(&mut |_| panic!("nothing is to be built")).err().unwrap().to_string();
    assert!(missing.contains("cannot read") && missing.contains("/none"), "{missing}");
    build.dockerfile.clone_from(&dockerfile);
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
