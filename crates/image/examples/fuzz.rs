//! Throws damaged archives at the readers: `fuzz SECONDS [SEED]`. They are those of `docker save` and packed OCI layouts, with
//! layers as they are or compressed. A panic, or anything but the output in its folder, ends it with a failure; what it was
//! given then lies in `fuzz-failure.tar`.

#![expect(clippy::print_stdout, reason = "a program to be read by people")]

use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use trainyard_image::{Archive, Digest, Format, Options, Platform, convert};

/// A small generator with a seed, so that a failure can be had again.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap_or_default()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let seconds: u64 = words.next().ok_or("how many seconds?")?.parse()?;
    let mut chance = Chance(words.next().map_or(Ok(1), |seed| seed.parse())?);
    // Also on other threads than this one.
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        told(panic);
        std::process::abort();
    }));
    let folder = std::env::temp_dir().join(format!("image-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut options = Options { threads: 1, most_bytes: 64 << 20, ..Options::default() };
    let (mut tried, mut whole, mut slowest) = (0u64, 0u64, Duration::ZERO);
    while Instant::now() < until {
        let input = archive(&mut chance);
        std::fs::write("fuzz-failure.tar", &input)?;
        options.format = if chance.below(4) == 0 { Format::Sqsh } else { Format::Sif };
        let began = Instant::now();
        tried += 1;
        whole += u64::from(attempt(&folder, &options));
        slowest = slowest.max(began.elapsed());
        let left = std::fs::read_dir(&folder)?.count();
        if left != 0 {
            return Err(format!("{left} files were left").into());
        }
    }
    std::fs::remove_file("fuzz-failure.tar")?;
    std::fs::remove_dir(&folder)?;
    println!("{tried} archives, {whole} of them images; the slowest took {slowest:?}");
    // For whoever looks at the exit code alone: nothing was tried, or nothing ever got through.
    if whole == 0 { Err(format!("none of {tried} archives was an image").into()) } else { Ok(()) }
}

/// Whether it became an image.
fn attempt(folder: &Path, options: &Options) -> bool {
    let output = folder.join("out.sif");
    let source = Archive::open("fuzz-failure.tar", None, Platform::here());
    let converted =
        source.and_then(|mut source| convert(&mut source, options, &output, &mut |_| ControlFlow::Continue(())));
    if converted.is_ok() {
        let gone =
            std::fs::remove_file(&output).and_then(|()| std::fs::remove_file(trainyard_image::index_path(&output)));
        return gone.is_ok();
    }
    false
}

/// An archive with damage in one of its parts; the digests around it are right, so that it is looked into.
fn archive(chance: &mut Chance) -> Vec<u8> {
    let what = chance.below(6);
    let count = 1 + chance.below(3);
    let mut layers: Vec<Vec<u8>> = (0..count).map(|_| layer(chance)).collect();
    let at = chance.below(count);
    if what == 0 {
        damage(chance, &mut layers[at]);
    }
    let ids: Vec<String> = layers.iter().map(|layer| format!("\"{}\"", Digest::of(layer))).collect();
    let mut layers: Vec<Vec<u8>> = layers.into_iter().map(|layer| packed(chance, layer)).collect();
    if what == 1 {
        damage(chance, &mut layers[at]);
    }
    let env = r#""Env":["A=b","PATH=/bin"],"Entrypoint":["/bin/sh"],"Cmd":null,"Labels":{"a":"b"},"Volumes":{"/x":{}}"#;
    let config = format!(
        r#"{{"architecture":"amd64","os":"linux","config":{{{env}}},"rootfs":{{"type":"layers","diff_ids":[{}]}}}}"#,
        ids.join(",")
    );
    let mut config = config.into_bytes();
    if what == 2 {
        damage(chance, &mut config);
    }
    let mut tar = if chance.below(2) == 0 { saved(chance, &layers, &config) } else { layout(chance, &layers, &config) };
    tar.extend([0; 1024]);
    if what == 3 && chance.below(4) == 0 {
        damage(chance, &mut tar);
    }
    tar
}

/// As `docker save` writes it.
fn saved(chance: &mut Chance, layers: &[Vec<u8>], config: &[u8]) -> Vec<u8> {
    let names: Vec<String> = (0..layers.len()).map(|layer| format!("\"{layer}\"")).collect();
    let manifest = format!(r#"[{{"Config":"config.json","RepoTags":["x:y"],"Layers":[{}]}}]"#, names.join(","));
    let mut manifest = manifest.into_bytes();
    if chance.below(4) == 0 {
        damage(chance, &mut manifest);
    }
    let mut tar = Vec::new();
    for (number, layer) in layers.iter().enumerate() {
        member(&mut tar, number.to_string().as_bytes(), b'0', b"", layer);
    }
    member(&mut tar, b"config.json", b'0', b"", config);
    member(&mut tar, b"manifest.json", b'0', b"", &manifest);
    tar
}

/// As OCI has it: an index, a manifest, and blobs by their digests.
fn layout(chance: &mut Chance, layers: &[Vec<u8>], config: &[u8]) -> Vec<u8> {
    let mut tar = Vec::new();
    let mut blob = |kind: &str, content: &[u8]| {
        let digest = Digest::of(content);
        member(&mut tar, format!("blobs/sha256/{}", digest.hex()).as_bytes(), b'0', b"", content);
        format!(
            r#"{{"mediaType":"application/vnd.oci.image.{kind}","digest":"{digest}","size":{},"platform":{{"architecture":"amd64","os":"linux"}}}}"#,
            content.len()
        )
    };
    let layers: Vec<String> = layers.iter().map(|layer| blob("layer.v1.tar", layer)).collect();
    let config = blob("config.v1+json", config);
    let manifest = format!(r#"{{"schemaVersion":2,"config":{config},"layers":[{}]}}"#, layers.join(","));
    let mut manifest = manifest.into_bytes();
    if chance.below(6) == 0 {
        damage(chance, &mut manifest);
    }
    let mut index = format!(r#"{{"manifests":[{}]}}"#, blob("manifest.v1+json", &manifest)).into_bytes();
    if chance.below(6) == 0 {
        damage(chance, &mut index);
    }
    member(&mut tar, b"index.json", b'0', b"", &index);
    tar
}

/// As it is, or compressed.
fn packed(chance: &mut Chance, layer: Vec<u8>) -> Vec<u8> {
    match chance.below(4) {
        0 => {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(&layer).and_then(|()| gzip.finish()).unwrap_or(layer)
        }
        1 => zstd::encode_all(layer.as_slice(), 1).unwrap_or(layer),
        _ => layer,
    }
}

/// Those that are refused come last.
const NAMES: [&str; 16] = [
    "a",
    "a/b",
    "a/b/c",
    "b",
    "./c",
    "/d",
    ".wh.a",
    "a/.wh..wh..opq",
    "a/.wh.b",
    "link/x",
    "link",
    "b/",
    ".wh..wh.x",
    "a/../b",
    "..",
    "",
];
const FINE: usize = 13;

/// Mostly a fine one, so that most layers are read to their end.
fn name(chance: &mut Chance) -> &'static str {
    let among = if chance.below(20) == 0 { NAMES.len() } else { FINE };
    NAMES[chance.below(among)]
}

fn layer(chance: &mut Chance) -> Vec<u8> {
    let mut tar = Vec::new();
    for _ in 0..chance.below(12) {
        let (name, link) = (name(chance), name(chance));
        let kind = b"000000000000555552222213467LKSxg"[chance.below(32)];
        let content = match kind {
            b'x' | b'g' => pax(chance),
            b'L' | b'K' => link.as_bytes().to_vec(),
            _ => vec![u8::try_from(chance.below(256)).unwrap_or_default(); chance.below(3) * 77_777],
        };
        let content = if matches!(kind, b'1'..=b'6') { Vec::new() } else { content };
        let began = tar.len();
        member(&mut tar, name.as_bytes(), kind, link.as_bytes(), &content);
        if chance.below(24) == 0 {
            twist(chance, &mut tar[began..began + 512]);
        }
    }
    tar.extend([0; 1024]);
    if chance.below(16) == 0 {
        tar.truncate(chance.below(tar.len()));
    }
    tar
}

fn pax(chance: &mut Chance) -> Vec<u8> {
    let keys = [
        "path",
        "linkpath",
        "size",
        "uid",
        "mtime",
        "SCHILY.xattr.user.a",
        "GNU.sparse.major",
        "GNU.sparse.realsize",
        "GNU.sparse.map",
        "GNU.sparse.size",
        "GNU.sparse.name",
    ];
    let values = ["a", "1", "0", "5,3", "0,5,10,5", "99999999999999", "18446744073709551615", "1.5", "-3", "", "../x"];
    let mut bytes = Vec::new();
    for _ in 0..1 + chance.below(4) {
        let (key, value) = (keys[chance.below(keys.len())], values[chance.below(values.len())]);
        let rest = key.len() + value.len() + 3;
        let length = if rest + 1 < 10 { rest + 1 } else { rest + 2 };
        bytes.extend(format!("{length} {key}={value}\n").as_bytes());
    }
    bytes
}

fn member(tar: &mut Vec<u8>, name: &[u8], kind: u8, link: &[u8], content: &[u8]) {
    let mut header = [0; 512];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name);
    put(100, b"0000755\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{:011o}", content.len()).as_bytes());
    put(136, b"00000000000");
    put(156, &[kind]);
    put(157, link);
    put(257, b"ustar\x0000");
    sign(&mut header);
    tar.extend(header);
    tar.extend(content);
    tar.resize(tar.len().next_multiple_of(512), 0);
}

/// A header with odd fields and a right checksum.
fn twist(chance: &mut Chance, header: &mut [u8]) {
    for _ in 0..1 + chance.below(8) {
        let at = chance.below(512);
        header[at] = if chance.below(2) == 0 { b'7' } else { u8::try_from(chance.below(256)).unwrap_or_default() };
    }
    sign(header);
}

fn sign(header: &mut [u8]) {
    header[148..156].copy_from_slice(b"        ");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
}

/// Bytes become others, are cut out, doubled, or replaced by numbers at the edge.
fn damage(chance: &mut Chance, bytes: &mut Vec<u8>) {
    for _ in 0..1 + chance.below(6) {
        if bytes.is_empty() {
            return;
        }
        let at = chance.below(bytes.len());
        match chance.below(5) {
            0 => bytes[at] ^= 1 << chance.below(8),
            1 => bytes[at] = u8::try_from(chance.below(256)).unwrap_or_default(),
            2 => drop(bytes.drain(at..(at + chance.below(600)).min(bytes.len()))),
            3 => {
                let end = (at + chance.below(600)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            _ => {
                let edge: &[u8] = [
                    &b"77777777777"[..],
                    b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                    b"-1",
                    b"99999999999999999999",
                    b"null",
                ][chance.below(5)];
                let end = (at + edge.len()).min(bytes.len());
                bytes[at..end].copy_from_slice(&edge[..end - at]);
            }
        }
    }
}
