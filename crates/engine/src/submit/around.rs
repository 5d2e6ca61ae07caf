//! What a target adds to a job: the image it runs in, and the disk it works on.

use std::path::{Path, PathBuf};

use trainyard_core::plan::container::{check, program};
use trainyard_core::plan::slurm::{Answer, Facts};
use trainyard_core::spec::{Around, Contained, Container, ImageSpec, JobSpec, SlurmSpec, TargetKind, Writable};

use super::Wish;
use crate::home::locate;

/// The job as this target runs it, or why it would not.
pub(super) fn surround(wish: &Wish<'_>, facts: Option<&Facts>) -> Result<JobSpec, String> {
    let around = match &wish.target.kind {
        TargetKind::Slurm(slurm) => at_slurm(wish, slurm, facts)?,
        TargetKind::Ssh(ssh) => Around { container: contained(wish, ssh.container, plain)?, scratch: None },
        TargetKind::Local(_) => Around { container: here(wish)?, scratch: None },
        _ => Around::default(),
    };
    if wish.job.total_tasks() > 1 && !matches!(wish.target.kind, TargetKind::Slurm(_)) {
        return Err("a run has one process there; `nodes` and `tasks` are for SLURM".to_owned());
    }
    let job = JobSpec { around, ..wish.job.clone() };
    if let Some(container) = &job.around.container {
        check(&job, container).map_err(|error| error.to_string())?;
    }
    Ok(job)
}

fn at_slurm(wish: &Wish<'_>, slurm: &SlurmSpec, facts: Option<&Facts>) -> Result<Around, String> {
    let by = slurm.container.map_or_else(|| wish.image.map(|_| found(facts)).transpose(), |by| Ok(Some(by)))?;
    let container = contained(wish, by, |by, image| Contained {
        by,
        image,
        binds: slurm.binds.clone(),
        writable: slurm.writable,
        cache: slurm.cache.clone(),
    })?;
    // A disk of one node is of no use to the others.
    let scratch = slurm.scratch.clone().filter(|_| wish.job.nodes == 1);
    Ok(Around { container, scratch })
}

/// The first runtime of the login node. A name in the file is taken for true, since nodes may have more than that.
fn found(facts: Option<&Facts>) -> Result<Container, String> {
    let Some(facts) = facts else { return Ok(Container::Apptainer) };
    let is_there = |answer: &Answer<Option<String>>| matches!(answer, Answer::Known(Some(_)));
    let way_out = "if its nodes have one, set `container` of the target, and `modules` or `setup` to load it";
    match facts {
        Facts { apptainer, .. } if is_there(apptainer) => Ok(Container::Apptainer),
        Facts { singularity, .. } if is_there(singularity) => Ok(Container::Singularity),
        Facts { pyxis: Answer::Known(true), .. } => Ok(Container::Pyxis),
        Facts { apptainer: Answer::Known(None), singularity: Answer::Known(None), .. } => {
            Err(format!("the job runs in an image, and no container runtime was found there; {way_out}"))
        }
        // Could not be asked: the node will tell.
        _ => Ok(Container::Apptainer),
    }
}

fn plain(by: Container, image: String) -> Contained {
    Contained { by, image, binds: Vec::new(), writable: Writable::Tmpfs, cache: Vec::new() }
}

fn contained(
    wish: &Wish<'_>,
    by: Option<Container>,
    make: impl FnOnce(Container, String) -> Contained,
) -> Result<Option<Contained>, String> {
    let Some(image) = wish.image else { return Ok(None) };
    let sif = sif(image)?;
    match by.unwrap_or(Container::Apptainer) {
        Container::None => Err(
            "the job runs in an image, and the target says `container = \"none\"`; set `image = \"none\"` in the job"
                .to_owned(),
        ),
        by @ (Container::Docker | Container::Podman) => {
            let by = if by == Container::Docker { "docker" } else { "podman" };
            Err(format!("`{by}` does not run `sif` images; set `container` of the target to `apptainer`"))
        }
        by => Ok(Some(make(by, sif.to_owned()))),
    }
}

fn sif(image: &ImageSpec) -> Result<&str, String> {
    let kind = match image {
        ImageSpec::Sif(path) => return Ok(path),
        ImageSpec::Docker(_) => "docker",
        ImageSpec::Dockerfile { .. } => "dockerfile",
        ImageSpec::Registry { .. } => "registry",
    };
    Err(format!(
        "the job's image comes from `{kind}`, which this yard cannot turn into one for there yet; give a finished one \
         as `sif = \"/path\"`"
    ))
}

/// On this machine everything can be seen beforehand.
fn here(wish: &Wish<'_>) -> Result<Option<Contained>, String> {
    let Some(image) = wish.image else { return Ok(None) };
    let path: PathBuf = locate(Path::new(sif(image)?), wish.project);
    if let Err(error) = std::fs::metadata(&path) {
        return Err(format!("the image {} cannot be read: {error}", path.display()));
    }
    let path_variable = wish.env.get("PATH").cloned().unwrap_or_default();
    let is_there = |by: &Container| {
        let name = program(*by).unwrap_or_default();
        std::env::split_paths(&path_variable).any(|folder| folder.join(name).is_file())
    };
    let by = [Container::Apptainer, Container::Singularity].into_iter().find(is_there);
    let by = by.ok_or("the job runs in an image, and neither `apptainer` nor `singularity` is in PATH here")?;
    Ok(Some(plain(by, path.to_string_lossy().into_owned())))
}
