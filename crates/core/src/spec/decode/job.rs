//! `[jobs.NAME]`.

use std::collections::BTreeMap;

use super::shares;
use crate::spec::image::ImageSpec;
use crate::spec::job::{Around, Command, JobSpec, MetricSource, ParamsFile, ResumeSpec, Warn};
use crate::spec::preset::Preset;
use crate::spec::problem::Problem;
use crate::spec::read::{Choice, Reader, Seeds, Size};

pub(super) fn job(name: &str, job: &Reader<'_>, images: &BTreeMap<String, ImageSpec>) -> Result<JobSpec, Problem> {
    let command = match job.get("shell")? {
        Some(script) => Command::Shell(script),
        None => Command::Argv(job.need("command")?),
    };
    Ok(JobSpec {
        name: name.to_owned(),
        command,
        env: job.get("env")?.unwrap_or_default(),
        params: job.get("params")?.unwrap_or_default(),
        style: job.need::<Choice<_>>("params-style")?.0,
        params_file: params_file(job)?,
        image: image(job, images)?,
        target: job.get("target")?,
        gpus: job.need("gpus")?,
        pack: job.get("pack")?,
        nodes: job.need("nodes")?,
        tasks: job.need::<Choice<_>>("tasks")?.0,
        cpus: job.need("cpus")?,
        memory: job.get::<Size>("memory")?.map(|size| size.0),
        node: job.get("node")?.filter(|name| name != JobSpec::ANY_NODE),
        shares: shares(job)?,
        per_node: job.get("per-node")?,
        time: job.get("time")?,
        outputs: job.need("outputs")?,
        seeds: job.need::<Seeds>("seeds")?.0,
        in_place: job.need("in-place")?,
        copy: job.need("copy")?,
        grace: job.need("grace")?,
        resume: resume(job)?,
        metrics: metrics(job)?,
        headline: headline(job)?,
        objective: None,
        around: Around::default(),
    })
}

fn params_file(job: &Reader<'_>) -> Result<Option<ParamsFile>, Problem> {
    let Some(file) = job.table("params-file") else { return Ok(None) };
    Ok(Some(ParamsFile { template: file.need("template")?, to: file.need("to")? }))
}

fn image(job: &Reader<'_>, images: &BTreeMap<String, ImageSpec>) -> Result<Option<String>, Problem> {
    let default = || images.contains_key(ImageSpec::DEFAULT).then(|| ImageSpec::DEFAULT.to_owned());
    let named: Option<String> = job.get("image")?;
    Ok(named.or_else(default).filter(|name| name != ImageSpec::NONE))
}

fn resume(job: &Reader<'_>) -> Result<ResumeSpec, Problem> {
    let Some(resume) = job.table("resume") else {
        return Ok(ResumeSpec { attempts: 1, on: Vec::new(), checkpoint: None, args: Vec::new(), warn: None });
    };
    let warn = match resume.table("warn") {
        Some(warn) => Some(Warn { signal: warn.need::<Choice<_>>("signal")?.0, before: warn.need("before")? }),
        None => None,
    };
    Ok(ResumeSpec {
        attempts: resume.need("attempts")?,
        on: resume.need::<Vec<Choice<_>>>("on")?.into_iter().map(|reason| reason.0).collect(),
        checkpoint: resume.get("checkpoint")?,
        args: resume.need("args")?,
        warn,
    })
}

fn metrics(job: &Reader<'_>) -> Result<Vec<MetricSource>, Problem> {
    let preset = preset(job)?.map(Preset::sources).unwrap_or_default();
    let Some(metrics) = job.table("metrics") else { return Ok(preset) };
    let sources = [
        metrics.get("tensorboard")?.map(MetricSource::Tensorboard),
        metrics.get("jsonl")?.map(MetricSource::Jsonl),
        metrics.get("csv")?.map(MetricSource::Csv),
        metrics.get("stdout")?.map(MetricSource::Stdout),
    ];
    Ok(preset.into_iter().chain(sources.into_iter().flatten()).collect())
}

/// `metrics = "sb3"`, or `preset = "sb3"` beside others.
fn preset(job: &Reader<'_>) -> Result<Option<&'static Preset>, Problem> {
    let name: Option<String> = match job.table("metrics") {
        Some(metrics) => metrics.get("preset")?,
        None => job.get("metrics")?,
    };
    Ok(name.and_then(|name| Preset::named(&name)))
}

fn headline(job: &Reader<'_>) -> Result<Option<String>, Problem> {
    let own = job.table("metrics").map(|metrics| metrics.get("headline")).transpose()?.flatten();
    Ok(own.or(preset(job)?.and_then(|preset| preset.headline).map(str::to_owned)))
}
