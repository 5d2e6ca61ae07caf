//! Layers become one tree, and their files' contents go into the output, while each layer is read once.
//!
//! Layers are read from the highest to the lowest, so that a file which something higher hides is seen to be hidden, and its
//! contents are passed over. What is certain only when all layers are known (links among the parents of a name, hard
//! links to files of lower layers) is decided by [`Tree`] afterwards, from the names alone. In the rare case that contents were passed
//! over which are needed after all, their layer is read again.
//!
//! The order of contents in the output follows from the layers alone, so every kind of source gives the same bytes.

mod list;
mod shadow;

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::dress::Dress;
use crate::entry::{Entries, Entry, Kind};
use crate::error::{Error, Result};
use crate::image::{Image, Layer};
use crate::layer::{self, Flow};
use crate::progress::Progress;
use crate::shared::Buffers;
use crate::source::{Blob, Source, Walk};
use crate::squashfs::{ContentId, Contents};
use crate::tar::TarReader;
use crate::tree::{Origin, Tree, Whiteout, components};
use list::List;
use shadow::Shadow;

/// For the names and attributes of all layers' entries, hidden ones included.
const MOST_NAMES: usize = 256 << 20;

/// Where the contents of each layer's entries are; nothing for those that were passed over.
pub(crate) struct Found(Vec<Vec<Option<ContentId>>>);

impl Found {
    pub(crate) fn get(&self, origin: Origin) -> Option<ContentId> {
        *self.0.get(origin.layer as usize)?.get(origin.entry as usize)?
    }
}

pub(crate) struct Flattener<'a> {
    image: &'a Image,
    most_bytes: u64,
    progress: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
    /// Of the layers as they are stored.
    read: Arc<AtomicU64>,
    total: Option<u64>,
    names: usize,
    bytes: u64,
    found: Found,
}

