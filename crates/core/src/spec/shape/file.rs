//! The top of the file.

use super::groups::GROUP;
use super::images::IMAGE;
use super::jobs::JOB;
use super::sweeps::SWEEP;
use super::targets::KINDS;
use super::{LINES, Names, Shape, TableShape, default, optional, table};

pub(in crate::spec) static FILE: TableShape = table(&[
    optional("project", Shape::Table(&PROJECT), "What this folder is called and which of its files are not shipped."),
    optional("image", Shape::Table(&IMAGE), "The image that jobs run in unless they name another."),
    optional(
        "images",
        Shape::Map { of: &Shape::Table(&IMAGE), names: Names::Plain },
        "Further images, for jobs that say `image = \"NAME\"`.",
    ),
    optional("jobs", Shape::Map { of: &Shape::Table(&JOB), names: Names::Plain }, "What can be run: `yard run NAME`."),
    optional(
        "groups",
        Shape::Map { of: &Shape::Table(&GROUP), names: Names::Plain },
        "Jobs that belong together: `yard run NAME`.",
    ),
    optional(
        "sweeps",
        Shape::Map { of: &Shape::Table(&SWEEP), names: Names::Plain },
        "Searches for good parameters: `yard sweep NAME`.",
    ),
    optional(
        "targets",
        Shape::Map { of: &Shape::Kinds(KINDS), names: Names::Plain },
        "Places to run at: `yard run JOB --on NAME`.",
    ),
    optional("defaults", Shape::Table(&DEFAULTS), "What holds unless something else is said."),
]);

static PROJECT: TableShape = table(&[
    optional("name", Shape::Line, "The project's name; the folder's name unless given."),
    default(
        "exclude",
        LINES,
        "[]",
        "Files that are not shipped, on top of `.gitignore`, `.yardignore`, `.git`, `__pycache__` and `yard-results`, in the \
         syntax of `.gitignore`.",
    ),
    default(
        "allow-large",
        LINES,
        "[]",
        "Folders that are shipped although they look like a mistake, in the same syntax: virtual environments, conda \
         environments, `node_modules`, more than 100 MB of checkpoints, more than 500 MB or 20,000 files.",
    ),
]);

static DEFAULTS: TableShape =
    table(&[optional("target", Shape::Line, "The target of jobs that name none and of `yard run` without `--on`.")]);
