//! The programs that judge the outputs: apptainer and squashfs-tools, as `./test image` installs them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of apptainer and a static busybox.
///
/// # Panics
/// When it is not there.
pub fn programs() -> PathBuf {
    let folder = std::env::var_os("YARD_TEST_APPTAINER").map(PathBuf::from);
    let folder = folder.filter(|folder| folder.join("apptainer").is_file());
    folder.expect("apptainer, in the folder YARD_TEST_APPTAINER; `./test image` installs it")
}

pub fn busybox() -> Vec<u8> {
    std::fs::read(programs().join("busybox")).unwrap()
}

/// # Panics
/// When it fails.
pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    output
}

/// Apptainer's own build of an archive.
pub fn build(archive: &Path, folder: &Path) -> PathBuf {
    assert!(rustix::process::geteuid().is_root(), "only root's build keeps owners: run this test as root");
    let image = folder.join("theirs.sif");
    let mut command = apptainer();
    command.args(["--quiet", "build"]).arg(&image).arg(format!("docker-archive://{}", archive.display()));
    // Its cache and its scratch folder are as large as the image.
    command.env("APPTAINER_TMPDIR", folder).env("APPTAINER_CACHEDIR", folder.join("cache"));
    run(&mut command);
    image
}

pub fn apptainer() -> Command {
    Command::new(programs().join("apptainer"))
}

/// The squashfs out of a SIF, unpacked.
pub fn unpack(image: &Path, folder: &Path) -> PathBuf {
    let place = folder.join(format!("{}.unpacked", image.file_name().unwrap().display()));
    let start = partition(image).to_string();
    run(Command::new("unsquashfs").args(["-quiet", "-no-progress", "-offset", &start, "-dest"]).arg(&place).arg(image));
    place
}

/// Where the squashfs begins: the first of our or apptainer's partitions.
pub fn partition(image: &Path) -> u64 {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::open(image).unwrap();
    let mut start = [0; 128];
    file.read_exact_at(&mut start, 0).unwrap();
    if &start[..4] == b"hsqs" {
        return 0;
    }
    for slot in 0..48 {
        let mut descriptor = [0; 585];
        file.read_exact_at(&mut descriptor, 4096 + 585 * slot).unwrap();
        if descriptor[..4] == 0x4004u32.to_le_bytes() {
            return u64::from_le_bytes(descriptor[17..25].try_into().unwrap());
        }
    }
    panic!("{} has no file system", image.display());
}
