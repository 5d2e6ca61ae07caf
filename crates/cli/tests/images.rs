//! Images are made on this machine: what is left when that is broken off.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;
use std::process::{Child, Stdio};

use trainyard_testkit::{Yard, eventually, processes};

const FILES: u64 = 64;

/// Enough that a conversion can be met in its midst, and that no codec makes less of.
fn lay_out(yard: &Yard) {
    let root = yard.root().join("root");
    std::fs::create_dir(&root).unwrap();
    let mut word = 1u64;
    for number in 0..FILES {
        let next = std::iter::repeat_with(|| {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            word.to_le_bytes()
        });
        let noise: Vec<u8> = next.take(1 << 19).flatten().collect();
        std::fs::write(root.join(number.to_string()), noise).unwrap();
    }
}

fn kept(yard: &Yard) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(yard.home().join("images")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// A conversion that has begun to write.
fn begun(yard: &Yard) -> Child {
    let mut child = yard.command(&["image", "build"]).stderr(Stdio::piped()).spawn().unwrap();
    eventually("something to be written", || {
        let files = kept(yard).into_iter().filter_map(|path| std::fs::read_dir(path).ok()).flatten().flatten();
        let written = files.filter_map(|file| file.metadata().ok()).any(|data| data.len() > 8 << 20);
        assert!(child.try_wait().unwrap().is_none(), "it was quicker than we");
        written.then_some(())
    });
    child
}

#[test]
fn a_conversion_that_is_broken_off_leaves_nothing_or_what_the_next_removes() {
    let yard = Yard::new(env!("CARGO_BIN_EXE_yard"), "[image]\nfolder = '../root'\n[jobs.train]\ncommand = ['true']\n");
    lay_out(&yard);
    let child = begun(&yard);
    processes::interrupt(child.id());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    assert!(String::from_utf8(ended.stderr).unwrap().contains("interrupted"));
    assert_eq!(kept(&yard), Vec::<PathBuf>::new());

    let mut child = begun(&yard);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(kept(&yard).len(), 1);
    for number in 1..FILES {
        std::fs::remove_file(yard.root().join("root").join(number.to_string())).unwrap();
    }
    let made = yard.json(&["image", "build"]);
    let path = PathBuf::from(made["path"].as_str().unwrap());
    let stem = path.file_stem().unwrap().to_str().unwrap();
    let left = kept(&yard);
    assert!(left.len() == 3 && left.iter().all(|path| path.file_name().unwrap().to_str().unwrap().starts_with(stem)));
}
