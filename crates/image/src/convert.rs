//! From a source to a finished file.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::NamedTempFile;

use crate::chunk::{self, Chunk};
use crate::dress::{apptainer, enroot};
use crate::error::{Error, Result};
use crate::fingerprint::Prints;
use crate::flatten::{Flattener, Found};
use crate::image::Image;
use crate::progress::Progress;
use crate::reuse::{Index, Reuse, Stretch, index_path};
use crate::save::save;
use crate::sif;
use crate::source::Source;
use crate::squashfs::{Codec, ContentId, Contents, Written, write_tables};
use crate::tree::{Body, NodeId, Tree};

/// What the output is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Apptainer and singularity.
    #[default]
    Sif,
    /// Enroot, and pyxis through it.
    Sqsh,
    /// `docker load` and `podman load`. Nothing is compressed in it.
    Tar,
}

#[derive(Debug, Clone)]
pub struct Options {
    pub format: Format,
    pub codec: Codec,
    /// That compress; one more reads and one more writes.
    pub threads: usize,
    /// Earlier outputs whose blocks are taken where they fit. Whether there are any makes no difference to the output.
    pub reuse: Vec<PathBuf>,
    /// What all files of all layers may have together, hidden ones included.
    pub most_bytes: u64,
}

/// One thread reads and checks a layer, and has no work for more; and each has its share of the memory.
const MOST_THREADS: usize = 32;

impl Default for Options {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
        let (format, codec) = (Format::default(), Codec::default());
        Self { format, codec, threads, reuse: Vec::new(), most_bytes: 4 << 40 }
    }
}

/// A finished output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// By contents: [`crate::digest`] of the chunks.
    pub digest: String,
    pub size: u64,
    pub files: u64,
    /// Of all files, before compression; each one counted once.
    pub bytes: u64,
    /// Compressed blocks in the output, and how many of them were taken from earlier outputs.
    pub blocks: u64,
    pub reused: u64,
    pub chunks: Vec<Chunk>,
}

/// Increased whenever the same image becomes other bytes, or its index has another form.
const VERSION: u32 = 2;

impl Options {
    /// Names the output before it is made: the same image converted in the same way. Nothing for a plain folder, which nobody has
    /// given a name.
    pub fn key(&self, image: &Image) -> Option<String> {
        let mut hasher = blake3::Hasher::new();
        let config = serde_json::to_vec(&image.config.run).ok()?;
        hasher.update(
            format!("{VERSION} {:?} {} {} ", self.format, self.codec.word(), image.config.architecture).as_bytes(),
        );
        hasher.update(&(config.len() as u64).to_le_bytes());
        hasher.update(&config);
        for layer in &image.layers {
            hasher.update(layer.diff_id.as_ref()?.as_str().as_bytes());
        }
        Some(hasher.finalize().to_hex().to_string())
    }
}

/// Converts an image. The output appears under its name when it is complete, with its index beside it; a failure leaves
/// nothing.
pub fn convert(
    source: &mut dyn Source,
    options: &Options,
    output: &Path,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Converted> {
    let image = source.image()?;
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = tempfile::Builder::new().prefix(".yard-image-").tempfile_in(folder);
    let temporary = temporary.map_err(|error| failed(output, error))?;
    let job = Job { image: &image, options, output, progress };
    if options.format == Format::Tar { job.save(source, temporary) } else { job.run(source, temporary) }
}

struct Job<'a> {
    image: &'a Image,
    options: &'a Options,
    output: &'a Path,
    progress: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
}

