//! Ray clusters: every group of a parcel is a job of its own, named by us, on one of them.

mod choose;
mod gang;
mod look;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant as Clock};

use trainyard_agent::depot::Depot;
use trainyard_agent::inspect::Inspection;
use trainyard_agent::look::Fate;
use trainyard_agent::order::Source;
use trainyard_agent::ray::{SEAL, entry};
use trainyard_core::id::RunId;
use trainyard_core::plan::ray::{
    self as plan, JobStatus, Need, Node, RuntimeEnv, Submission, package_uri, submission_id,
};
use trainyard_core::run::{Ending, Outcome};
use trainyard_core::spec::{JobSpec, RaySpec, TargetKind, TargetSpec};
use trainyard_core::time::Span;

use super::{Asked, InQueue, Seen, Shipment, Site};
use crate::pipe::{Pipe, PipeError};
use crate::ray::{self, Agent, RUNS, Ray, RayError, Silent};
use crate::target::SubmitError;
use gang::gang_id;
use look::last_words;

/// For an agent to do what it was started for.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct RaySite {
    spec: RaySpec,
    clusters: Vec<Ray>,
    pipe: Pipe,
    agent: Agent,
    /// The depot of this machine, which has the code.
    home: Depot,
    /// A file for each parcel.
    choices: PathBuf,
    /// Parcels of runs that were asked about.
    parcels: HashMap<RunId, String>,
    silent: Silent,
    /// What was last known of each cluster, and when.
    rooms: HashMap<usize, (Clock, Room)>,
}

type Room = Rc<(Vec<Node>, plan::Usage)>;

impl RaySite {
    pub(crate) fn new(
        spec: RaySpec,
        clusters: Vec<Ray>,
        pipe: Pipe,
        agent: Agent,
        home: Depot,
        choices: PathBuf,
    ) -> Self {
        let (parcels, silent, rooms) = (HashMap::new(), Silent::default(), HashMap::new());
        Self { spec, clusters, pipe, agent, home, choices, parcels, silent, rooms }
    }

    fn send(&self, ray: &Ray, shipment: &Shipment) -> Result<(), SubmitError> {
        let parcel = &shipment.parcel;
        let Source::Snapshot(digest) = &parcel.source else {
            return Err(SubmitError::Refused("a run in place is no run for a cluster".to_owned()));
        };
        let gone = |error: std::io::Error| {
            if error.kind() == std::io::ErrorKind::NotFound {
                SubmitError::Refused(trainyard_agent::post::NO_CODE.to_owned())
            } else {
                SubmitError::Unreachable(error)
            }
        };
        ray::send(ray, &self.agent, &self.home, digest, &mut |_, _| {}).map_err(unsent)?;
        let mut packages = vec![self.agent.uri()];
        let code = ray::snapshot_packages(&self.home, digest).map_err(gone)?;
        packages.extend(code.iter().map(|package| package_uri(&package.name)));
        let mut env = self.spec.env.clone();
        let sealed = ray::seal_secrets(&shipment.secrets).map_err(SubmitError::Unreachable)?;
        let sealed = sealed.map(|(seal, sealed)| {
            env.insert(SEAL.to_owned(), seal.text());
            sealed
        });
        let what = Some((entry::PARCEL, parcel));
        let (name, bytes) = ray::letter_package(what, sealed).map_err(SubmitError::Unreachable)?;
        ray.put_package(&name, &bytes).map_err(unsent)?;
        packages.push(package_uri(&name));
        packages.extend(self.spec.py_modules.iter().cloned());
        let runtime_env = RuntimeEnv { py_modules: packages, pip: self.spec.pip.clone(), env_vars: env };
        let nodes = ray.nodes().map_err(unsent)?;
        if parcel.is_gang() {
            let submission = self.gang(parcel, runtime_env, &nodes)?;
            return ray.submit(&submission).map(drop).map_err(unsure);
        }
        let need = Need::of(&parcel.job, &self.spec, &nodes).map_err(SubmitError::Refused)?;
        for (group, members) in parcel.groups.iter().enumerate() {
            let group = u32::try_from(group).unwrap_or(u32::MAX);
            let runs: Vec<String> = members.iter().map(|member| member.id.to_string()).collect();
            if runs.is_empty() {
                continue;
            }
            let task = format!("--group {group}");
            let submission = Submission {
                entrypoint: self.agent.entrypoint(self.pipe.depot(), &task).map_err(unsent)?,
                submission_id: submission_id(&parcel.job.name, &parcel.id, group),
                runtime_env: runtime_env.clone(),
                metadata: BTreeMap::from([(RUNS.to_owned(), runs.join(" "))]),
                entrypoint_num_cpus: None,
                entrypoint_num_gpus: None,
                entrypoint_memory: None,
                entrypoint_resources: BTreeMap::new(),
            };
            ray.submit(&submission.with(&parcel.job, &need)).map_err(unsure)?;
        }
        Ok(())
    }

