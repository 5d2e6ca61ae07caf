//! A run that proves a target: it goes the way of every other (snapshot, parcel, script, agent), but no ledger here
//! knows it, and nothing of it stays.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as Clock};

use trainyard_agent::depot::Depot;
use trainyard_agent::disk::{now, remove_folder};
use trainyard_agent::inspect::Inspection;
use trainyard_agent::order::{Secrets, Source};
use trainyard_agent::parcel::{Member, Parcel};
use trainyard_agent::snapshot::Kind;
use trainyard_core::plan::slurm::Facts;
use trainyard_core::run::{Policy, Run, State};
use trainyard_core::spec::{self, Command, JobSpec, Layer, TargetKind, TargetSpec};

use crate::home::Home;
use crate::images::{Form, Format, write_trial};
use crate::pipe::{Pipe, PipeError};
use crate::site::{Asked, InQueue, Over, Place, Reach, Shipment, Site, job_name, open, parcel_id};
use crate::snapshot::{self, Rules, Snapshot};
use crate::submit::{self, Destination, Plan, Wish};
use crate::target::SubmitError;
use crate::transfer::{self, TransferError};

/// As SLURM shows it, before the parcel's own name.
pub const JOB: &str = "yard-check";
const FILE: &str = "proof";
/// How long a job that the scheduler has ended may take to show up in the depot: shared disks lag.
const LAG: Duration = Duration::from_secs(20);
/// How long a job may take to end after it was told to.
const LEAVING: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    #[error(transparent)]
    Submit(#[from] submit::SubmitError),
    #[error(transparent)]
    Transfer(#[from] TransferError),
    #[error(transparent)]
    Pipe(#[from] PipeError),
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Unreachable(String),
    #[error("cannot write to {}", path.display())]
    Folder { path: PathBuf, source: std::io::Error },
}

/// How it stands.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    /// In plain words why.
    Waiting(Option<String>),
    Running,
    /// What the node said, or in one sentence why it said nothing.
    Ended(Result<Box<Inspection>, String>),
}

/// The job as it would stand in a file.
pub fn job(gpus: u32) -> Result<JobSpec, ProofError> {
    let text = format!("[jobs.{JOB}]\ncommand = ['true']\ncpus = 1\ngpus = {gpus}\ntime = '1m'\n");
    let layer = Layer { name: JOB.to_owned(), text };
    let loaded = spec::load(&[layer], &[], JOB).map_err(|error| ProofError::Refused(error.to_string()))?;
    loaded.config.jobs.get(JOB).cloned().ok_or_else(|| ProofError::Refused(format!("there is no job `{JOB}`")))
}

/// One that is dropped before [`Proof::end`] leaves its job to its minute, and a few small files in the depot.
pub struct Proof<'a> {
    reach: &'a Reach,
    target: &'a TargetSpec,
    pipe: &'a mut Pipe,
    site: Box<dyn Site>,
    asked: Asked,
    token: String,
    /// Other than a machine's own queue.
    has_scheduler: bool,
    /// To be removed.
    traces: Vec<String>,
    /// When the scheduler first said that it is over while the depot knew nothing of it.
    over: Option<(Clock, String)>,
}