impl Job<'_> {
    fn save(self, source: &mut dyn Source, temporary: NamedTempFile) -> Result<Converted> {
        let failed = |error| failed(self.output, error);
        let file = temporary.reopen().map_err(failed)?;
        let stretches = save(self.image, source, &file, self.output, self.progress)?;
        let (files, bytes) = (self.image.layers.len() as u64, stretches.iter().map(|one| u64::from(one.length)).sum());
        let prints = Prints::new().map_err(failed)?;
        let published = Published { path: self.output, codec: Codec::None, prints, file: &file, stretches: &stretches };
        let made = published.publish(temporary).map_err(failed)?;
        Ok(Converted { files, bytes, ..made })
    }

    fn run(self, source: &mut dyn Source, temporary: NamedTempFile) -> Result<Converted> {
        let Self { image, options, .. } = self;
        let base = if options.format == Format::Sif { sif::PARTITION } else { 0 };
        let file = temporary.reopen().map_err(|error| failed(self.output, error))?;
        let reuse = Reuse::new(&options.reuse, &options.codec.word()).map_err(|error| failed(self.output, error))?;
        let reuse = Arc::new(reuse);
        let mut contents = Contents::new(file, base, options.codec, options.threads.max(1), &reuse);
        let about = about(image);
        let dress = |tree: &mut Tree| match options.format {
            Format::Sif => apptainer::dress(tree, &image.config, &about),
            Format::Sqsh | Format::Tar => enroot::dress(tree, &image.config, &about),
        };
        let flat = Flattener::new(image, options.most_bytes, self.progress).run(source, &mut contents, &dress);
        let written = contents.finish().map_err(|error| failed(self.output, error))?;
        let (tree, found) = flat?;
        let prints = *reuse.prints();
        let output = Output { image, options, path: self.output, tree: &tree, written: &written, prints, base };
        output.finish(&found, &about, temporary)
    }
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::Write { path: path.to_owned(), source }
}

/// An output whose contents are written.
struct Output<'a> {
    image: &'a Image,
    options: &'a Options,
    path: &'a Path,
    tree: &'a Tree,
    written: &'a Written,
    prints: Prints,
    base: u64,
}

impl Output<'_> {
    fn finish(&self, found: &Found, about: &str, temporary: NamedTempFile) -> Result<Converted> {
        let content = |id: NodeId| match &self.tree.node(id).body {
            Body::File { origin, .. } => found.get(*origin).unwrap_or(ContentId::Empty),
            _ => ContentId::Empty,
        };
        let failed = |error: io::Error| failed(self.path, error);
        let size = write_tables(self.tree, self.written, self.base, self.options.codec, &content)?.map_err(failed)?;
        if self.options.format == Format::Sif {
            self.written.file.write_all_at(&self.sif_head(about, size), 0).map_err(failed)?;
        }
        let Written { file, stretches, reused, .. } = self.written;
        let (codec, prints) = (self.options.codec, self.prints);
        let published = Published { path: self.path, codec, prints, file, stretches };
        let made = published.publish(temporary).map_err(failed)?;
        let (files, bytes) = self.tree.files();
        Ok(Converted { files, bytes, reused: *reused, ..made })
    }

    fn sif_head(&self, about: &str, size: u64) -> Vec<u8> {
        let config = &self.image.config;
        let mut identity = blake3::Hasher::new();
        for stretch in &self.written.stretches {
            identity.update(&stretch.stored);
        }
        let identity = identity.finalize();
        sif::head(&apptainer::objects(config, about), &config.architecture, identity.as_bytes(), size)
    }
}

/// An output that is whole but for its name.
struct Published<'a> {
    path: &'a Path,
    codec: Codec,
    prints: Prints,
    file: &'a File,
    stretches: &'a [Stretch],
}

impl Published<'_> {
    /// The index first: an image without one is an image, an index without its image is nothing.
    fn publish(&self, temporary: NamedTempFile) -> io::Result<Converted> {
        let file = self.file;
        file.sync_data()?;
        let (codec, prints) = (self.codec.word(), self.prints);
        let index = Index { codec, prints, stretches: self.stretches.to_vec() };
        let folder = temporary.path().parent().unwrap_or(Path::new("."));
        let beside = tempfile::Builder::new().prefix(".yard-image-").tempfile_in(folder)?;
        beside.as_file().write_all_at(&index.encode(), 0)?;
        let chunks = chunk::of(file, &index)?;
        readable(&temporary)?;
        let size = file.metadata()?.len();
        beside.persist(index_path(self.path))?;
        temporary.persist(self.path)?;
        let blocks = index.stretches.len() as u64;
        Ok(Converted { digest: chunk::digest(&chunks), size, files: 0, bytes: 0, blocks, reused: 0, chunks })
    }
}

/// Temporary files are for their owner only, as the index stays: there is a key in it.
fn readable(file: &NamedTempFile) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))
}

/// What stands in the place of the definition the image was not built from.
fn about(image: &Image) -> String {
    let mut text = "# Made by trainyard from an image of these layers:\n".to_owned();
    for layer in &image.layers {
        let name = layer.diff_id.as_ref().map_or("a folder", |id| id.as_str());
        text += &format!("#   {name}\n");
    }
    text
}
