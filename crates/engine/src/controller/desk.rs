//! The laptop's side of a controller.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as Clock};

use trainyard_agent::depot::Depot;
use trainyard_agent::order::{Secrets, Source};
use trainyard_agent::ray::{SEAL, entry};
use trainyard_core::plan::ray::{JobStatus, Need, RuntimeEnv, Submission, package_uri};
use trainyard_core::spec::{JobSpec, RaySpec, Setting, SweepSpec, TargetKind, TargetSpec};

use super::{DEPOT, Handover, Heard, JOB, TOKEN, Wish, has_work, places};
use crate::ledger::{Ledger, LedgerError};
use crate::pipe::{Pipe, PipeError, agent_at};
use crate::queue::{secrets as under_their_keys, with_own_secrets};
use crate::ray::{self, Agent, Ray, RayError};
use crate::site::{Reach, WANTS_SECRETS, is_secret_key};
use crate::submit::{Delivered, Plan, batch};

/// For a job to be started and a sweep to be taken up; Ray itself may be slow.
const PATIENCE: Duration = Duration::from_secs(180);
const SOON: Duration = Duration::from_millis(300);

#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    #[error(transparent)]
    Pipe(#[from] PipeError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("{0}")]
    NotThere(String),
    #[error("the controller failed: {0}")]
    Failed(String),
    #[error("the secret for {name}: {why}")]
    Secret { name: String, why: String },
    #[error("it is not known whether the controller has taken the sweep up")]
    Unsure,
    #[error("cannot put a package together")]
    Package(#[source] std::io::Error),
}

impl From<RayError> for DeskError {
    fn from(error: RayError) -> Self {
        Self::Pipe(error.into())
    }
}

/// The project from which a controller is spoken to: its jobs say where secrets are found again.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    pub project: &'a Path,
    pub jobs: &'a BTreeMap<String, JobSpec>,
}

/// A talk with the controller of one cluster.
#[derive(Debug)]
pub struct Desk {
    target: TargetSpec,
    spec: RaySpec,
    ray: Ray,
    pipe: Pipe,
    agent: Agent,
    /// The depot of this machine, which has the code.
    home: Depot,
}

impl Desk {
    /// Nobody is asked anything yet.
    pub fn open(reach: &Reach, target: &TargetSpec) -> Result<Self, DeskError> {
        let TargetKind::Ray(spec) = &target.kind else {
            let kind = target.kind.name();
            let why = format!("`{}` is of kind `{kind}`; controllers run on Ray clusters", target.name);
            return Err(DeskError::NotThere(why));
        };
        let [address] = &spec.addresses[..] else {
            let why = format!(
                "`{}` names several clusters, and a controller runs on one: make a target with one address for it",
                target.name
            );
            return Err(DeskError::NotThere(why));
        };
        let (ray, agent) = (Ray::open(spec, address)?, agent_at(&reach.program)?);
        let pipe = reach.pipe(target)?;
        Ok(Self { target: target.clone(), spec: spec.clone(), ray, pipe, agent, home: reach.home.clone() })
    }

    /// Returns the number that the sweep has there, once it is in the ledger there.
    pub fn hand_over(&mut self, spec: &SweepSpec, plan: Plan, delivered: Delivered) -> Result<i64, DeskError> {
        let id = uuid::Uuid::now_v7().simple().to_string();
        let (mut batch, _) = batch(plan, delivered);
        let secrets = revealed(&batch.job, &id, &batch.project)?;
        batch.job = with_own_secrets(&batch.job, &id);
        batch.project = PathBuf::from(self.pipe.depot());
        let handover = Handover { id: id.clone(), spec: spec.clone(), batch };
        let job = self.submit(Some(&handover), secrets)?;
        self.wait_for(&job, &id)
    }

    /// Starts a controller if there is something to do and nobody does it, or if somebody waits for secrets that are to be
    /// had here. Returns whether it was gone.
    pub fn rouse(&mut self, ledger: &Ledger, around: &Around<'_>) -> Result<bool, DeskError> {
        let is_gone = has_work(ledger)? && !self.is_at_work()?;
        let is_wanting = || -> Result<bool, DeskError> {
            let wants = ledger.open_rows()?.iter().any(|row| row.note.as_deref() == Some(WANTS_SECRETS));
            Ok(wants && !found_again(ledger, around)?.is_empty())
        };
        if is_gone || is_wanting()? {
            self.start(ledger, around)?;
        }
        Ok(is_gone)
    }

    /// A controller without a sweep of its own: it takes up what the ledger there holds.
    pub fn start(&mut self, ledger: &Ledger, around: &Around<'_>) -> Result<(), DeskError> {
        self.submit(None, found_again(ledger, around)?).map(drop)
    }

