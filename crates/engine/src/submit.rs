//! From a job to runs in the ledger. Planning touches nothing; carrying out writes the snapshot, then the ledger,
//! and nothing else: from there on the yardmaster sees to it.

mod around;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trainyard_agent::depot::{Depot, ImageName};
use trainyard_agent::disk::now;
use trainyard_agent::order::{Secrets, Source};
use trainyard_agent::params_file::{self, ParamsFileError};
use trainyard_agent::parcel::{Member, Parcel};
use trainyard_core::id::{Digest, RunId};
use trainyard_core::plan::arguments::{ArgumentError, Invocation, command_line};
use trainyard_core::plan::slurm::{self, Facts};
use trainyard_core::run::{Policy, Run};
use trainyard_core::spec::{ImageSpec, JobSpec, ResumeBy, SlurmSpec, TargetKind, TargetSpec};
use trainyard_core::template::Values;
use trainyard_core::time::Span;
use trainyard_core::value::Params;

use crate::home::{Home, locate};
use crate::images::{Form, Wanted};
use crate::ledger::{Batch, Ledger, LedgerError, NewRun, new_id};
use crate::pipe::{Pipe, PipeError};
use crate::provenance::{Provenance, inquire};
use crate::site::{Known, Shipment, SitePlan, depot_of, script};
use crate::snapshot::{self, Rules, SnapshotError};
use crate::target::Declared;
use crate::transfer::TransferError;

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
    })
}

fn destination(wish: &Wish<'_>, home: &Home, facts: Option<&Facts>) -> Result<Destination, SubmitError> {
    let target = wish.target;
    if wish.job.in_place && !matches!(target.kind, TargetKind::Local(_)) {
        return Err(SubmitError::InPlace { job: wish.job.name.clone(), target: target.name.clone() });
    }
    match &target.kind {
        TargetKind::Local(limits) => Ok(Destination::Here { declared: Declared::of(limits), depot: depot(wish, home) }),
        TargetKind::Slurm(slurm) => slurm_plan(wish, slurm, facts).map(|plan| Destination::Site(Box::new(plan))),
        TargetKind::Ssh(_) => Ok(Destination::Site(Box::new(machine_plan(wish)?))),
        TargetKind::Ray(_) => Ok(Destination::Site(Box::new(ray_plan(wish)?))),
        other => Err(SubmitError::Kind { target: target.name.clone(), kind: other.name() }),
    }
}

fn machine_plan(wish: &Wish<'_>) -> Result<SitePlan, SubmitError> {
    if wish.job.nodes > 1 {
        let why = format!("`jobs.{}` wants {} nodes, and this is one machine", wish.job.name, wish.job.nodes);
        return Err(SubmitError::Refused { target: wish.target.name.clone(), why });
    }
    Ok(SitePlan {
        target: wish.target.clone(),
        pack: 1,
        lanes: 1,
        most_groups: u32::MAX,
        by: ResumeBy::Requeue,
        limit: None,
        notice: KILL_WAIT,
        facts: None,
    })
}

/// Ray counts shares of GPUs itself, so every run is a job of its own.
fn ray_plan(wish: &Wish<'_>) -> Result<SitePlan, SubmitError> {
    let refused = |why: String| SubmitError::Refused { target: wish.target.name.clone(), why };
    if wish.job.nodes > 1 {
        let why = format!("`jobs.{}` wants {} nodes, and a Ray job runs on one", wish.job.name, wish.job.nodes);
        return Err(refused(why));
    }
    if let Some((profile, _)) = wish.image {
        return Err(refused(format!(
            "the job runs in the image `{profile}`, and on a Ray cluster programs run in what its nodes have; set `image = \"none\"` in the job, or `--image none`"
        )));
    }
    if !depot_of(wish.target).starts_with('/') {
        return Err(refused("`depot` must be an absolute path, the same on all nodes".to_owned()));
    }
    Ok(SitePlan {
        target: wish.target.clone(),
        pack: 1,
        lanes: 1,
        most_groups: u32::MAX,
        by: ResumeBy::Requeue,
        limit: None,
        notice: trainyard_core::plan::ray::notice(wish.job),
        facts: None,
    })
}

/// SLURM's own default between SIGTERM and SIGKILL.
const KILL_WAIT: Span = Span::seconds(30);

