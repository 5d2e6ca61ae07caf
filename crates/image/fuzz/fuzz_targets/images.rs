//! Images that libFuzzer makes, led by which code they reach. Each input is one part of an archive; what is around it is made here,
//! with right digests and checksums, since nobody guesses those:
//!
//! - the first letter says which part it is: `t` the whole tar, `m` the manifest of `docker save`, `c` the configuration, `i` the index of
//!   an OCI layout, `o` its manifest, `s` a layer as it is stored, anything else the entries of layers (see [`Entry`]);
//! - the second says how: which format comes out, which kind of archive, and how layers are compressed;
//! - in texts, `$0` to `$2` are the digests of the layers, `$c` of the configuration, `$m` of the manifest, and `#` before the same
//!   letters is their size.
//!
//! Nothing may panic, and nothing but the output and its index may appear, and they only for an image that is whole.
#![no_main]

mod entry;

use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use trainyard_image::{Archive, Codec, Digest, Error, Format, Options, Platform, chunks, convert, index_path};

use entry::{layers, member, signed};

/// In memory, one for each process.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = PathBuf::from(format!("/dev/shm/fuzz-images-{}", std::process::id()));
    fs::create_dir_all(folder.join("out")).expect("memory");
    folder
});

const MANIFEST: &str = r#"[{"Config":"c.json","RepoTags":["x:y"],"Layers":["0","1","2"]}]"#;
const CONFIG: &str = r#"{"architecture":"amd64","os":"linux","config":{"Env":["A=b"],"Entrypoint":["/a"]},
    "rootfs":{"type":"layers","diff_ids":["$0","$1","$2"]}}"#;
const INDEX: &str = r##"{"manifests":[{"digest":"$m","size":#m,"platform":{"architecture":"amd64","os":"linux"}}]}"##;
const LAYOUT: &str = r##"{"schemaVersion":2,"config":{"digest":"$c","size":#c},
    "layers":[{"digest":"$0","size":#0},{"digest":"$1","size":#1},{"digest":"$2","size":#2}]}"##;

fuzz_target!(|data: &[u8]| {
    let [part, how, rest @ ..] = data else { return };
    let tar = if *part == b't' { signed(rest.to_vec()) } else { archive(*part, *how, rest) };
    let codec = if how & 8 == 0 { Codec::None } else { Codec::Zstd };
    let format = if how & 16 == 0 { Format::Sif } else { Format::Sqsh };
    check(&tar, &Options { format, codec, threads: 1, reuse: Vec::new(), most_bytes: 4 << 20 });
});

/// A blob, and what texts call it.
struct Blob {
    letter: char,
    bytes: Vec<u8>,
    digest: Digest,
}

impl Blob {
    fn new(letter: char, bytes: Vec<u8>) -> Self {
        let digest = Digest::of(&bytes);
        Self { letter, bytes, digest }
    }
}

fn archive(part: u8, how: u8, rest: &[u8]) -> Vec<u8> {
    let mut plain = if matches!(part, b'm' | b'c' | b'i' | b'o' | b's') { vec![Vec::new(); 3] } else { layers(rest) };
    plain.resize(3, Vec::new());
    let plain: Vec<Blob> = plain.into_iter().zip("012".chars()).map(|(bytes, name)| Blob::new(name, bytes)).collect();
    let mut blobs: Vec<Blob> = plain.iter().map(|blob| Blob::new(blob.letter, packed(how, &blob.bytes))).collect();
    if part == b's' {
        blobs[0] = Blob::new('0', rest.to_vec());
    }
    let text = |letter: u8, usual: &str, blobs: &[Blob]| {
        let text = if part == letter { rest } else { usual.as_bytes() };
        named(text, blobs)
    };
    blobs.push(Blob::new('c', text(b'c', CONFIG, &plain)));
    let mut tar = Vec::new();
    let is_layout = part == b'i' || part == b'o' || (part != b'm' && how & 4 != 0);
    if is_layout {
        blobs.push(Blob::new('m', text(b'o', LAYOUT, &blobs)));
        for blob in &blobs {
            member(&mut tar, format!("blobs/sha256/{}", blob.digest.hex()).as_bytes(), &blob.bytes);
        }
        member(&mut tar, b"index.json", &text(b'i', INDEX, &blobs));
    } else {
        for (name, blob) in ["0", "1", "2", "c.json"].into_iter().zip(&blobs) {
            member(&mut tar, name.as_bytes(), &blob.bytes);
        }
        member(&mut tar, b"manifest.json", &text(b'm', MANIFEST, &blobs));
    }
    tar.extend([0; 1024]);
    tar
}

fn packed(how: u8, layer: &[u8]) -> Vec<u8> {
    match how & 3 {
        1 => {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(layer).and_then(|()| gzip.finish()).expect("memory")
        }
        2 => zstd::encode_all(layer, 1).expect("memory"),
        _ => layer.to_vec(),
    }
}

/// The text with digests and sizes in the place of their names.
fn named(text: &[u8], blobs: &[Blob]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let blob = after.first().and_then(|letter| blobs.iter().find(|blob| blob.letter == char::from(*letter)));
        rest = match (first, blob) {
            (b'$', Some(blob)) => {
                out.extend(blob.digest.as_str().as_bytes());
                &after[1..]
            }
            (b'#', Some(blob)) => {
                out.extend(blob.bytes.len().to_string().as_bytes());
                &after[1..]
            }
            _ => {
                out.push(*first);
                after
            }
        };
    }
    out
}

fn check(tar: &[u8], options: &Options) {
    let (input, output) = (FOLDER.join("in.tar"), FOLDER.join("out/image"));
    fs::write(&input, tar).expect("memory");
    let source = Archive::open(&input, None, Platform::here());
    let made = source.and_then(|mut source| convert(&mut source, options, &output, &mut |_| ControlFlow::Continue(())));
    match made {
        Ok(made) => {
            assert_eq!(chunks(&output).expect("its index"), made.chunks);
            fs::remove_file(&output).and_then(|()| fs::remove_file(index_path(&output))).expect("both");
        }
        // Nobody has cancelled: then somebody has lost the reason.
        Err(error) => assert!(!matches!(error, Error::Cancelled), "{error}"),
    }
    assert_eq!(names(&FOLDER.join("out")), [""; 0]);
    assert_eq!(names(&FOLDER), ["in.tar", "out"]);
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("memory").map(|entry| entry.expect("memory").file_name());
    let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}
