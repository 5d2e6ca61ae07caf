//! An OCI layout as a folder: what `skopeo copy … oci:` and `buildah push … oci:` make.

use std::fs::File;
use std::path::PathBuf;

use crate::error::{Reading, Result};
use crate::image::{Image, Platform};
use crate::range::FileRange;
use crate::source::{Blob, Named, Source, oci};

pub struct Layout {
    folder: PathBuf,
    reference: Option<String>,
    platform: Platform,
    layers: Vec<FileRange>,
}

impl Layout {
    /// `reference` chooses where the layout holds several images.
    pub fn new(folder: impl Into<PathBuf>, reference: Option<String>, platform: Platform) -> Self {
        Self { folder: folder.into(), reference, platform, layers: Vec::new() }
    }
}

impl Named for Layout {
    fn place(&self) -> String {
        self.folder.display().to_string()
    }

    fn find(&self, name: &str) -> Result<Option<FileRange>> {
        let path = self.folder.join(name);
        match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            opened => opened.and_then(FileRange::whole).map(Some).reading(|| path.display().to_string()),
        }
    }
}

impl Source for Layout {
    fn image(&mut self) -> Result<Image> {
        let (image, layers) = oci::image(self, &self.platform, self.reference.as_deref())?;
        self.layers = layers;
        Ok(image)
    }

    fn layer(&mut self, index: usize) -> Result<Blob> {
        Ok(Blob::Range(self.layers[index].clone()))
    }
}
