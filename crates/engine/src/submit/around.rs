//! What a target adds to a job: the image it runs in, and the disk it works on.

use std::path::Path;

use trainyard_core::plan::container::{check, program};
use trainyard_core::plan::slurm::{Answer, Facts};
use trainyard_core::spec::{
    Around, Contained, Container, ImageSpec, JobSpec, SlurmSpec, TargetKind, TargetSpec, Writable,
};

use super::Wish;
use crate::home::{Home, locate};
use crate::images::{Codec, Form, Format, Wanted};
use crate::site::depot_of;

/// The job as this target runs it, or why it would not.
pub(super) fn surround(wish: &Wish<'_>, home: &Home, facts: Option<&Facts>) -> Result<JobSpec, String> {
    let around = match &wish.target.kind {
        TargetKind::Slurm(slurm) => at_slurm(wish, slurm, facts)?,
        TargetKind::Ssh(ssh) => {
            let by = wish.image.map(|(_, image)| on_machine(ssh.container, runtimes(image), facts)).transpose()?;
            Around { container: contained(wish, by, plain)?, scratch: None }
        }
        TargetKind::Local(_) => Around { container: here(wish, home)?, scratch: None },
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

/// In this order: Apptainer's containers are processes of ours, an engine's are not, and least of all Docker's.
const RUNTIMES: [Container; 4] = [Container::Apptainer, Container::Singularity, Container::Podman, Container::Docker];

/// Those that can run an image. A finished one is for those it was made for.
fn runtimes(image: &ImageSpec) -> &'static [Container] {
    if matches!(image, ImageSpec::Sif(_)) { RUNTIMES.get(..2).unwrap_or_default() } else { &RUNTIMES }
}

/// The first runtime of a machine. A name in the file is taken for true.
fn on_machine(named: Option<Container>, among: &[Container], facts: Option<&Facts>) -> Result<Container, String> {
    if let Some(by) = named {
        return Ok(by);
    }
    let Some(facts) = facts else { return Ok(Container::Apptainer) };
    let answer = |by: &Container| match by {
        Container::Apptainer => &facts.apptainer,
        Container::Singularity => &facts.singularity,
        Container::Podman => &facts.podman,
        _ => &facts.docker,
    };
    if let Some(by) = among.iter().find(|by| matches!(answer(by), Answer::Known(Some(_)))) {
        return Ok(*by);
    }
    // Could not be asked: the machine will tell.
    if among.iter().any(|by| answer(by).known().is_none()) {
        return Ok(Container::Apptainer);
    }
    Err(format!("the job runs in an image, and {} is there; `setup` of the target can load one", lacking(among)))
}

fn lacking(among: &[Container]) -> &'static str {
    if among.len() == RUNTIMES.len() {
        "none of `apptainer`, `singularity`, `podman` and `docker`"
    } else {
        "neither `apptainer` nor `singularity`, which run `sif` images,"
    }
}

fn no_folder(by: Container) -> String {
    let by = program(by).unwrap_or_default();
    format!("`{by}` does not run the files of a `folder`; Apptainer does, and an image of a `dockerfile` can hold them")
}

fn plain(by: Container, image: String) -> Contained {
    Contained { by, image, binds: Vec::new(), writable: Writable::Tmpfs, cache: Vec::new() }
}

fn contained(
    wish: &Wish<'_>,
    by: Option<Container>,
    make: impl FnOnce(Container, String) -> Contained,
) -> Result<Option<Contained>, String> {
    let Some((profile, image)) = wish.image else { return Ok(None) };
    match by.unwrap_or(Container::Apptainer) {
        Container::None => Err(
            "the job runs in an image, and the target says `container = \"none\"`; set `image = \"none\"` in the job"
                .to_owned(),
        ),
        by @ (Container::Docker | Container::Podman) if matches!(image, ImageSpec::Sif(_)) => {
            let by = program(by).unwrap_or_default();
            Err(format!("`{by}` does not run `sif` images; set `container` of the target to `apptainer`"))
        }
        by @ (Container::Docker | Container::Podman) if matches!(image, ImageSpec::Folder(_)) => Err(no_folder(by)),
        by => {
            let path = match image {
                ImageSpec::Sif(path) => path.clone(),
                _ => format!("{}/images/{profile}", depot_of(wish.target)),
            };
            Ok(Some(make(by, path)))
        }
    }
}

