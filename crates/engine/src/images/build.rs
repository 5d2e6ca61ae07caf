//! From an image of the file to one that runtimes can open, unless it is there already.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use trainyard_agent::depot::ImageName;
use trainyard_agent::disk::now;
use trainyard_image::{Blob, Converted, Image, Options, Progress, Result, Source, convert, index_path};

use super::kept::{Kept, kept};
use super::source::{Around, open};
use super::workplace::Workplace;
use super::{ImageError, Wanted};

/// Earlier images whose blocks are taken over.
const RELATIVES: usize = 4;

/// What is heard meanwhile.
#[derive(Debug, Clone, Copy)]
pub enum News<'a> {
    /// Of whoever builds a Dockerfile.
    Line(&'a str),
    Progress {
        done: u64,
        of: Option<u64>,
    },
}

/// An image that lies here, ready.
#[derive(Debug, Clone)]
pub struct Built {
    pub path: PathBuf,
    /// By its contents; what it is called at a site.
    pub name: ImageName,
    pub size: u64,
    /// Blocks, and how many of them were compressed before; nothing where it was here already.
    pub blocks: Option<(u64, u64)>,
}

/// Converts the image, if it was not converted before. A failure leaves nothing new in `folder`, and a kill nothing that the next call
/// would not remove.
pub fn build(
    folder: &Path,
    wanted: &Wanted,
    around: &Around<'_>,
    hear: &mut dyn FnMut(News<'_>) -> ControlFlow<()>,
) -> Result<Built, ImageError> {
    fs_err::create_dir_all(folder).map_err(|source| keeping(folder, source))?;
    // A builder that is to stop hears it from the terminal, as we do.
    let mut on_line = |line: &str| {
        let _ = hear(News::Line(line));
    };
    let place = Workplace::new(folder).map_err(|source| keeping(folder, source))?;
    let mut source = open(wanted, around, place.path(), &mut on_line)?;
    let failed = |source| ImageError::Convert { profile: wanted.profile.clone(), source };
    let image = source.image().map_err(failed)?;
    let earlier = kept(folder);
    let mut options = Options { format: wanted.form.format, codec: wanted.form.codec, ..Options::default() };
    let key = options.key(&image);
    if let Some(known) = earlier.iter().find(|known| Some(&known.key) == key.as_ref()) {
        known.touch(folder);
        return Ok(Built { path: known.path(folder), name: known.name.clone(), size: known.size, blocks: None });
    }
    options.reuse = earlier.iter().take(RELATIVES).map(|known| known.path(folder)).collect();
    let output = place.path().join(format!("image.{}", wanted.form.ending()));
    let mut told = |progress: Progress| hear(News::Progress { done: progress.done, of: progress.total });
    let mut source = Told { image, source };
    let made = convert(&mut source, &options, &output, &mut told).map_err(failed)?;
    publish(folder, wanted, key, &output, &made).map_err(|source| keeping(folder, source))
}

fn keeping(folder: &Path, source: std::io::Error) -> ImageError {
    ImageError::Keep { path: folder.to_owned(), source }
}

/// Under its key, or where a source has none under what it became: nobody's image changes under its name.
fn publish(
    folder: &Path,
    wanted: &Wanted,
    key: Option<String>,
    output: &Path,
    made: &Converted,
) -> std::io::Result<Built> {
    let name = format!("{}.{}", made.digest, wanted.form.ending());
    let name = ImageName::parse(&name).ok_or(std::io::ErrorKind::InvalidData)?;
    let entry = Kept {
        key: key.unwrap_or_else(|| made.digest.clone()),
        name,
        size: made.size,
        form: wanted.form,
        profile: wanted.profile.clone(),
        from: format!("{} {}", wanted.spec.kind(), wanted.spec.named()),
        made: now(),
    };
    let path = entry.path(folder);
    fs_err::rename(index_path(output), index_path(&path))?;
    fs_err::rename(output, &path)?;
    entry.write(folder)?;
    let blocks = Some((made.blocks, made.reused));
    Ok(Built { path, name: entry.name, size: made.size, blocks })
}

/// A source that has told what its image is, and does not change its mind.
struct Told {
    image: Image,
    source: Box<dyn Source>,
}

impl Source for Told {
    fn image(&mut self) -> Result<Image> {
        Ok(self.image.clone())
    }

    fn layer(&mut self, index: usize) -> Result<Blob> {
        self.source.layer(index)
    }
}