    /// The clusters of these, each with its own; those that were never sent are looked for on the first.
    fn by_cluster<'a>(&self, asked: &'a [Asked]) -> BTreeMap<usize, Vec<&'a Asked>> {
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut all: BTreeMap<usize, Vec<&Asked>> = BTreeMap::new();
        for it in asked {
            let parcel = it.place.parcel.as_str();
            let index = *places
                .entry(parcel)
                .or_insert_with(|| self.choice(parcel).and_then(|choice| self.index(&choice.address)).unwrap_or(0));
            all.entry(index).or_default().push(it);
        }
        all
    }

    /// What Ray knows it by.
    fn name_of(&self, asked: &Asked) -> String {
        let parcel = &asked.place.parcel;
        match self.choice(parcel) {
            Some(choice) if choice.gang => gang_id(parcel),
            _ => submission_id(&asked.job, parcel, asked.place.group),
        }
    }

    /// Asked of one node, which makes sure of it.
    fn settle_at(&mut self, place: (usize, &Node), run: RunId, attempt: u32, job: &JobSpec) -> Result<Fate, PipeError> {
        let (run, attempt) = (run.to_string(), attempt.to_string());
        let words = ["settle", "--run", &run, "--attempt", &attempt];
        self.pipe.at(place.0, place.1, |pipe| pipe.task(&words, job, PATIENCE))
    }
}

/// Nothing of it arrived.
fn unsent(error: RayError) -> SubmitError {
    match error {
        RayError::Refused(why) if !is_passing(&why) => SubmitError::Refused(why),
        RayError::Token(_) => SubmitError::Refused(error.to_string()),
        other => SubmitError::Unreachable(std::io::Error::other(super::chain(&other))),
    }
}

/// It may have arrived.
fn unsure(error: RayError) -> SubmitError {
    match error {
        RayError::Refused(why) if !is_passing(&why) => SubmitError::Refused(format!("Ray: {why}")),
        other => SubmitError::Unsure(std::io::Error::other(super::chain(&other))),
    }
}

/// A head that has just been started says so for a while.
fn is_passing(why: &str) -> bool {
    why.contains("No available agent") || why.contains("it answers 5") || why.contains("timed out")
}

impl Site for RaySite {
    fn submit(&mut self, shipment: &Shipment) -> Result<String, SubmitError> {
        let (index, passed) = self.choose(shipment)?;
        let Some(ray) = self.clusters.get(index).cloned() else {
            return Err(SubmitError::Refused("the target names no cluster".to_owned()));
        };
        self.send(&ray, shipment)?;
        let parcel = &shipment.parcel;
        let name = match parcel.is_gang() {
            true => gang_id(&parcel.id),
            false => submission_id(&parcel.job.name, &parcel.id, 0),
        };
        let place = match self.clusters.len() {
            1 => String::new(),
            _ => format!(" at {}", ray.address()),
        };
        Ok(passed.into_iter().fold(format!("Ray job {name}{place}"), |text, why| format!("{text}; {why}")))
    }

    fn observe(&mut self, asked: &[Asked]) -> Result<Vec<Seen>, PipeError> {
        let mut seen: HashMap<RunId, Seen> = HashMap::new();
        let by_cluster = self.by_cluster(asked);
        let clusters: Vec<(usize, Ray)> =
            by_cluster.keys().filter_map(|index| Some((*index, self.clusters.get(*index)?.clone()))).collect();
        for (index, jobs) in self.silent.ask(&clusters, Ray::jobs) {
            let Some(of_cluster) = by_cluster.get(&index) else { continue };
            match jobs.and_then(|jobs| self.observe_at(index, &jobs, of_cluster)) {
                Ok(found) => seen.extend(found.into_iter().map(|it| (it.run, it))),
                Err(error) if self.clusters.len() == 1 => return Err(error.into()),
                Err(error) => {
                    let state = super::chain(&error);
                    let doubt = |it: &&Asked| {
                        (it.run, Seen { run: it.run, queue: InQueue::Other { state: state.clone() }, finding: None })
                    };
                    seen.extend(of_cluster.iter().map(doubt));
                }
            }
        }
        Ok(asked.iter().filter_map(|it| seen.get(&it.run).cloned()).collect())
    }

