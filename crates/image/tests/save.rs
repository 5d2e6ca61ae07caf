//! Images as `docker load` takes them: read back by our own reader of archives, and by `tar`.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::collections::HashSet;
use std::process::Command;

use serde_json::json;
use support::{Item, Made, file, gzip, noise, open_layout, to, zstd};
use trainyard_image::{
    Archive, Config, Converted, Error, Folder, Format, Options, Platform, Source, chunks, digest, engine_name,
};

fn options() -> Options {
    Options { format: Format::Tar, ..Options::default() }
}

fn made(changed: &str) -> Made {
    let mut base: Vec<Item> =
        (0..400).map(|n| file(format!("lib/{n:03}"), noise(n, (n as usize * 977) % 40_000))).collect();
    base.insert(50, file("lib/changed", changed));
    let mut made = Made::new(&[&base, &[file("lib/.wh.007", ""), file("top", "top")]]);
    made.run = json!({ "Env": ["A=b"], "Entrypoint": ["/bin/sh"], "WorkingDir": "/w" });
    made
}

#[test]
fn the_same_bytes_from_every_source_and_the_same_image_inside() {
    let place = tempfile::tempdir().unwrap();
    let made = made("one");
    let (output, first) = made.convert(place.path(), &options()).unwrap();
    let bytes = std::fs::read(&output).unwrap();
    for pack in [gzip, zstd] {
        let folder = tempfile::tempdir().unwrap();
        let mut layout = open_layout(&made.layout(folder.path(), pack));
        let (other, again) = to(&mut layout, folder.path(), &options()).unwrap();
        assert!(std::fs::read(other).unwrap() == bytes && again.digest == first.digest);
    }
    assert_eq!(digest(&chunks(&output).unwrap()), first.digest);

    let mut read = Archive::open(&output, None, Platform::here()).unwrap();
    let image = read.image().unwrap();
    let original = Archive::open(place.path().join("made.tar"), None, Platform::here()).unwrap().image().unwrap();
    assert_eq!(image.config, original.config);
    let name = engine_name(&image);
    assert!(bytes.starts_with(name.strip_prefix("localhost/yard:").unwrap().as_bytes()), "{name}");
    let sif = |source: &mut dyn Source| to(source, place.path(), &Options::default()).unwrap().1.digest;
    assert_eq!(sif(&mut read), made.convert(place.path(), &Options::default()).unwrap().1.digest);
    let listed = Command::new("tar").arg("-tf").arg(&output).output().unwrap();
    assert!(listed.status.success(), "{listed:?}");
    assert_eq!(String::from_utf8_lossy(&listed.stdout).lines().count(), 4, "two layers, two descriptions");
}

#[test]
fn a_file_that_grows_moves_the_rest_and_changes_little() {
    let place = tempfile::tempdir().unwrap();
    let convert = |text: &str| -> Converted { made(text).convert(place.path(), &options()).unwrap().1 };
    let (old, new) = (convert("one"), convert(&"two".repeat(700)));
    let had: HashSet<[u8; 32]> = old.chunks.iter().map(|chunk| chunk.hash).collect();
    let missing: u64 =
        new.chunks.iter().filter(|chunk| !had.contains(&chunk.hash)).map(|chunk| u64::from(chunk.length)).sum();
    assert!(missing > 0 && missing < new.size / 10, "{missing} of {}", new.size);
}

#[test]
fn what_is_no_image_of_layers_is_refused_and_damage_is_seen() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("x"), "x").unwrap();
    let config = Config { architecture: "amd64".to_owned(), ..Config::default() };
    let outputs = tempfile::tempdir().unwrap();
    let refused = to(&mut Folder::new(place.path(), config), outputs.path(), &options());
    assert!(matches!(refused, Err(Error::Malformed { .. })), "{refused:?}");
    let archive = made("one").archive(place.path());
    let mut bytes = std::fs::read(&archive).unwrap();
    let at = bytes.windows(3).position(|three| three == b"one").unwrap();
    bytes[at] = b'x';
    std::fs::write(&archive, bytes).unwrap();
    let mut source = Archive::open(&archive, None, Platform::here()).unwrap();
    let damaged = to(&mut source, outputs.path(), &options());
    assert!(matches!(damaged, Err(Error::Digest { .. })), "{damaged:?}");
    assert_eq!(std::fs::read_dir(outputs.path()).unwrap().count(), 0);
}
