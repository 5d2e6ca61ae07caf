//! From a job to runs in the ledger. Planning touches nothing; carrying out writes the snapshot, then the ledger,
//! and nothing else: from there on the yardmaster sees to it.

mod around;
mod group;
mod record;
mod sites;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trainyard_agent::depot::{Depot, ImageName};
use trainyard_agent::disk::now;
use trainyard_agent::order::{Secrets, Source};
use trainyard_agent::params_file::{self, ParamsFileError};
use trainyard_agent::parcel::{Member, Parcel};
use trainyard_core::id::RunId;
use trainyard_core::plan::arguments::{ArgumentError, Invocation, command_line};
use trainyard_core::plan::slurm::Facts;
use trainyard_core::run::{Policy, Run, Tie};
use trainyard_core::spec::{ImageSpec, JobSpec, TargetKind, TargetSpec};
use trainyard_core::template::Values;
use trainyard_core::value::Params;

use crate::home::{Home, locate};
use crate::images::{Form, Wanted};
use crate::ledger::{LedgerError, new_id};
use crate::pipe::{Pipe, PipeError};
use crate::site::{Known, Shipment, SitePlan, depot_of, script};
use crate::snapshot::{Rules, SnapshotError};
use crate::target::Declared;
use crate::transfer::TransferError;

pub use group::tie;
pub(crate) use record::batch;
pub use record::{Courier, Delivered, Recorded, again, deliver, record};

/// What somebody wants to run.
#[derive(Debug, Clone)]
pub struct Wish<'a> {
    pub project: &'a Path,
    pub rules: Rules,
    pub job: &'a JobSpec,
    /// The one the job names, with its name.
    pub image: Option<(&'a str, &'a ImageSpec)>,
    pub target: &'a TargetSpec,
    pub seeds: Vec<u64>,
    /// The readable name; the job's own when none is given.
    pub name: Option<String>,
    pub extra: Vec<String>,
    pub env: BTreeMap<String, String>,
}

/// What would be done, as plain data.
#[derive(Debug, Clone)]
pub struct Plan {
    pub project: PathBuf,
    pub rules: Rules,
    /// What the project's files hashed to last time.
    pub cache: PathBuf,
    pub job: JobSpec,
    /// To be made, brought and [settled](Plan::settle) before the runs are recorded.
    pub image: Option<Wanted>,
    pub target: String,
    pub destination: Destination,
    pub extra: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub runs: Vec<PlannedRun>,
    /// Set by [`tie`] for a job of a group.
    pub tie: Option<Tie>,
}

impl Plan {
    /// The image that was wanted lies there; its name says what it holds, so nothing changes it under a run.
    pub fn settle(&mut self, path: String) {
        if let Some(container) = &mut self.job.around.container {
            container.image = path;
        }
        self.image = None;
    }
}

/// Where the runs of a plan go.
#[derive(Debug, Clone)]
pub enum Destination {
    Here { declared: Declared, depot: Depot },
    Site(Box<SitePlan>),
}

#[derive(Debug, Clone)]
pub struct PlannedRun {
    pub id: RunId,
    pub name: String,
    pub seed: Option<u64>,
    pub params: Params,
    pub call: Invocation,
}

