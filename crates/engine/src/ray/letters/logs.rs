//! Logs of programs: brought here as whole files, and read here as if they had been written here.

use std::path::Path;
use std::time::{Duration, Instant as Clock};

use trainyard_agent::depot::{AttemptFolder, Depot};
use trainyard_agent::pipe::message::{Answer, ReadLog};
use trainyard_agent::tail::{self, From, Wanted};

use super::{LATER, Letters, Route, framed};
use crate::ray::RayError;

/// A log that grows is brought as a whole each time, so a long one is looked at less often.
const BYTES_PER_SECOND: u64 = 8 << 20;

impl Letters {
    pub(super) fn logs(&mut self, wanted: &[Wanted], most: u64) -> Result<Vec<u8>, RayError> {
        let mirror = Depot::new(&self.mirror);
        let mut read = Vec::new();
        for wanted in wanted {
            let mut route = self.route(wanted.run)?;
            if route.is_none() {
                // A run of a moment may have begun and ended since the cluster was asked.
                std::thread::sleep(LATER);
                route = self.route(wanted.run)?;
            }
            if let Some(route) = route {
                self.bring(&mirror, &route, wanted)?;
            }
            read.push(tail::read(&mirror, wanted, most));
        }
        let heads = read.iter().map(|one| ReadLog {
            portions: one.portions.iter().map(|portion| (portion.attempt, portion.bytes.len() as u64)).collect(),
            next: one.next,
            is_all: one.is_all,
        });
        let parts: Vec<&[u8]> =
            read.iter().flat_map(|one| &one.portions).map(|portion| portion.bytes.as_slice()).collect();
        framed(&Answer::Logs { read: heads.collect() }, &parts)
    }

    fn bring(&mut self, mirror: &Depot, route: &Route, wanted: &Wanted) -> Result<(), RayError> {
        let first = match (&wanted.from, wanted.only) {
            (_, Some(only)) => only,
            (From::At(position), None) => position.attempt,
            (From::Start(_), None) => 1,
        };
        let mut attempt = first;
        loop {
            let folder = mirror.run(wanted.run).attempt(attempt);
            let there = format!("runs/{}/attempts/{attempt}", wanted.run);
            let wants_times = matches!(&wanted.from, From::Start(start) if start.since.is_some());
            for (name, place) in [("output.log", folder.log()), ("output.idx", folder.log_index())] {
                if name == "output.log" || wants_times {
                    self.bring_file(route, &format!("{there}/{name}"), &place, &folder)?;
                }
            }
            let next = mirror.run(wanted.run).attempt(attempt + 1);
            let claim = format!("runs/{}/attempts/{}/claim.json", wanted.run, attempt + 1);
            if wanted.only.is_some() || !self.bring_file(route, &claim, &next.claim(), &next)? {
                return Ok(());
            }
            attempt += 1;
        }
    }

    fn bring_file(
        &mut self,
        route: &Route,
        there: &str,
        place: &Path,
        folder: &AttemptFolder,
    ) -> Result<bool, RayError> {
        let size = std::fs::metadata(place).map_or(0, |data| data.len());
        let pause = Duration::from_millis(size.saturating_mul(1000) / BYTES_PER_SECOND);
        if let Some(last) = self.brought.get(place) {
            std::thread::sleep(pause.saturating_sub(last.elapsed()).min(self.limit));
        }
        let found = self.cluster(route.cluster)?.file(&route.node, &self.shown(there))?;
        let Some(bytes) = found else {
            drop(std::fs::remove_file(place));
            return Ok(false);
        };
        folder.create().and_then(|()| fs_err::write(place, bytes)).map_err(RayError::Package)?;
        self.brought.insert(place.to_owned(), Clock::now());
        Ok(true)
    }
}
