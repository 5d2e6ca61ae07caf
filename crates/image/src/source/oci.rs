//! The OCI image layout: `index.json` and blobs by digest. In a folder, or in a tar.

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::image::{Config, Image, Platform};
use crate::manifest::{Descriptor, MOST_BYTES, Manifest, choose};
use crate::range::FileRange;
use crate::source::Named;
use crate::verify::read_checked;

/// Indexes in indexes in indexes are nobody's honest work.
const DEEPEST: usize = 4;

/// The place of a blob below a layout.
pub(crate) fn blob(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// The image of a layout, and the files of its layers. `reference` chooses where the index has several images: by the name
/// they were saved under.
pub(crate) fn image(
    files: &impl Named,
    platform: &Platform,
    reference: Option<&str>,
) -> Result<(Image, Vec<FileRange>)> {
    let place = files.place();
    let bytes = read_checked(files.needed("index.json")?, MOST_BYTES, &format!("{place}: index.json"), None)?;
    let mut manifest = Manifest::parse(&format!("{place}: index.json"), &bytes)?;
    if let Manifest::Index(list) = &mut manifest {
        named(list, reference, &place)?;
    }
    for _ in 0..DEEPEST {
        match manifest {
            Manifest::Index(list) => manifest = parsed(files, choose(&list, platform)?)?,
            Manifest::Image { config, layers } => return described(files, &config, &layers),
        }
    }
    Err(Error::malformed(place, "has indexes in indexes without end"))
}

/// Leaves the images of one name.
fn named(list: &mut Vec<Descriptor>, reference: Option<&str>, place: &str) -> Result<()> {
    let Some(reference) = reference else { return Ok(()) };
    let has_name = |entry: &Descriptor| {
        let Some(notes) = &entry.annotations else { return false };
        let names = ["org.opencontainers.image.ref.name", "io.containerd.image.name"];
        names.iter().filter_map(|name| notes.get(*name)).any(|name| name == reference)
    };
    list.retain(has_name);
    if list.is_empty() {
        return Err(Error::malformed(place, format!("has no image named `{reference}`")));
    }
    Ok(())
}

fn read(files: &impl Named, entry: &Descriptor) -> Result<Vec<u8>> {
    let name = blob(&entry.digest);
    read_checked(files.needed(&name)?, MOST_BYTES, &format!("{}: {name}", files.place()), Some(&entry.digest))
}

fn parsed(files: &impl Named, entry: &Descriptor) -> Result<Manifest> {
    Manifest::parse(&format!("{}: {}", files.place(), blob(&entry.digest)), &read(files, entry)?)
}

fn described(files: &impl Named, config: &Descriptor, layers: &[Descriptor]) -> Result<(Image, Vec<FileRange>)> {
    let place = files.place();
    let config = Config::parse(&format!("{place}: {}", blob(&config.digest)), &read(files, config)?)?;
    let image = Image::new(&place, config, layers)?;
    let ranges = layers.iter().map(|layer| files.needed(&blob(&layer.digest))).collect::<Result<_>>()?;
    Ok((image, ranges))
}