impl<'a> Proof<'a> {
    /// Sends it. What was sent before a failure is removed again.
    pub fn send(
        reach: &'a Reach,
        pipe: &'a mut Pipe,
        target: &'a TargetSpec,
        home: &Home,
        facts: Option<&Facts>,
        gpus: u32,
    ) -> Result<Self, ProofError> {
        let mut job = job(gpus)?;
        let call = [pipe.agent(), "agent", "inspect", "--depot", pipe.depot(), "--proof", FILE];
        // Braces are placeholders.
        job.command = Command::Argv(call.map(|word| word.replace('{', "{{")).to_vec());
        let token = parcel_id();
        let plan = plan(&without_mail(target), &job, home, facts)?;
        let (Destination::Site(site_plan), [run]) = (&plan.destination, &plan.runs[..]) else {
            return Err(ProofError::Refused(format!("`{}` is no site", target.name)));
        };
        let site = open(reach, target)?;
        let snapshot = snapshot_of(&token, submit::image_form(target, facts).ok())?;
        let parcel = Parcel {
            id: token.clone(),
            source: Source::Snapshot(snapshot.digest.clone()),
            extra: Vec::new(),
            env: plan.env.clone(),
            groups: vec![vec![Member {
                id: run.id,
                name: run.name.clone(),
                seed: None,
                params: run.params.clone(),
                from: None,
                tied: None,
                run: Run::new(Policy { attempts: 1, on: Vec::new() }, now()),
            }]],
            lanes: site_plan.lanes,
            scheduler: site_plan.scheduler(JOB, &token),
            job,
        };
        let traces = traces(&Depot::new(pipe.depot()), &snapshot, &parcel);
        let asked = Asked {
            run: run.id,
            place: Place { parcel: token.clone(), group: 0 },
            job: JOB.to_owned(),
            known: 0,
            begun: false,
            sent: now(),
            sequential: false,
            pack: 1,
        };
        let has_scheduler = matches!(target.kind, TargetKind::Slurm(_));
        let mut proof = Self { reach, target, pipe, site, asked, token, has_scheduler, traces, over: None };
        let sent = transfer::upload(proof.pipe, &snapshot, None, &mut |_| {}).map_err(ProofError::from);
        let shipment = Shipment { parcel, plan: (**site_plan).clone(), secrets: Secrets::default() };
        let posted = sent.and_then(|_| proof.submit(&shipment));
        remove_source(&snapshot);
        match posted {
            Ok(_) => Ok(proof),
            Err(error) => {
                // The first error says more.
                drop(proof.end());
                Err(error)
            }
        }
    }

    /// Once more over a new connection where the answer was lost: a job that nobody knows of must not stay.
    fn submit(&mut self, shipment: &Shipment) -> Result<(), ProofError> {
        match self.site.submit(shipment) {
            Err(SubmitError::Unreachable(_) | SubmitError::Unsure(_)) => {
                self.reconnect()?;
                self.site.submit(shipment).map(drop).map_err(said)
            }
            answered => answered.map(drop).map_err(said),
        }
    }

    fn reconnect(&mut self) -> Result<(), PipeError> {
        self.site = open(self.reach, self.target)?;
        *self.pipe = self.reach.pipe(self.target)?;
        Ok(())
    }

    /// As the scheduler knows it.
    pub fn name(&self) -> String {
        job_name(JOB, &self.token)
    }

    /// A connection that broke is made anew once.
    pub fn look(&mut self) -> Result<Standing, PipeError> {
        self.again(Self::look_once)
    }

    fn again<T>(&mut self, ask: fn(&mut Self) -> Result<T, PipeError>) -> Result<T, PipeError> {
        match ask(self) {
            Err(error) if error.is_broken() => {
                self.reconnect()?;
                ask(self)
            }
            answered => answered,
        }
    }

    fn look_once(&mut self) -> Result<Standing, PipeError> {
        let seen = self.site.observe(std::slice::from_ref(&self.asked))?.into_iter().next();
        let Some(seen) = seen else { return Ok(Standing::Running) };
        self.asked.begun |= seen.finding.as_ref().is_some_and(|found| found.state.is_some());
        let state = seen.finding.as_ref().and_then(|found| found.state.as_ref()).map(|state| &state.run.state);
        if let Some(state) = state.filter(|state| state.has_ended()) {
            let state = state.clone();
            return Ok(Standing::Ended(self.hear(&state)?));
        }
        let over = match seen.queue {
            InQueue::Waiting { why } => return Ok(Standing::Waiting(why)),
            InQueue::Other { state } => return Ok(Standing::Waiting(Some(format!("the scheduler says `{state}`")))),
            // The test job has no secrets.
            InQueue::Running | InQueue::WantsSecrets => return Ok(Standing::Running),
            InQueue::Absent | InQueue::Unsettled => "is not in the queue any more".to_owned(),
            InQueue::Over(over) => words(&over),
        };
        let (since, over) = self.over.get_or_insert_with(|| (Clock::now(), over));
        if since.elapsed() < LAG {
            return Ok(Standing::Running);
        }
        let over = over.clone();
        let said = self.scheduler_output()?;
        let said = if said.is_empty() { String::new() } else { format!(", and said: {said}") };
        let depot = self.pipe.depot();
        Ok(Standing::Ended(Err(format!(
            "the test job {over} and left no trace in {depot}{said}; do the nodes see that folder?"
        ))))
    }

