//! Images of the file: converted here, once for each content, and brought to a site's depot.

mod build;
mod kept;
mod push;
mod source;
mod trial;
mod workplace;

pub use build::{Built, News, build};
pub use kept::{Kept, kept, newest, unneeded};
pub use push::{Pushed, Step, push};
pub use source::Around;
pub use trainyard_image::{Codec, Format};
pub use trial::write_trial;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use trainyard_core::spec::ImageSpec;

/// An image that a plan needs and that is to be made first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The name in the file.
    pub profile: String,
    pub spec: ImageSpec,
    pub form: Form,
}

/// What an image is converted to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Form {
    pub format: Format,
    pub codec: Codec,
}

impl Form {
    pub const fn ending(self) -> &'static str {
        match self.format {
            Format::Sif => "sif",
            Format::Sqsh => "sqsh",
            Format::Tar => "tar",
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("cannot make the image `{profile}`")]
    Convert { profile: String, source: trainyard_image::Error },
    #[error("`images.{profile}`: {why}")]
    Profile { profile: String, why: String },
    #[error("cannot keep images in {}", path.display())]
    Keep { path: PathBuf, source: std::io::Error },
}
