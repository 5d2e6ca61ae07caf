//! Apptainer as `./test` installs it, and a small image to run with it.

use std::path::{Path, PathBuf};

use crate::login::Login;

/// The folder of the program `apptainer`.
///
/// # Panics
/// When it is not there.
pub fn programs() -> PathBuf {
    let folder = std::env::var_os("YARD_TEST_APPTAINER").map(PathBuf::from);
    let folder = folder.filter(|folder| folder.join("apptainer").is_file());
    folder.expect("apptainer, in the folder YARD_TEST_APPTAINER; `./test slurm` installs it")
}

/// What a target needs to use it. Images are unpacked rather than mounted: not every machine lets its users mount.
pub fn target() -> String {
    let setup = format!("export PATH=\"{}:$PATH\"", programs().display());
    format!("container = \"apptainer\"\nsetup = ['{setup}']\nenv = {{ APPTAINER_UNSQUASH = \"1\" }}\n")
}

const APPLETS: &[&str] =
    &["sh", "cat", "echo", "sleep", "env", "ls", "mkdir", "touch", "pwd", "printf", "true", "setsid"];

/// An image in the user's home, with a shell and the file `/image` that tells its name.
///
/// # Panics
/// When it cannot be made.
pub fn image(login: &Login<'_>, name: &str) -> PathBuf {
    let root = tempfile::Builder::new().prefix("image-").tempdir().expect("a folder");
    fill(root.path(), name);
    let image = login.home().join(format!("{name}.sif"));
    let build = format!(
        "PATH=\"{}:$PATH\" apptainer --quiet build '{}' '{}'",
        programs().display(),
        image.display(),
        root.path().display()
    );
    let built = login.ssh(login.direct_host(), &build);
    assert_eq!(built.exit, 0, "{built:?}");
    image
}

/// What `docker save` would make of an image with a shell, the file `/image` that tells its name, and what `add` puts
/// beside; its layers are two.
///
/// # Panics
/// When it cannot be made.
pub fn docker_archive(path: &Path, name: &str, add: impl FnOnce(&Path)) {
    let folder = tempfile::Builder::new().prefix("archive-").tempdir().expect("a folder");
    let mut layers = Vec::new();
    let mut layer = |make: &mut dyn FnMut(&Path)| {
        let number = layers.len();
        let root = folder.path().join(format!("root{number}"));
        std::fs::create_dir(&root).expect("a folder");
        make(&root);
        let file = format!("layer{number}.tar");
        run(
            "tar",
            &[
                "--sort=name",
                "--owner=0",
                "--group=0",
                "--mtime=@1600000000",
                "-cf",
                &file,
                "-C",
                &format!("root{number}"),
                ".",
            ],
            folder.path(),
        );
        let sum = run("sha256sum", &[&file], folder.path());
        layers.push((file, format!("sha256:{}", sum.split(' ').next().unwrap_or_default())));
    };
    layer(&mut |root| fill(root, name));
    let mut add = Some(add);
    layer(&mut |root| {
        if let Some(add) = add.take() {
            add(root);
        }
    });
    let ids: Vec<&str> = layers.iter().map(|(_, id)| id.as_str()).collect();
    let config = serde_json::json!({
        "architecture": "amd64", "os": "linux",
        "config": { "Env": ["PATH=/bin", format!("LAB={name}")], "Cmd": ["sh"] },
        "rootfs": { "type": "layers", "diff_ids": ids },
    });
    std::fs::write(folder.path().join("config.json"), config.to_string()).expect("a file");
    let files: Vec<&str> = layers.iter().map(|(file, _)| file.as_str()).collect();
    let manifest =
        serde_json::json!([{ "Config": "config.json", "RepoTags": [format!("{name}:latest")], "Layers": files }]);
    std::fs::write(folder.path().join("manifest.json"), manifest.to_string()).expect("a file");
    let path = path.to_str().expect("a path that is text");
    run("tar", &[&["-cf", path, "manifest.json", "config.json"], files.as_slice()].concat(), folder.path());
}

fn run(program: &str, arguments: &[&str], folder: &Path) -> String {
    let ran = std::process::Command::new(program).args(arguments).current_dir(folder).output();
    let ran = ran.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(ran.status.success(), "{program}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

fn fill(root: &Path, name: &str) {
    crate::stage::set_mode(root, 0o755);
    for folder in ["bin", "dev", "proc", "sys", "tmp", "etc", "root/.cache", "home", "var/tmp"] {
        std::fs::create_dir_all(root.join(folder)).expect("a folder");
    }
    for file in ["etc/hosts", "etc/resolv.conf", "etc/passwd", "etc/group"] {
        std::fs::write(root.join(file), "").expect("a file");
    }
    std::fs::write(root.join("image"), format!("{name}\n")).expect("a file");
    let busybox = programs().join("busybox");
    std::fs::copy(&busybox, root.join("bin/busybox")).unwrap_or_else(|error| panic!("{}: {error}", busybox.display()));
    for applet in APPLETS {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(applet)).expect("a link");
    }
}
