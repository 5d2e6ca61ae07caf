//! Images made by hand, and a look into the outputs.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(dead_code, unreachable_pub, reason = "each test file uses another part")]

pub mod engine;
pub mod look;
pub mod registry;

use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use trainyard_image::{Archive, Converted, Digest, Layout, Options, Platform, Result, Source, convert};

pub const FILE: u8 = b'0';
pub const HARDLINK: u8 = b'1';
pub const SYMLINK: u8 = b'2';
pub const CHAR: u8 = b'3';
pub const BLOCK: u8 = b'4';
pub const FOLDER: u8 = b'5';
pub const FIFO: u8 = b'6';

/// An entry of a tar, with attributes nobody need mention.
#[derive(Clone)]
pub struct Item {
    pub name: Vec<u8>,
    pub kind: u8,
    pub mode: u32,
    pub owner: (u32, u32),
    pub mtime: u64,
    pub link: Vec<u8>,
    pub device: (u32, u32),
    pub content: Vec<u8>,
    /// In the header, where it is not the content's.
    pub size: Option<u64>,
    pub pax: Vec<(String, Vec<u8>)>,
}

pub fn item(kind: u8, name: impl AsRef<[u8]>) -> Item {
    let mode = if kind == FOLDER { 0o755 } else { 0o644 };
    let (name, link, content, pax) = (name.as_ref().to_vec(), Vec::new(), Vec::new(), Vec::new());
    Item { name, kind, mode, owner: (0, 0), mtime: 1_600_000_000, link, device: (0, 0), content, size: None, pax }
}

