//! Which of a target's clusters a parcel goes to, and where that is remembered.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use trainyard_agent::disk::{Durability, read_json, replace_json};
use trainyard_core::id::RunId;
use trainyard_core::plan::ray::{self as plan, JobStatus, Need};
use trainyard_core::spec::{JobSpec, RaySpec};

use super::{RaySite, unsent};
use crate::ray::{Ray, RayError};
use crate::site::{Asked, Shipment, chain};
use crate::target::SubmitError;

/// What is remembered of a parcel before it is sent: where. A cluster that is away then is waited for, not passed over.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Choice {
    pub(super) address: String,
    pub(super) job: JobSpec,
    /// Where its runs were begun, for when the cluster does not say any more.
    #[serde(default)]
    pub(super) begun: BTreeMap<RunId, String>,
    /// All of its runs are one job of Ray's.
    #[serde(default)]
    pub(super) gang: bool,
}

impl RaySite {
    pub(super) fn choice(&self, parcel: &str) -> Option<Choice> {
        read_json(&self.choices.join(format!("{parcel}.json")))
    }

    fn keep(&self, parcel: &str, choice: &Choice) -> std::io::Result<()> {
        fs_err::create_dir_all(&self.choices)?;
        replace_json(&self.choices.join(format!("{parcel}.json")), choice, Durability::Synced)
    }

    /// That a run was begun must not be forgotten before its cluster is.
    pub(super) fn note_begun(&mut self, asked: &Asked, node: &str) -> std::io::Result<()> {
        let parcel = &asked.place.parcel;
        if self.parcels.contains_key(&asked.run) {
            return Ok(());
        }
        let Some(mut choice) = self.choice(parcel) else { return Ok(()) };
        if choice.begun.get(&asked.run).map(String::as_str) != Some(node) {
            choice.begun.insert(asked.run, node.to_owned());
            self.keep(parcel, &choice)?;
        }
        self.parcels.insert(asked.run, parcel.clone());
        Ok(())
    }

    pub(super) fn index(&self, address: &str) -> Option<usize> {
        self.clusters.iter().position(|ray| ray.address() == address)
    }

    /// The cluster of a parcel: the one it was sent to before, else the one with the most room for it.
    /// With it, which others were passed over and why.
    pub(super) fn choose(&mut self, shipment: &Shipment) -> Result<(usize, Vec<String>), SubmitError> {
        let parcel = &shipment.parcel;
        if let Some(choice) = self.choice(&parcel.id) {
            return self.index(&choice.address).map(|index| (index, Vec::new())).ok_or_else(|| {
                SubmitError::Refused(format!(
                    "it was sent to {}, which the target does not name any more",
                    choice.address
                ))
            });
        }
        let (jobs, spec) = (parcel.jobs().cloned().collect::<Vec<_>>(), self.spec.clone());
        let (several, is_gang) = (self.clusters.len() > 1, parcel.is_gang());
        let question = move |ray: &Ray| room(ray, &jobs, &spec, is_gang, several);
        let mut best: Option<(f64, usize)> = None;
        let mut trouble = Vec::new();
        let all: Vec<(usize, Ray)> = self.clusters.iter().cloned().enumerate().collect();
        for (index, answer) in self.silent.ask(&all, question) {
            match answer {
                Ok(room) if best.is_none_or(|(most, _)| room > most) => best = Some((room, index)),
                Ok(_) => {}
                Err(error) => trouble.push((index, error)),
            }
        }
        let Some((_, index)) = best else {
            // One that would take it may be away: that is no refusal.
            let away = trouble.iter().position(|(_, error)| !matches!(error, RayError::Refused(_))).unwrap_or(0);
            return Err(trouble
                .into_iter()
                .nth(away)
                .map_or_else(|| SubmitError::Refused("the target names no cluster".to_owned()), |(_, it)| unsent(it)));
        };
        let address = self.clusters.get(index).map(Ray::address).unwrap_or_default();
        let first = parcel.jobs().next().unwrap_or(&parcel.job).clone();
        let choice = Choice { address, job: first, begun: BTreeMap::new(), gang: is_gang };
        self.keep(&parcel.id, &choice).map_err(SubmitError::Unreachable)?;
        let passed = |(index, error): (usize, RayError)| {
            let address = self.clusters.get(index).map(Ray::address).unwrap_or_default();
            format!("{address} was passed over: {}", chain(&error))
        };
        Ok((index, trouble.into_iter().map(passed).collect()))
    }
}

/// How many such jobs could start now; less than none where many wait already.
fn room(ray: &Ray, jobs: &[JobSpec], spec: &RaySpec, gang: bool, several: bool) -> Result<f64, RayError> {
    let nodes = ray.nodes()?;
    let needs = jobs.iter().map(|job| Need::of(job, spec, &nodes)).collect::<Result<Vec<_>, _>>();
    let needs = needs.map_err(RayError::Refused)?;
    let why = match &needs[..] {
        needs if gang => plan::refuse_together(needs, &nodes),
        needs => needs.first().and_then(|need| plan::refuse(need, &nodes)),
    };
    if let Some(why) = why {
        return Err(RayError::Refused(why));
    }
    if !several {
        return Ok(0.0);
    }
    let usage = ray.usage()?;
    let room = needs.iter().map(|need| plan::room(need, &usage)).fold(f64::INFINITY, f64::min);
    Ok(room - ray.jobs()?.iter().filter(|job| job.status == JobStatus::Pending).count() as f64)
}