    /// Ends the job if it is still there, and removes everything. Ctrl-C in a terminal ends the connections too, so
    /// this may have to make them anew.
    pub fn end(mut self) -> Result<(), PipeError> {
        self.again(Self::end_once)
    }

    fn end_once(&mut self) -> Result<(), PipeError> {
        let until = Clock::now() + LEAVING;
        let mut told = false;
        loop {
            let seen = self.site.observe(std::slice::from_ref(&self.asked))?.into_iter().next();
            let queue = seen.as_ref().map(|seen| &seen.queue);
            let has_ended = seen.as_ref().and_then(|seen| seen.finding.as_ref()?.state.as_ref());
            let has_ended = has_ended.is_some_and(|state| state.run.state.has_ended());
            let is_known = matches!(queue, Some(InQueue::Waiting { .. } | InQueue::Running | InQueue::Other { .. }));
            // A machine's queue says nothing of its own about runs that have ended.
            let is_machine = matches!(queue, Some(InQueue::Running)) && has_ended && !self.has_scheduler;
            if !is_known || is_machine || Clock::now() >= until {
                break;
            }
            if !has_ended && !told {
                self.site.cancel(std::slice::from_ref(&self.asked), true)?;
                told = true;
            }
            std::thread::sleep(PAUSE);
        }
        self.site.forget(&[self.asked.run])?;
        self.pipe.remove(&self.traces)
    }

    fn hear(&mut self, state: &State) -> Result<Result<Box<Inspection>, String>, PipeError> {
        let path = format!("{}/runs/{}/attempts/1/output.log", self.pipe.depot(), self.asked.run);
        let log = self.pipe.read(&path, 0, 1 << 20)?;
        let text = String::from_utf8_lossy(&log).into_owned();
        let found = text.lines().find_map(|line| serde_json::from_str::<Inspection>(line).ok());
        Ok(match (found, state) {
            (Some(found), State::Succeeded { .. }) if found.proof.as_deref() == Some(self.token.as_str()) => {
                Ok(Box::new(found))
            }
            (Some(_), State::Succeeded { .. }) => {
                Err("the test job ran, but not with the file that was sent with it".to_owned())
            }
            (_, State::Failed { reason, .. }) => Err(format!("the test job failed: {reason}")),
            (_, State::Cancelled { .. }) => Err("the test job was cancelled by somebody".to_owned()),
            _ => Err(format!("the test job said: {}", text.lines().last().unwrap_or("nothing").trim())),
        })
    }

    fn scheduler_output(&mut self) -> Result<String, PipeError> {
        let folder = format!("{}/parcels/{}", self.pipe.depot(), self.token);
        let is_output = |path: &&String| path.ends_with(".out");
        let listed = self.pipe.list(&folder)?;
        let names: Vec<String> = listed.into_iter().map(|listed| format!("{folder}/{}", listed.path)).collect();
        let Some(path) = names.iter().find(is_output) else { return Ok(String::new()) };
        let text = self.pipe.read(path, 0, 1 << 16)?;
        Ok(String::from_utf8_lossy(&text).lines().last().unwrap_or_default().trim().to_owned())
    }
}

