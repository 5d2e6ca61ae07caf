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
