//! `[jobs.NAME]`.

use std::collections::BTreeMap;

use crate::spec::image::ImageSpec;
use crate::spec::job::{Around, Command, JobSpec, MetricSource, ResumeSpec, Warn};
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
        image: image(job, images)?,
        target: job.get("target")?,
        gpus: job.need("gpus")?,
        pack: job.get("pack")?,
        nodes: job.need("nodes")?,
        tasks: job.need::<Choice<_>>("tasks")?.0,
        cpus: job.need("cpus")?,
        memory: job.get::<Size>("memory")?.map(|size| size.0),
        time: job.get("time")?,
        outputs: job.need("outputs")?,
        seeds: job.need::<Seeds>("seeds")?.0,
        in_place: job.need("in-place")?,
        copy: job.need("copy")?,
        grace: job.need("grace")?,
        resume: resume(job)?,
        metrics: metrics(job)?,
        around: Around::default(),
    })
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
    let Some(metrics) = job.table("metrics") else { return Ok(Vec::new()) };
    let sources = [
        metrics.get("tensorboard")?.map(MetricSource::Tensorboard),
        metrics.get("jsonl")?.map(MetricSource::Jsonl),
        metrics.get("stdout")?.map(MetricSource::Stdout),
    ];
    Ok(sources.into_iter().flatten().collect())
}
