//! A checked tree → typed specs. Decides nothing: what is wrong was found before, defaults are in the tree.

mod group;
mod image;
mod job;
mod sweep;
mod target;

pub(super) use sweep::dimension;

use std::collections::BTreeMap;

use super::config::{Config, ProjectSpec};
use super::image::ImageSpec;
use super::problem::Problem;
use super::read::Reader;

pub(super) fn config(root: &Reader<'_>) -> Result<Config, Problem> {
    let images = images(root)?;
    Ok(Config {
        project: project(root)?,
        jobs: each(root, "jobs", |name, reader| job::job(name, reader, &images))?,
        groups: each(root, "groups", group::group)?,
        sweeps: each(root, "sweeps", sweep::sweep)?,
        targets: each(root, "targets", target::target)?,
        default_target: match root.table("defaults") {
            Some(defaults) => defaults.need("target")?,
            None => return Err(root.problem("defaults", "missing table `defaults`")),
        },
        images,
    })
}

fn project(root: &Reader<'_>) -> Result<ProjectSpec, Problem> {
    let project = root.table("project").ok_or_else(|| root.problem("project", "missing table `project`"))?;
    Ok(ProjectSpec {
        name: project.need("name")?,
        exclude: project.need("exclude")?,
        allow_large: project.need("allow-large")?,
    })
}

fn images(root: &Reader<'_>) -> Result<BTreeMap<String, ImageSpec>, Problem> {
    let mut images = each(root, "images", |_, reader| image::image(reader))?;
    if let Some(reader) = root.table("image") {
        images.insert(ImageSpec::DEFAULT.to_owned(), image::image(&reader)?);
    }
    Ok(images)
}

fn each<T>(
    root: &Reader<'_>,
    key: &str,
    read: impl Fn(&str, &Reader<'_>) -> Result<T, Problem>,
) -> Result<BTreeMap<String, T>, Problem> {
    let tables = root.tables(key).into_iter();
    tables.map(|(name, reader)| Ok((name.to_owned(), read(name, &reader)?))).collect()
}

/// Ray counts no finer.
pub(super) fn shares(reader: &Reader<'_>) -> Result<BTreeMap<String, u64>, Problem> {
    let resources: BTreeMap<String, f64> = reader.get("resources")?.unwrap_or_default();
    let share = |(name, amount): (String, f64)| match amount * 1e4 {
        share if (1.0..1e15).contains(&share) => Ok((name, share.round() as u64)),
        _ => Err(reader.problem("resources", "an amount must be at least 0.0001")),
    };
    resources.into_iter().map(share).collect()
}