#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    #[error("`jobs.{job}`: {source}")]
    Arguments { job: String, source: ArgumentError },
    #[error("`jobs.{job}`: {source}")]
    ParamsFile { job: String, source: ParamsFileError },
    #[error("target `{target}` is of kind `{kind}`, which this yard cannot run on yet")]
    Kind { target: String, kind: &'static str },
    #[error("`jobs.{job}`: `in-place` runs in the folder of this machine, and `{target}` is another")]
    InPlace { job: String, target: String },
    #[error("`{target}` would not run it: {why}")]
    Refused { target: String, why: String },
    #[error("job `{job}` runs in place: several runs at once would share one folder")]
    SharedFolder { job: String },
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Transfer(#[from] TransferError),
}

/// Checks everything that can be checked here. `facts` is what is known of a SLURM site.
pub fn plan(wish: &Wish<'_>, home: &Home, facts: Option<&Facts>) -> Result<Plan, SubmitError> {
    let destination = destination(wish, home, facts)?;
    let refused = |why: String| SubmitError::Refused { target: wish.target.name.clone(), why };
    let job = around::surround(wish, home, facts).map_err(refused)?;
    let image = around::wanted(wish, &job, facts);
    if wish.job.in_place && wish.seeds.len() > 1 {
        return Err(SubmitError::SharedFolder { job: wish.job.name.clone() });
    }
    let seeds: Vec<Option<u64>> =
        if wish.seeds.is_empty() { vec![None] } else { wish.seeds.iter().copied().map(Some).collect() };
    let runs = seeds.into_iter().map(|seed| plan_run(wish, seed)).collect::<Result<Vec<_>, _>>()?;
    check_template(wish, &runs)?;
    let is_here = matches!(destination, Destination::Here { .. });
    Ok(Plan {
        project: wish.project.to_owned(),
        rules: wish.rules.clone(),
        cache: home.scan_cache(wish.project),
        job,
        image,
        target: wish.target.name.clone(),
        destination,
        extra: wish.extra.clone(),
        // A site has paths and programs of its own.
        env: if is_here { wish.env.clone() } else { BTreeMap::new() },
        runs,
        tie: None,
    })
}

fn destination(wish: &Wish<'_>, home: &Home, facts: Option<&Facts>) -> Result<Destination, SubmitError> {
    let target = wish.target;
    if wish.job.in_place && !matches!(target.kind, TargetKind::Local(_)) {
        return Err(SubmitError::InPlace { job: wish.job.name.clone(), target: target.name.clone() });
    }
    if let Some(why) = group::misplaced(wish.job, &target.kind) {
        return Err(SubmitError::Refused { target: target.name.clone(), why });
    }
    match &target.kind {
        TargetKind::Local(limits) => Ok(Destination::Here { declared: Declared::of(limits), depot: depot(wish, home) }),
        TargetKind::Slurm(slurm) => sites::slurm(wish, slurm, facts).map(|plan| Destination::Site(Box::new(plan))),
        TargetKind::Ssh(_) => Ok(Destination::Site(Box::new(sites::machine(wish)?))),
        TargetKind::Ray(_) => Ok(Destination::Site(Box::new(sites::ray(wish)?))),
        other => Err(SubmitError::Kind { target: target.name.clone(), kind: other.name() }),
    }
}

fn depot(wish: &Wish<'_>, home: &Home) -> Depot {
    let named = wish.target.depot.as_ref();
    named.map_or_else(|| home.depot(), |path| Depot::new(locate(Path::new(path), wish.project)))
}

fn plan_run(wish: &Wish<'_>, seed: Option<u64>) -> Result<PlannedRun, SubmitError> {
    let base = wish.name.as_deref().unwrap_or(&wish.job.name);
    let name = seed.map_or_else(|| base.to_owned(), |seed| format!("{base}-s{seed}"));
    let id = new_id();
    let params = wish.job.params.clone();
    let call = command_line(wish.job, &values(wish.job, id, &name, seed, &params), &wish.extra)
        .map_err(|source| SubmitError::Arguments { job: wish.job.name.clone(), source })?;
    Ok(PlannedRun { id, name, seed, params, call })
}

/// Runs of a submission differ in their seed only, so the first tells whether the template takes their parameters.
fn check_template(wish: &Wish<'_>, runs: &[PlannedRun]) -> Result<(), SubmitError> {
    let Some(PlannedRun { id, name, seed, params, .. }) = runs.first() else { return Ok(()) };
    params_file::check(wish.job, &values(wish.job, *id, name, *seed, params), wish.project)
        .map_err(|source| SubmitError::ParamsFile { job: wish.job.name.clone(), source })
}

fn values<'a>(job: &JobSpec, id: RunId, name: &str, seed: Option<u64>, params: &'a Params) -> Values<'a> {
    Values {
        seed,
        run: id.to_string(),
        name: name.to_owned(),
        job: job.name.clone(),
        attempt: 1,
        checkpoint: None,
        size: job.size(),
        params,
    }
}

