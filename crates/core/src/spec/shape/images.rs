//! `[image]` and `[images.NAME]`.

use super::{Bond, Names, Shape, TableShape, optional};

pub(super) static IMAGE: TableShape = TableShape {
    keys: &[
        optional("docker", Shape::Line, "An image of this machine's Docker daemon."),
        optional("podman", Shape::Line, "An image of this machine's Podman, which has to listen on its socket."),
        optional("archive", Shape::Line, "A file made by `docker save` or `podman save`, or a packed OCI layout."),
        optional("oci", Shape::Line, "A folder that is an OCI layout."),
        optional("folder", Shape::Line, "A folder whose files are the image, as they are."),
        optional("reference", Shape::Line, "Which image, where an archive or layout holds several."),
        optional("dockerfile", Shape::Line, "A Dockerfile, relative to the project, that is built."),
        optional("registry", Shape::Line, "An image in a registry, such as `ghcr.io/me/sim:1.2`."),
        optional("sif", Shape::Line, "A finished Apptainer image, here or at the target."),
        optional("context", Shape::Line, "The folder a Dockerfile is built in; the project's unless given."),
        optional(
            "build-args",
            Shape::Map { of: &Shape::Text, names: Names::Variable },
            "Build arguments of the Dockerfile; they stay readable in the image, so no secrets.",
        ),
        optional("username", Shape::Line, "Who logs in to the registry."),
        optional("password", Shape::Secret, "Where the registry's password is found."),
    ],
    bonds: &[
        Bond::OneOf(&["docker", "podman", "archive", "oci", "folder", "dockerfile", "registry", "sif"]),
        Bond::Needs("context", "dockerfile"),
        Bond::Needs("build-args", "dockerfile"),
        Bond::Needs("username", "registry"),
        Bond::Needs("password", "registry"),
        Bond::Needs("username", "password"),
        Bond::Needs("password", "username"),
    ],
};
