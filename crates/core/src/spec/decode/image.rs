//! `[image]` and `[images.NAME]`.

use crate::spec::image::{ImageSpec, Login};
use crate::spec::problem::Problem;
use crate::spec::read::Reader;

pub(super) fn image(image: &Reader<'_>) -> Result<ImageSpec, Problem> {
    if let Some(name) = image.get("docker")? {
        return Ok(ImageSpec::Docker(name));
    }
    if let Some(name) = image.get("podman")? {
        return Ok(ImageSpec::Podman(name));
    }
    if let Some(path) = image.get("archive")? {
        return Ok(ImageSpec::Archive { path, reference: image.get("reference")? });
    }
    if let Some(path) = image.get("oci")? {
        return Ok(ImageSpec::Oci { path, reference: image.get("reference")? });
    }
    if let Some(path) = image.get("folder")? {
        return Ok(ImageSpec::Folder(path));
    }
    if let Some(path) = image.get("sif")? {
        return Ok(ImageSpec::Sif(path));
    }
    if let Some(file) = image.get("dockerfile")? {
        let context: Option<String> = image.get("context")?;
        return Ok(ImageSpec::Dockerfile {
            file,
            context: context.unwrap_or_else(|| ".".to_owned()),
            args: image.get("build-args")?.unwrap_or_default(),
        });
    }
    let login = match image.get("username")? {
        Some(username) => Some(Login { username, password: image.need("password")? }),
        None => None,
    };
    Ok(ImageSpec::Registry { reference: image.need("registry")?, login })
}