/// The batch scripts that a site would be sent, one for each submission to its scheduler. The names of the parcels are
/// still to be drawn.
pub fn scripts(plan: &Plan, known: Option<&Known>) -> Result<Vec<String>, String> {
    let Destination::Site(site) = &plan.destination else { return Ok(Vec::new()) };
    if !matches!(site.target.kind, TargetKind::Slurm(_)) {
        return Ok(Vec::new());
    }
    let depot = known.map_or_else(|| depot_of(&site.target), |known| known.root.clone());
    let agent = known.map_or_else(|| format!("{depot}/bin/yard"), |known| known.agent.clone());
    let (pack, most) = (site.pack.max(1) as usize, site.most_groups.max(1) as usize);
    let policy = Policy { attempts: plan.job.resume.attempts, on: plan.job.resume.on.clone() };
    let member = |run: &PlannedRun| Member {
        id: run.id,
        name: run.name.clone(),
        seed: run.seed,
        params: run.params.clone(),
        from: None,
        tied: None,
        run: Run::new(policy.clone(), now()),
    };
    let of_portion = |portion: &[PlannedRun]| {
        let id = "y0000000000000000".to_owned();
        let parcel = Parcel {
            job: plan.job.clone(),
            source: Source::InPlace(PathBuf::new()),
            extra: plan.extra.clone(),
            env: plan.env.clone(),
            groups: portion.chunks(pack).map(|group| group.iter().map(member).collect()).collect(),
            lanes: site.lanes,
            scheduler: site.scheduler(&plan.job.name, &id),
            id,
        };
        let shipment = Shipment { parcel, plan: (**site).clone(), secrets: Secrets::default() };
        script(&shipment, &depot, &agent)
    };
    plan.runs.chunks(pack.saturating_mul(most)).map(of_portion).collect()
}

/// The image that a site has to have for this, as a path there.
pub fn image_at_site(plan: &Plan) -> Option<&str> {
    let container = plan.job.around.container.as_ref()?;
    matches!(plan.destination, Destination::Site(_)).then_some(container.image.as_str())
}

/// Why the site cannot use the image, if so: asked there, before anything is sent.
pub fn missing_image(pipe: &mut Pipe, image: &str) -> Result<Option<String>, PipeError> {
    let words = ["sh", "-c", LOOK_FOR_IMAGE, "sh", image];
    let ran = pipe.run(&words.map(str::to_owned), &[], &BTreeMap::new(), IMAGE_PATIENCE)?;
    let why = ran.stdout().trim().to_owned();
    Ok((!why.is_empty()).then(|| format!("the image {image} {why}")))
}

/// Says what is wrong with it, or nothing.
const LOOK_FOR_IMAGE: &str = r#"
image=$1
case $image in '~/'*) image=$HOME/${image#'~/'};; esac
if [ ! -e "$image" ]; then echo 'is not there; copy it there, or correct `sif`'
elif [ ! -r "$image" ]; then echo 'is there, but you may not read it'
elif [ ! -s "$image" ]; then echo 'is there, but empty'; fi
"#;
const IMAGE_PATIENCE: Duration = Duration::from_secs(60);

/// What images have to be for a target.
pub fn image_form(target: &TargetSpec, facts: Option<&Facts>) -> Result<Form, SubmitError> {
    around::form_at(target, facts).map_err(|why| SubmitError::Refused { target: target.name.clone(), why })
}

/// Where an image lies in a site's depot.
pub fn image_in(depot: &str, name: &ImageName) -> String {
    format!("{depot}/images/{name}")
}
