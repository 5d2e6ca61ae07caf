//! An image as `docker load` and `podman load` take it: its layers as plain tars, and what they are called, in one tar.
//!
//! Nothing is laid over anything here; an engine does that by itself. The image has one name, made of its configuration, and
//! so has everything in it: the same image gives the same bytes whatever it comes from.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use crate::digest::Digest;
use crate::error::{Error, Reading, Result};
use crate::image::Image;
use crate::layer::{self, Flow};
use crate::progress::Progress;
use crate::reuse::Stretch;
use crate::source::{Blob, Source};

/// Of a tar.
const SECTOR: usize = 512;
/// Stretches end at sectors whose hash ends like this, one in 128: a file that grows moves all behind it by whole sectors, and
/// the cuts with them.
const CUT: u8 = 0x7f;
const LEAST: usize = 16 << 10;
const MOST: usize = 256 << 10;
/// What eleven octal digits can say.
const OCTAL: u64 = 1 << 33;

/// What an engine calls the image, once it was loaded.
pub fn engine_name(image: &Image) -> String {
    format!("localhost/yard:{}", Digest::of(&configuration(image)).hex())
}

fn configuration(image: &Image) -> Vec<u8> {
    let config = &image.config;
    let ids: Vec<&str> = config.diff_ids.iter().map(Digest::as_str).collect();
    let rootfs = json!({ "type": "layers", "diff_ids": ids });
    let (architecture, os) = (&config.architecture, &config.os);
    json!({ "architecture": architecture, "os": os, "config": config.run, "rootfs": rootfs }).to_string().into_bytes()
}

/// Writes the image into an empty file and tells its stretches.
pub(crate) fn save(
    image: &Image,
    source: &mut dyn Source,
    file: &File,
    path: &Path,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Vec<Stretch>> {
    let config = configuration(image);
    let names: Vec<String> = image.config.diff_ids.iter().map(|id| format!("{}.tar", id.hex())).collect();
    if names.len() != image.layers.len() {
        return Err(Error::malformed("a folder", "is no image of layers, which is what Docker and Podman run"));
    }
    let id = format!("{}.json", Digest::of(&config).hex());
    let list = json!([{ "Config": id, "RepoTags": [engine_name(image)], "Layers": names }]).to_string();
    let mut tar = Tar { file, path, at: 0, stretches: Vec::new() };
    // The first: whoever has only the file finds the image's name in its first bytes.
    tar.member(&id, &mut config.as_slice())?;
    let read = Arc::new(AtomicU64::new(0));
    let total = image.layers.iter().map(|layer| layer.size).sum();
    let (mut seen, mut buffers) = (BTreeSet::new(), layer::buffers());
    for (number, name) in names.iter().enumerate().rev().filter(|(_, name)| seen.insert(*name)) {
        let (layer, place) = (&image.layers[number], format!("layer {} ({name})", number + 1));
        let input: Box<dyn Read + Send> = match source.layer(number)? {
            Blob::Range(range) => Box::new(range),
            Blob::Stream(stream) => stream,
            Blob::Folder(_) => return Err(Error::malformed(place, "is a folder")),
        };
        let mut told = Told { flow: Flow::new(input, layer, &place, &read, buffers), read: &read, total, progress };
        tar.member(name, &mut told)?;
        buffers = told.flow.finish()?;
    }
    tar.member("manifest.json", &mut list.as_bytes())?;
    tar.put(&[0; 2 * SECTOR])?;
    Ok(tar.stretches)
}

/// A layer on its way; who waits for it hears of it, and may stop it.
struct Told<'a> {
    flow: Flow,
    read: &'a AtomicU64,
    total: Option<u64>,
    progress: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
}

impl Read for Told<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let done = self.read.load(Ordering::Relaxed).min(self.total.unwrap_or(u64::MAX));
        match (self.progress)(Progress { done, total: self.total }) {
            ControlFlow::Continue(()) => self.flow.read(buffer),
            ControlFlow::Break(()) => Err(Error::Cancelled.into()),
        }
    }
}

struct Tar<'a> {
    file: &'a File,
    path: &'a Path,
    at: u64,
    stretches: Vec<Stretch>,
}

impl Tar<'_> {
    /// Its length is known when it was read, so what stands before it is written last.
    fn member(&mut self, name: &str, content: &mut dyn Read) -> Result<()> {
        let start = self.at;
        self.at += SECTOR as u64;
        let mut sectors = Vec::with_capacity(MOST);
        let mut length = 0;
        loop {
            let began = sectors.len();
            let count = content.take(SECTOR as u64).read_to_end(&mut sectors).reading(|| name.to_owned())?;
            length += count as u64;
            sectors.resize(sectors.len().next_multiple_of(SECTOR), 0);
            let is_cut = || sectors.len() >= LEAST && blake3::hash(&sectors[began..]).as_bytes()[0] & CUT == 0;
            if count < SECTOR || sectors.len() >= MOST || is_cut() {
                self.stretch(&sectors)?;
                sectors.clear();
            }
            if count < SECTOR {
                break;
            }
        }
        self.write(&header(name, length), start)
    }

    fn stretch(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let hash = *blake3::hash(bytes).as_bytes();
        let length = u32::try_from(bytes.len()).unwrap_or_default();
        self.stretches.push(Stretch { plain: hash, stored: hash, offset: self.at, length, is_packed: false });
        self.put(bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.write(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<()> {
        self.file.write_all_at(bytes, at).map_err(|source| Error::Write { path: self.path.to_owned(), source })
    }
}

fn header(name: &str, length: u64) -> [u8; SECTOR] {
    let mut header = [0; SECTOR];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    if length < OCTAL {
        put(124, format!("{length:011o}\0").as_bytes());
    } else {
        // As GNU's tar and everybody after it says it.
        put(124, &[0x80, 0, 0, 0]);
        put(128, &length.to_be_bytes());
    }
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}