fn said(error: SubmitError) -> ProofError {
    match error {
        SubmitError::Refused(why) => ProofError::Refused(why),
        SubmitError::Unreachable(error) | SubmitError::Unsure(error) => ProofError::Unreachable(error.to_string()),
    }
}

fn words(over: &Over) -> String {
    match over {
        Over::Ended => "ended".to_owned(),
        Over::Cancelled => "was cancelled".to_owned(),
        Over::TimeLimit => "ran into its time limit".to_owned(),
        Over::Preempted => "was preempted".to_owned(),
        Over::NodeFailure => "lost its node".to_owned(),
        Over::OutOfMemory => "ran out of memory".to_owned(),
        Over::Failed { how } => format!("failed ({how})"),
    }
}

/// Of files that no other snapshot holds, so that they can be removed without a look at others: a word, and an image to be
/// opened where images are run as files.
fn snapshot_of(token: &str, form: Option<Form>) -> Result<Snapshot, ProofError> {
    let folder = std::env::temp_dir().join(format!("{JOB}-{token}"));
    let failed = |source| ProofError::Folder { path: folder.clone(), source };
    fs_err::create_dir(&folder).and_then(|()| fs_err::write(folder.join(FILE), token)).map_err(failed)?;
    if let Some(form) = form.filter(|form| form.format == Format::Sif) {
        write_trial(&folder.join(FILE).with_extension("sif"), token, form).map_err(failed)?;
    }
    let scanned = snapshot::scan(&folder, &Rules::default(), Path::new(""));
    if scanned.is_err() {
        drop(remove_folder(&folder));
    }
    Ok(scanned.map_err(submit::SubmitError::from)?)
}

fn remove_source(snapshot: &Snapshot) {
    for folder in snapshot.files.values().filter_map(|file| file.parent()) {
        // In the folder for temporary files; others sweep there too.
        drop(remove_folder(folder));
    }
}

fn plan(target: &TargetSpec, job: &JobSpec, home: &Home, facts: Option<&Facts>) -> Result<Plan, ProofError> {
    let wish = Wish {
        image: None,
        project: Path::new("/"),
        rules: Rules::default(),
        job,
        target,
        seeds: Vec::new(),
        name: None,
        extra: Vec::new(),
        env: std::collections::BTreeMap::new(),
    };
    Ok(submit::plan(&wish, home, facts)?)
}

/// Nobody wants to hear from SLURM about a check they are looking at.
fn without_mail(target: &TargetSpec) -> TargetSpec {
    let mut target = target.clone();
    if let TargetKind::Slurm(slurm) = &mut target.kind {
        slurm.mail = None;
        slurm.mail_type.clear();
    }
    target
}

fn traces(depot: &Depot, snapshot: &Snapshot, parcel: &Parcel) -> Vec<String> {
    let blobs = snapshot.manifest.entries.iter().filter_map(|entry| match &entry.kind {
        Kind::File { blob, .. } => Some(depot.blob(blob)),
        Kind::Folder | Kind::Link { .. } => None,
    });
    let runs = parcel.groups.iter().flatten().map(|member| depot.run(member.id).path().to_owned());
    let mut paths: Vec<PathBuf> = runs.chain([depot.parcel(&parcel.id), depot.snapshot(&snapshot.digest)]).collect();
    paths.extend(blobs);
    paths.into_iter().map(|path| path.to_string_lossy().into_owned()).collect()
}

/// GPUs that the test job asks for: one, where the target's nodes have any.
pub fn gpus(target: &TargetSpec, facts: Option<&Facts>) -> u32 {
    let TargetKind::Slurm(slurm) = &target.kind else { return 0 };
    let partitions = facts.and_then(|facts| facts.partitions_for(slurm.partition.as_deref())).unwrap_or_default();
    u32::from(partitions.iter().flat_map(|one| &one.nodes).any(|nodes| nodes.gpu_count() > 0))
}