pub fn file(name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Item {
    Item { content: content.as_ref().to_vec(), ..item(FILE, name) }
}

pub fn folder(name: impl AsRef<[u8]>) -> Item {
    item(FOLDER, name)
}

pub fn symlink(name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Item {
    Item { link: target.as_ref().to_vec(), ..item(SYMLINK, name) }
}

pub fn hardlink(name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Item {
    Item { link: target.as_ref().to_vec(), ..item(HARDLINK, name) }
}

impl Item {
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    pub fn owner(mut self, uid: u32, gid: u32) -> Self {
        self.owner = (uid, gid);
        self
    }

    pub fn pax(mut self, key: &str, value: impl AsRef<[u8]>) -> Self {
        self.pax.push((key.to_owned(), value.as_ref().to_vec()));
        self
    }

    pub fn xattr(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.pax(&format!("SCHILY.xattr.{name}"), value)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut pax = self.pax.clone();
        if self.name.len() > 100 {
            pax.push(("path".to_owned(), self.name.clone()));
        }
        if self.link.len() > 100 {
            pax.push(("linkpath".to_owned(), self.link.clone()));
        }
        let mut bytes = Vec::new();
        if !pax.is_empty() {
            let records: Vec<u8> = pax.iter().flat_map(|(key, value)| record(key, value)).collect();
            bytes.extend(Self { content: records, ..item(b'x', "pax") }.plain());
        }
        bytes.extend(self.plain());
        bytes
    }

    fn plain(&self) -> Vec<u8> {
        let size = self.size.unwrap_or(self.content.len() as u64);
        let mut header = vec![0; 512];
        let mut put = |at: usize, bytes: &[u8], most: usize| {
            let count = bytes.len().min(most);
            header[at..at + count].copy_from_slice(&bytes[..count]);
        };
        put(0, &self.name, 100);
        put(100, format!("{:07o}", self.mode).as_bytes(), 8);
        put(108, format!("{:07o}", self.owner.0).as_bytes(), 8);
        put(116, format!("{:07o}", self.owner.1).as_bytes(), 8);
        put(124, format!("{size:011o}").as_bytes(), 12);
        put(136, format!("{:011o}", self.mtime).as_bytes(), 12);
        put(148, b"        ", 8);
        put(156, &[self.kind], 1);
        put(157, &self.link, 100);
        put(257, b"ustar\x0000", 8);
        put(329, format!("{:07o}", self.device.0).as_bytes(), 8);
        put(337, format!("{:07o}", self.device.1).as_bytes(), 8);
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        header.extend(&self.content);
        header.resize(header.len().next_multiple_of(512), 0);
        header
    }
}

fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    [format!("{length} {key}=").as_bytes(), value, b"\n"].concat()
}

pub fn tar(items: &[Item]) -> Vec<u8> {
    let mut bytes: Vec<u8> = items.iter().flat_map(Item::bytes).collect();
    bytes.extend([0; 1024]);
    bytes
}

/// An image as a test describes it.
pub struct Made {
    pub layers: Vec<Vec<u8>>,
    pub run: Value,
}

impl Made {
    pub fn new(layers: &[&[Item]]) -> Self {
        Self { layers: layers.iter().map(|items| tar(items)).collect(), run: json!({}) }
    }

    pub fn config(&self) -> Vec<u8> {
        let ids: Vec<String> = self.layers.iter().map(|layer| Digest::of(layer).to_string()).collect();
        let rootfs = json!({ "type": "layers", "diff_ids": ids });
        let config = json!({ "architecture": "amd64", "os": "linux", "config": self.run, "rootfs": rootfs });
        config.to_string().into_bytes()
    }

    /// As `docker save` of the old store writes it.
    pub fn archive(&self, folder: &Path) -> PathBuf {
        let config = self.config();
        let config_name = format!("{}.json", Digest::of(&config).hex());
        let names: Vec<String> = (0..self.layers.len()).map(|layer| format!("{layer}/layer.tar")).collect();
        let manifest = json!([{ "Config": config_name, "RepoTags": ["made:latest"], "Layers": names }]);
        let mut members: Vec<Item> = names.iter().zip(&self.layers).map(|(name, layer)| file(name, layer)).collect();
        members.push(file(&config_name, &config));
        members.push(file("manifest.json", manifest.to_string()));
        write(folder, "made.tar", &tar(&members))
    }

    /// Blobs of a layout, by their names in it.
    pub fn blobs(&self, pack: fn(&[u8]) -> Vec<u8>) -> Vec<(String, Vec<u8>)> {
        let config = self.config();
        let layers: Vec<Vec<u8>> = self.layers.iter().map(|layer| pack(layer)).collect();
        let about = |kind: &str, bytes: &[u8]| json!({ "mediaType": kind, "digest": Digest::of(bytes).as_str(), "size": bytes.len() });
        let layer_kind = "application/vnd.oci.image.layer.v1.tar+gzip";
        let manifest = json!({
            "schemaVersion": 2,
            "config": about("application/vnd.oci.image.config.v1+json", &config),
            "layers": layers.iter().map(|layer| about(layer_kind, layer)).collect::<Vec<_>>(),
        });
        let manifest = manifest.to_string().into_bytes();
        let mut entry = about("application/vnd.oci.image.manifest.v1+json", &manifest);
        entry["platform"] = json!({ "architecture": Platform::here().architecture, "os": "linux" });
        let index = json!({ "schemaVersion": 2, "manifests": [entry] });
        let mut blobs = vec![
            ("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
            ("index.json".to_owned(), index.to_string().into_bytes()),
        ];
        for bytes in layers.into_iter().chain([config, manifest]) {
            blobs.push((format!("blobs/sha256/{}", Digest::of(&bytes).hex()), bytes));
        }
        blobs
    }

    pub fn layout(&self, folder: &Path, pack: fn(&[u8]) -> Vec<u8>) -> PathBuf {
        let place = folder.join(format!("layout-{}", std::fs::read_dir(folder).unwrap().count()));
        std::fs::create_dir_all(place.join("blobs/sha256")).unwrap();
        for (name, bytes) in self.blobs(pack) {
            std::fs::write(place.join(name), bytes).unwrap();
        }
        place
    }

    /// As the containerd store saves it: a layout in a tar, here with `./` before the names.
    pub fn packed_layout(&self, folder: &Path, pack: fn(&[u8]) -> Vec<u8>) -> PathBuf {
        let members: Vec<Item> =
            self.blobs(pack).iter().map(|(name, bytes)| file(format!("./{name}"), bytes)).collect();
        write(folder, "layout.tar", &tar(&members))
    }

    pub fn convert(&self, folder: &Path, options: &Options) -> Result<(PathBuf, Converted)> {
        let mut source = Archive::open(self.archive(folder), None, Platform::here())?;
        to(&mut source, folder, options)
    }
}

pub fn to(source: &mut dyn Source, folder: &Path, options: &Options) -> Result<(PathBuf, Converted)> {
    let extension = serde_json::to_value(options.format).unwrap();
    let output =
        folder.join(format!("out-{}.{}", std::fs::read_dir(folder).unwrap().count(), extension.as_str().unwrap()));
    let converted = convert(source, options, &output, &mut |_| ControlFlow::Continue(()))?;
    Ok((output, converted))
}

pub fn open_layout(path: &Path) -> Layout {
    Layout::new(path, None, Platform::here())
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    ::zstd::encode_all(bytes, 1).unwrap()
}

pub fn plain(bytes: &[u8]) -> Vec<u8> {
    bytes.to_vec()
}

pub fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Bytes that do not compress, the same for the same seed.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}
