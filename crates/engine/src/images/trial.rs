//! An image of a few kilobytes, to see whether a runtime opens those that are made here before a large one is sent.

use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use trainyard_agent::disk::remove_folder;
use trainyard_agent::inspect::{TRIAL, TRIAL_PROGRAM};
use trainyard_image::{Config, Folder, Options, Platform, convert, index_path};

use super::Form;

/// Writes `image`, which holds a program that ends with [`TRIAL`], and `token`, so that it is like no other.
pub fn write_trial(image: &Path, token: &str, form: Form) -> io::Result<()> {
    let root = image.with_extension("root");
    let written = fill(&root, token).and_then(|()| {
        let config =
            Config { architecture: Platform::here().architecture, os: "linux".to_owned(), ..Config::default() };
        let options = Options { format: form.format, codec: form.codec, threads: 1, ..Options::default() };
        let mut source = Folder::new(&root, config);
        convert(&mut source, &options, image, &mut |_| ControlFlow::Continue(())).map_err(io::Error::other)
    });
    drop(remove_folder(&root));
    drop(std::fs::remove_file(index_path(image)));
    written.map(drop)
}

fn fill(root: &Path, token: &str) -> io::Result<()> {
    let program = root.join(TRIAL_PROGRAM.trim_start_matches('/'));
    fs_err::create_dir_all(root)?;
    fs_err::write(root.join("token"), token)?;
    fs_err::write(&program, program_bytes())?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))
}

/// A whole program for Linux on x86-64, by hand: `exit(TRIAL)`.
fn program_bytes() -> Vec<u8> {
    const BASE: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    let [status, ..] = TRIAL.to_le_bytes();
    // mov edi, TRIAL; mov eax, 60; syscall
    let code = [0xbf, status, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05];
    let size = HEADERS + code.len() as u64;
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // An executable, for x86-64, of version 1.
    bytes.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    for word in [BASE + HEADERS, 64, 0] {
        bytes.extend(u64::to_le_bytes(word));
    }
    // No flags; sizes of both headers; one segment; no sections.
    bytes.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    // Loaded, readable, executable.
    bytes.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    for word in [0, BASE, BASE, size, size, 0x1000] {
        bytes.extend(u64::to_le_bytes(word));
    }
    bytes.extend(code);
    bytes
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_program_ends_as_it_should() {
        let folder = tempfile::tempdir().unwrap();
        fill(folder.path(), "token").unwrap();
        let ran = std::process::Command::new(folder.path().join("check")).status().unwrap();
        assert_eq!(ran.code(), Some(TRIAL));
    }
}