fn slurm_plan(wish: &Wish<'_>, target: &SlurmSpec, facts: Option<&Facts>) -> Result<SitePlan, SubmitError> {
    let refused = |why: String| SubmitError::Refused { target: wish.target.name.clone(), why };
    let facts = facts.cloned().unwrap_or_default();
    if let Some(why) = slurm::refuse(wish.job, target, &facts) {
        return Err(refused(why));
    }
    let pack = slurm::runs_per_group(wish.job);
    let runs = u32::try_from(wish.seeds.len().max(1)).unwrap_or(u32::MAX);
    let attempts = wish.job.resume.attempts;
    // An array of turns serves one group, so each gets one of its own.
    let by_array = target.resume_by == Some(ResumeBy::Array);
    let groups = if by_array { 1 } else { runs.div_ceil(pack) };
    let by = slurm::mechanism(target, &facts, groups, attempts).map_err(|error| refused(error.to_string()))?;
    let alone = by == ResumeBy::Array && attempts > 1;
    Ok(SitePlan {
        target: wish.target.clone(),
        pack,
        lanes: slurm::lanes(wish.job),
        most_groups: if alone { 1 } else { facts.array_size().max(1) },
        by,
        limit: slurm::allocation_time(wish.job, target, &facts),
        notice: facts.settings.known().and_then(|settings| settings.kill_wait).unwrap_or(KILL_WAIT),
        facts: Some(facts),
    })
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

/// Git has had as long as the snapshot took; a large repository that nobody has looked at for long takes longer.
const GIT_PATIENCE: Duration = Duration::from_millis(50);

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

/// Puts the code where the runs will find it. Interrupted, it leaves nothing but contents that the next try need not send.
pub fn deliver(plan: &Plan, courier: &mut dyn Courier) -> Result<Delivered, SubmitError> {
    let inquiry = inquire(&plan.project);
    let (source, depot) = match &plan.destination {
        Destination::Here { depot, .. } if plan.job.in_place => (Source::InPlace(plan.project.clone()), depot.clone()),
        Destination::Here { depot, .. } => {
            let taken = snapshot::take(&plan.project, &plan.rules, &plan.cache, depot)?;
            (Source::Snapshot(taken.digest), depot.clone())
        }
        Destination::Site(_) => {
            let (digest, depot) = courier.bring(plan)?;
            (Source::Snapshot(digest), depot)
        }
    };
    let provenance = inquiry.and_then(|inquiry| inquiry.finish(GIT_PATIENCE));
    Ok(Delivered { source, depot, provenance })
}

/// Brings code to a site.
pub trait Courier {
    fn bring(&mut self, plan: &Plan) -> Result<(Digest, Depot), SubmitError>;
}

/// Where the code of a plan is now.
#[derive(Debug, Clone)]
pub struct Delivered {
    source: Source,
    depot: Depot,
    provenance: Option<Provenance>,
}

/// What a submission is made of: what its runs have in common, and the runs.
pub(crate) fn batch(plan: Plan, delivered: Delivered) -> (Batch, Vec<PlannedRun>) {
    let (declared, site) = match plan.destination {
        Destination::Here { declared, .. } => (declared, None),
        Destination::Site(site) => (Declared::default(), Some(*site)),
    };
    let batch = Batch {
        project: plan.project,
        target: plan.target,
        declared,
        depot: delivered.depot,
        job: plan.job,
        source: delivered.source,
        env: plan.env,
        extra: plan.extra,
        site,
        provenance: delivered.provenance,
    };
    (batch, plan.runs)
}

/// Afterwards the ledger holds all runs of the plan, or none.
pub fn record(plan: Plan, delivered: Delivered, ledger: &mut Ledger) -> Result<Vec<RunId>, SubmitError> {
    let (batch, runs) = batch(plan, delivered);
    let policy = Policy { attempts: batch.job.resume.attempts, on: batch.job.resume.on.clone() };
    let moment = now();
    let new = |run: PlannedRun| NewRun {
        id: run.id,
        name: run.name,
        seed: run.seed,
        params: run.params,
        from: None,
        run: Run::new(policy.clone(), moment),
        retry_of: None,
    };
    let runs: Vec<NewRun> = runs.into_iter().map(new).collect();
    ledger.submit(&batch, &runs, moment)?;
    Ok(runs.into_iter().map(|run| run.id).collect())
}

/// The same again: a new run with the code, settings, seed and parameters of one that has ended.
pub fn again(ledger: &mut Ledger, run: &crate::ledger::RunRow) -> Result<RunId, LedgerError> {
    let batch = ledger.batch(run.batch)?;
    let moment = now();
    let id = new_id();
    let new = NewRun {
        id,
        name: run.name.clone(),
        seed: run.seed,
        params: run.params.clone(),
        from: run.from,
        run: Run::new(run.run.policy.clone(), moment),
        retry_of: Some(run.id),
    };
    ledger.submit(&batch, &[new], moment)?;
    Ok(id)
}
