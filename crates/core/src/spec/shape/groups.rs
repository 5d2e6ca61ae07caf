//! `[groups.NAME]`.

use super::{Shape, TableShape, default, optional, required, table};

pub(super) static GROUP: TableShape = table(&[
    required(
        "jobs",
        Shape::List { of: &Shape::Line, least: 1 },
        "The jobs of the group, by their names; each with its own resources and seeds.",
    ),
    default(
        "start",
        Shape::Choice(&["when-free", "in-order", "together"]),
        "\"when-free\"",
        "When each starts: as soon as there is room for it, after the job before it has succeeded, or all at once.",
    ),
    optional("target", Shape::Line, "The target of all of them unless `--on` says otherwise."),
]);