    fn cancel(&mut self, asked: &[Asked], _insist: bool) -> Result<(), PipeError> {
        let mut trouble = None;
        for (index, of_cluster) in self.by_cluster(asked) {
            let Some(ray) = self.clusters.get(index) else { continue };
            let names: BTreeSet<String> = of_cluster.iter().map(|it| self.name_of(it)).collect();
            for name in names {
                // The others are to be stopped all the same.
                trouble = ray.stop(&name).err().or(trouble);
            }
        }
        trouble.map_or(Ok(()), |error| Err(error.into()))
    }

    fn settle(&mut self, asked: &Asked, attempt: u32, job: &JobSpec) -> Result<Fate, PipeError> {
        let run = asked.run;
        let choice = self.choice(&asked.place.parcel);
        let index = choice.as_ref().and_then(|choice| self.index(&choice.address)).unwrap_or(0);
        let row = match self.clusters.get(index) {
            Some(ray) => ray.job(&self.name_of(asked))?.filter(|row| row.status == JobStatus::Failed),
            None => None,
        };
        if let Some(row) = row.as_ref().filter(|row| row.node.is_none()) {
            // No node ever had it. What Ray has given up can be sent again; what it could not prepare would fail again.
            return Ok(if row.was_given_up() { Fate::NeverStarted } else { lost(last_words(&row.message)) });
        }
        let all = match (&choice, self.clusters.get(index)) {
            // It was sent nowhere else, so no other cluster need be there to ask.
            (Some(_), Some(ray)) => ray.nodes()?.into_iter().map(|node| (index, node)).collect(),
            _ => self.pipe.nodes()?,
        };
        let known = choice.as_ref().and_then(|choice| choice.begun.get(&run));
        if let Some((index, node)) = all.iter().find(|(_, node)| Some(&node.id) == known) {
            return self.settle_at((*index, node), run, attempt, job);
        }
        // Whoever has it says so; the others make sure that they will not begin it.
        for (index, node) in &all {
            let fate = self.settle_at((*index, node), run, attempt, job)?;
            if fate != Fate::NeverStarted {
                return Ok(fate);
            }
        }
        if known.is_none() && !asked.begun {
            // What was to hold the places of a group, and could not, would fail again.
            let failed = row.filter(|_| choice.as_ref().is_some_and(|choice| choice.gang));
            return Ok(failed.map_or(Fate::NeverStarted, |row| lost(last_words(&row.message))));
        }
        Ok(lost("the node went down, and what it had is gone".to_owned()))
    }
}

fn lost(why: String) -> Fate {
    Fate::Lost(Ending { outcome: Outcome::Lost { why }, lasted: Span(0), new_checkpoint: None })
}

/// A cluster as it is now.
#[derive(Debug)]
pub struct Overview {
    pub version: String,
    /// The head first.
    pub nodes: Vec<Node>,
}

/// What the clusters of a target say about themselves, by their addresses.
pub fn overview(target: &TargetSpec) -> Vec<(String, Result<Overview, PipeError>)> {
    let TargetKind::Ray(spec) = &target.kind else { return Vec::new() };
    let ask = |address: &String| -> Result<Overview, PipeError> {
        let ray = Ray::open(spec, address)?;
        Ok(Overview { version: ray.version()?.ray_version, nodes: ray.nodes()? })
    };
    spec.addresses.iter().map(|address| (address.clone(), ask(address))).collect()
}

/// What every node is like, told by an agent on it.
pub fn inspect(pipe: &mut Pipe, heard: &mut dyn FnMut(&Node, Result<Inspection, PipeError>)) -> Result<(), PipeError> {
    for (cluster, node) in pipe.nodes()? {
        let seen = pipe.at(cluster, &node, |pipe| pipe.task(&["inspect"], &(), PATIENCE));
        heard(&node, seen);
    }
    Ok(())
}
