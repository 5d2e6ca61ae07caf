//! What several keys mean together: references that lead nowhere, contradictions, ranges. Each rule looks at values
//! of the right type only; what `check` already refused is passed over.

mod group;
mod job;
mod slurm;
mod sweep;
mod target;

use super::image::ImageSpec;
use super::nearest::did_you_mean;
use super::problem::Problem;
use super::read::Reader;
use super::shape::names;

pub(super) fn check(root: &Reader<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    images(root, &mut problems);
    for (name, reader) in root.tables("jobs") {
        job::check(name, &reader, root, &mut problems);
    }
    for (name, reader) in root.tables("groups") {
        group::check(name, &reader, root, &mut problems);
    }
    for (_, reader) in root.tables("sweeps") {
        sweep::check(&reader, root, &mut problems);
    }
    for (name, reader) in root.tables("targets") {
        target::check(name, &reader, &mut problems);
    }
    if let Some(defaults) = root.table("defaults") {
        problems.extend(dangling(&defaults, "target", "target", &root.names_in("targets")));
    }
    problems
}

fn images(root: &Reader<'_>, problems: &mut Vec<Problem>) {
    problems.extend(root.table("image").and_then(|image| idle_reference(&image)));
    let profiles = root.table("images");
    let each =
        profiles.iter().flat_map(|images| root.names_in("images").into_iter().filter_map(|name| images.table(name)));
    problems.extend(each.filter_map(|image| idle_reference(&image)));
    let Some(images) = root.table("images") else { return };
    if root.has("image") && images.has(ImageSpec::DEFAULT) {
        let message = "`[image]` is this profile already";
        problems.push(images.problem(ImageSpec::DEFAULT, message));
    }
    if images.has(ImageSpec::NONE) {
        let message = "`none` is how a job says that it runs without an image";
        problems.push(images.problem(ImageSpec::NONE, message).hint("use another name".to_owned()));
    }
}

/// A name where there is only one image.
fn idle_reference(image: &Reader<'_>) -> Option<Problem> {
    let is_idle = image.has("reference") && !image.has("archive") && !image.has("oci");
    is_idle.then(|| image.problem("reference", "says nothing without `archive` or `oci`"))
}

/// A name that should be one of `known` and is not.
fn dangling(reader: &Reader<'_>, key: &str, what: &str, known: &[&str]) -> Option<Problem> {
    let name: String = reader.get(key).ok()??;
    let was_refused = name.trim().is_empty() || name.contains(['\n', '\r']);
    if was_refused || known.contains(&name.as_str()) {
        return None;
    }
    let near = did_you_mean(&name, known.iter().copied());
    let hint = near.unwrap_or_else(|| match known {
        [] => format!("there is no {what} yet: add `[{what}s.{name}]`"),
        known => format!("known here: {}", names(known.iter().copied())),
    });
    Some(reader.problem(key, format!("no {what} is called `{name}`")).hint(hint))
}