    fn submit(&self, handover: Option<&Handover>, secrets: BTreeMap<String, String>) -> Result<String, DeskError> {
        let mut secrets = Secrets(secrets);
        secrets.0.extend(ray::token(&self.spec)?.map(|token| (TOKEN.to_owned(), token)));
        ray::send_agent(&self.ray, &self.agent.path, &self.agent.hash)?;
        let mut packages = vec![self.agent.uri()];
        if let Some(Source::Snapshot(digest)) = handover.map(|handover| &handover.batch.source) {
            let code = ray::snapshot_packages(&self.home, digest).map_err(DeskError::Package)?;
            packages.extend(code.iter().map(|package| package_uri(&package.name)));
        }
        let mut env_vars = BTreeMap::new();
        let sealed = ray::seal_secrets(&secrets).map_err(DeskError::Package)?.map(|(seal, sealed)| {
            env_vars.insert(SEAL.to_owned(), seal.text());
            sealed
        });
        let what = handover.map(|handover| (entry::HANDOVER, handover));
        let (name, bytes) = ray::letter_package(what, sealed).map_err(DeskError::Package)?;
        self.ray.put_package(&name, &bytes)?;
        packages.push(package_uri(&name));
        let nodes = self.ray.nodes()?;
        let head =
            nodes.first().ok_or_else(|| RayError::Refused("the cluster has no node that is alive".to_owned()))?;
        let id = format!("{JOB}-{}", uuid::Uuid::now_v7().simple());
        self.ray.submit(&Submission {
            entrypoint: self.agent.entrypoint(self.pipe.depot(), &format!("--keep {id}"))?,
            submission_id: id.clone(),
            runtime_env: RuntimeEnv { py_modules: packages, env_vars, ..RuntimeEnv::default() },
            metadata: BTreeMap::from([(DEPOT.to_owned(), self.pipe.depot().to_owned())]),
            entrypoint_num_cpus: Some(0.0),
            entrypoint_num_gpus: None,
            entrypoint_memory: None,
            entrypoint_resources: Need::place(head).resources,
        })?;
        Ok(id)
    }

    fn wait_for(&mut self, job: &str, handover: &str) -> Result<i64, DeskError> {
        let until = Clock::now() + PATIENCE;
        let receipt = format!("{}/{}", self.pipe.depot(), places::receipt(handover));
        loop {
            let row = self.ray.job(job)?;
            let has_ended = row.as_ref().is_none_or(|row| row.status.has_ended());
            // A job that waits has nothing to show, and neither has a head that never had one of ours.
            if row.as_ref().is_some_and(|row| row.status != JobStatus::Pending)
                && let Ok(found) = self.pipe.read(&receipt, 0, 1 << 16)
                && let Ok(receipt) = serde_json::from_slice::<places::Receipt>(&found)
            {
                return Ok(receipt.sweep);
            }
            match row {
                Some(row) if has_ended => return Err(DeskError::Failed(ray::last_line(&row.message))),
                _ if Clock::now() > until => return Err(DeskError::Unsure),
                _ => std::thread::sleep(SOON),
            }
        }
    }

    /// Whether a controller of this depot runs, or is about to.
    fn is_at_work(&self) -> Result<bool, DeskError> {
        let is_ours = |id: &str| id.starts_with(JOB);
        let jobs = self.ray.jobs()?;
        Ok(jobs
            .iter()
            .filter(|job| is_ours(&job.id) && !job.status.has_ended())
            .any(|job| job.metadata.get(DEPOT).is_some_and(|depot| depot == self.pipe.depot())))
    }

    pub fn ask(&mut self, wish: &Wish) -> Result<Heard, DeskError> {
        Ok(self.pipe.call(&["controller", "hear"], wish, &BTreeMap::new(), PATIENCE)?)
    }

    /// The ledger there, as it was a moment ago, with runs that are reached from here; `None` if there is none.
    pub fn ledger(&mut self, project: &Path) -> Result<Option<Ledger>, DeskError> {
        let path = format!("{}/{}", self.pipe.depot(), places::copy());
        let mut bytes = self.pipe.read(&path, 0, u64::MAX)?;
        // A head that was started anew shows nothing until somebody was there.
        if bytes.is_empty() && self.ask(&Wish::Look)? != Heard::Nobody {
            bytes = self.pipe.read(&path, 0, u64::MAX)?;
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        let mut ledger = Ledger::of_copy(&bytes)?;
        ledger.redirect(&self.target, project)?;
        Ok(Some(ledger))
    }
}

/// Secrets of sweeps that go on. What is not to be had here is waited for there.
fn found_again(ledger: &Ledger, around: &Around<'_>) -> Result<BTreeMap<String, String>, DeskError> {
    let mut secrets = BTreeMap::new();
    for sweep in ledger.open_sweeps()? {
        for id in &sweep.batches {
            let kept = ledger.batch(*id)?.job;
            if let (Some(handover), Some(job)) = (handover_of(&kept), around.jobs.get(&kept.name)) {
                secrets.extend(revealed(job, &handover, around.project).unwrap_or_default());
            }
        }
    }
    Ok(secrets)
}

/// The values of a job's secrets, under the keys by which the controller knows them.
fn revealed(job: &JobSpec, handover: &str, project: &Path) -> Result<BTreeMap<String, String>, DeskError> {
    let mut values = Secrets::default();
    for (name, setting) in &job.env {
        if let Setting::Secret(reference) = setting {
            let failed = |why| DeskError::Secret { name: name.clone(), why };
            values.0.insert(name.clone(), ray::reveal(reference, project).map_err(failed)?);
        }
    }
    Ok(under_their_keys(handover, values))
}

/// The handover that a job's secrets came with, if it has any.
fn handover_of(job: &JobSpec) -> Option<String> {
    job.env.values().find_map(|setting| match setting {
        Setting::Secret(trainyard_core::spec::SecretRef::Env(key)) if is_secret_key(key) => {
            key.split_once('/').map(|(handover, _)| handover.to_owned())
        }
        Setting::Secret(_) | Setting::Text(_) => None,
    })
}