/// The image that is to be made for this job before it can run. Until then its path is a stand-in.
pub(super) fn wanted(wish: &Wish<'_>, job: &JobSpec, facts: Option<&Facts>) -> Option<Wanted> {
    let (profile, spec) = wish.image.filter(|(_, spec)| !matches!(spec, ImageSpec::Sif(_)))?;
    let by = job.around.container.as_ref()?.by;
    Some(Wanted { profile: profile.to_owned(), spec: spec.clone(), form: form(wish.target, by, facts) })
}

/// What images have to be for a target.
pub(super) fn form_at(target: &TargetSpec, facts: Option<&Facts>) -> Result<Form, String> {
    let by = match &target.kind {
        TargetKind::Slurm(slurm) => slurm.container.map_or_else(|| found(facts), Ok)?,
        TargetKind::Ssh(ssh) => on_machine(ssh.container, &RUNTIMES, facts)?,
        TargetKind::Local(_) => Container::Apptainer,
        other => return Err(format!("images cannot be brought to a target of kind `{}` yet", other.name())),
    };
    match by {
        Container::None => Err("the target says `container = \"none\"`".to_owned()),
        by => Ok(form(target, by, facts)),
    }
}

/// Old tools know gzip only. Apptainer brings tools of its own since 1.1; of others it is not known.
fn form(target: &TargetSpec, by: Container, facts: Option<&Facts>) -> Form {
    let format = match by {
        Container::Pyxis => Format::Sqsh,
        // The engine compresses as it likes.
        Container::Docker | Container::Podman => return Form { format: Format::Tar, codec: Codec::None },
        _ => Format::Sif,
    };
    let is_here = matches!(target.kind, TargetKind::Local(_));
    let version = facts.and_then(|facts| facts.apptainer.known()).and_then(Option::as_deref);
    let is_new = by == Container::Apptainer && (is_here || version.is_some_and(|text| apptainer(text) >= (1, 1)));
    Form { format, codec: if is_new { Codec::Zstd } else { Codec::Gzip } }
}

/// `apptainer version 1.4.5-2`, and what else it may say.
fn apptainer(text: &str) -> (u32, u32) {
    let number = text.split_whitespace().find(|word| word.starts_with(|letter: char| letter.is_ascii_digit()));
    let mut parts = number.unwrap_or_default().split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// On this machine everything can be seen beforehand.
fn here(wish: &Wish<'_>, home: &Home) -> Result<Option<Contained>, String> {
    let Some((profile, image)) = wish.image else { return Ok(None) };
    let path = match image {
        ImageSpec::Sif(path) => locate(Path::new(path), wish.project),
        _ => home.images().join(profile),
    };
    if matches!(image, ImageSpec::Sif(_))
        && let Err(error) = std::fs::metadata(&path)
    {
        return Err(format!("the image {} cannot be read: {error}", path.display()));
    }
    let path_variable = wish.env.get("PATH").cloned().unwrap_or_default();
    let is_there = |by: &Container| {
        let name = program(*by).unwrap_or_default();
        std::env::split_paths(&path_variable).any(|folder| folder.join(name).is_file())
    };
    let among = runtimes(image);
    let by = among.iter().copied().find(is_there);
    let by = by.ok_or_else(|| format!("the job runs in an image, and {} is in PATH here", lacking(among)))?;
    if matches!((by, image), (Container::Docker | Container::Podman, ImageSpec::Folder(_))) {
        return Err(no_folder(by));
    }
    Ok(Some(plain(by, path.to_string_lossy().into_owned())))
}