impl<'a> Flattener<'a> {
    pub(crate) fn new(
        image: &'a Image,
        most_bytes: u64,
        progress: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Self {
        let total = image.layers.iter().map(|layer| layer.size).sum();
        let found = Found(vec![Vec::new(); image.layers.len() + 1]);
        let read = Arc::new(AtomicU64::new(0));
        Self { image, most_bytes, progress, read, total, names: 0, bytes: 0, found }
    }

    /// Reads all layers. `dress` adds what the runtime needs to the merged tree.
    pub(crate) fn run(
        mut self,
        source: &mut dyn Source,
        contents: &mut Contents,
        dress: &dyn Fn(&mut Tree) -> Dress,
    ) -> Result<(Tree, Found)> {
        let lists = self.read_layers(source, contents)?;
        let mut tree = Tree::new();
        for (layer, list) in lists.into_iter().enumerate() {
            let place = place(self.image, layer);
            for (index, entry) in list.into_entries().enumerate() {
                tree.apply(&place, origin(layer, index), entry)?;
            }
        }
        let dress = dress(&mut tree);
        dress.put_on(&mut tree, number(self.image.layers.len()))?;
        self.read_again(source, contents, &tree)?;
        for (entry, bytes) in &dress.entries {
            let id = contents.add(&entry.path, bytes.len() as u64, &mut dress.contents(bytes))?;
            self.found.0[self.image.layers.len()].push(Some(id));
        }
        Ok((tree, self.found))
    }

    /// The layers' entries, the lowest layer's first.
    fn read_layers(&mut self, source: &mut dyn Source, contents: &mut Contents) -> Result<Vec<List>> {
        let (mut shadow, mut buffers) = (Shadow::default(), layer::buffers());
        let mut lists = Vec::new();
        for layer in (0..self.image.layers.len()).rev() {
            let (image, place) = (self.image, place(self.image, layer));
            let mut list = List::default();
            let blob = source.layer(layer)?;
            read(blob, &image.layers[layer], &place, &Arc::clone(&self.read), &mut buffers, &mut |entries| {
                while let Some(entry) = entries.next()? {
                    self.check(&place, &entry)?;
                    let id = self.taken(&entry, &shadow, entries, contents, &place)?;
                    self.found.0[layer].push(id);
                    list.push(&entry);
                    self.tell()?;
                }
                contents.border().map_err(Error::from)
            })?;
            if layer > 0 {
                shadow.add(list.entries());
            }
            lists.push(list);
        }
        lists.reverse();
        Ok(lists)
    }

    fn taken(
        &self,
        entry: &Entry,
        shadow: &Shadow,
        entries: &mut dyn Entries,
        contents: &mut Contents,
        place: &str,
    ) -> Result<Option<ContentId>> {
        let parts = components(&entry.path).map_err(|why| Error::entry(place, &entry.path, why))?;
        let is_whiteout = parts.last().is_some_and(|name| Whiteout::of(name).is_some());
        match entry.kind {
            Kind::File(size) if !is_whiteout && !shadow.hides(&parts) => {
                contents.add(&entry.path, size, entries).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Refuses the entry that is too many.
    fn check(&mut self, place: &str, entry: &Entry) -> Result<()> {
        let too_many = |why: String| Err(Error::entry(place, &entry.path, why));
        if let Kind::File(size) = entry.kind {
            self.bytes = self.bytes.saturating_add(size);
            if self.bytes > self.most_bytes {
                return too_many(format!("is too large: the image's files have more than {} bytes", self.most_bytes));
            }
        }
        self.names += List::cost(entry);
        if self.names > MOST_NAMES {
            return too_many("is too many: the names of all entries need more than 256 MiB".to_owned());
        }
        Ok(())
    }

    fn tell(&mut self) -> Result<()> {
        let done = self.read.load(Ordering::Relaxed);
        let progress = Progress { done: done.min(self.total.unwrap_or(u64::MAX)), total: self.total };
        match (self.progress)(progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Cancelled),
        }
    }

    /// For contents that were passed over and are needed.
    fn read_again(&mut self, source: &mut dyn Source, contents: &mut Contents, tree: &Tree) -> Result<()> {
        let own = number(self.image.layers.len());
        let is_missing = |origin: &Origin| origin.layer != own && self.found.get(*origin).is_none();
        let missing: Vec<Origin> = tree.origins().into_iter().map(|(origin, _)| origin).filter(is_missing).collect();
        let mut buffers = layer::buffers();
        for layer in (0..self.image.layers.len()).rev() {
            if !missing.iter().any(|origin| origin.layer == number(layer)) {
                continue;
            }
            let (image, place) = (self.image, place(self.image, layer));
            let blob = source.layer(layer)?;
            read(blob, &image.layers[layer], &place, &Arc::clone(&self.read), &mut buffers, &mut |entries| {
                let mut index = 0;
                while let Some(entry) = entries.next()? {
                    let origin = origin(layer, index);
                    if let (Kind::File(size), Ok(_)) = (&entry.kind, missing.binary_search(&origin)) {
                        self.found.0[layer][index] = Some(contents.add(&entry.path, *size, entries)?);
                        self.tell()?;
                    }
                    index += 1;
                }
                contents.border().map_err(Error::from)
            })?;
        }
        Ok(())
    }
}

/// How a layer is called in messages.
fn place(image: &Image, layer: usize) -> String {
    match &image.layers[layer].diff_id {
        Some(id) => format!("layer {} ({id})", layer + 1),
        None => "the folder".to_owned(),
    }
}

fn origin(layer: usize, entry: usize) -> Origin {
    Origin { layer: number(layer), entry: number(entry) }
}

fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Does `work` with the layer's entries, then checks the layer to its end.
fn read(
    blob: Blob,
    layer: &Layer,
    place: &str,
    count: &Arc<AtomicU64>,
    buffers: &mut Buffers,
    work: &mut dyn FnMut(&mut dyn Entries) -> Result<()>,
) -> Result<()> {
    let input: Box<dyn io::Read + Send> = match blob {
        Blob::Folder(path) => return work(&mut Walk::new(&path)),
        Blob::Range(range) => Box::new(range),
        Blob::Stream(stream) => stream,
    };
    let lent = std::mem::replace(buffers, layer::buffers());
    let mut tar = TarReader::new(Flow::new(input, layer, place, count, lent), place);
    work(&mut tar)?;
    *buffers = tar.into_inner().finish()?;
    Ok(())
}
