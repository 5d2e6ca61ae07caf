//! Which node has what is asked about.

use std::collections::HashSet;

use trainyard_core::id::RunId;
use trainyard_core::plan::ray::Node;

use super::{Letters, RUNS, Route};
use crate::ray::{Ray, RayError};

impl Letters {
    /// The node of the first run that is spoken of; the first cluster's head where none is.
    pub(super) fn route_of(&mut self, text: &str) -> Result<Route, RayError> {
        if let Some(fixed) = &self.fixed {
            return Ok(fixed.clone());
        }
        let is_part = |letter: char| letter.is_ascii_hexdigit() || letter == '-';
        let named = text.split(|letter| !is_part(letter)).find_map(|word| word.parse::<RunId>().ok());
        if let Some(route) = named.map(|run| self.route(run)).transpose()?.flatten() {
            return Ok(route);
        }
        let head = self.cluster(0)?.nodes()?.into_iter().next();
        let head = head.ok_or_else(|| RayError::Refused("the cluster has no node that is alive".to_owned()))?;
        Ok(Route { cluster: 0, node: head.id })
    }

    pub(super) fn route(&mut self, run: RunId) -> Result<Option<Route>, RayError> {
        if let Some(route) = self.routes.get(&run) {
            return Ok(Some(route.clone()));
        }
        let learned = self.learn();
        if self.routes.contains_key(&run) {
            // Whatever is the matter with other clusters.
            return Ok(self.routes.get(&run).cloned());
        }
        if !learned?.contains(&run)
            && let Some(route) = self.seek(run)?
        {
            self.routes.insert(run, route);
        }
        Ok(self.routes.get(&run).cloned())
    }

    /// What the clusters know of jobs; returns the runs of those that no node has yet. One that does not answer is asked
    /// again when it is needed.
    fn learn(&mut self) -> Result<HashSet<RunId>, RayError> {
        let (mut trouble, mut waiting) = (None, HashSet::new());
        let all: Vec<(usize, Ray)> = self.clusters.iter().cloned().enumerate().collect();
        for (cluster, answer) in self.silent.ask(&all, Ray::jobs) {
            match answer {
                Ok(jobs) => {
                    for job in jobs {
                        let runs = job.metadata.get(RUNS).map(String::as_str).unwrap_or_default();
                        for run in runs.split(' ').filter_map(|word| word.parse().ok()) {
                            match &job.node {
                                Some(node) => drop(self.routes.insert(run, Route { cluster, node: node.clone() })),
                                None => drop(waiting.insert(run)),
                            }
                        }
                    }
                }
                Err(error) => trouble = Some(error),
            }
        }
        trouble.map_or(Ok(waiting), Err)
    }

    /// A run that no cluster remembers may lie on a node all the same: a head that was started anew knows no jobs.
    fn seek(&mut self, run: RunId) -> Result<Option<Route>, RayError> {
        let name = self.shown(&format!("runs/{run}/state.json"));
        for (cluster, ray) in self.clusters.iter().enumerate() {
            for node in ray.nodes()? {
                // A node that was not spoken to since shows nothing.
                if ray.file(&node.id, &name).is_ok_and(|found| found.is_some()) {
                    return Ok(Some(Route { cluster, node: node.id }));
                }
            }
        }
        Ok(None)
    }

    /// Every node of every cluster.
    pub(crate) fn everywhere(&self) -> Result<Vec<(usize, Node)>, RayError> {
        let mut all = Vec::new();
        for (cluster, ray) in self.clusters.iter().enumerate() {
            all.extend(ray.nodes()?.into_iter().map(|node| (cluster, node)));
        }
        Ok(all)
    }
}
