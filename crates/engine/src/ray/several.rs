//! Several clusters, asked side by side: one that does not answer holds up nobody for long.

use std::collections::HashMap;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant as Clock};

use super::{Ray, RayError};

/// A cluster that takes longer is passed over for now.
const HASTE: Duration = Duration::from_secs(5);
/// One that was silent is not waited for again until after this long.
const GRUDGE: Duration = Duration::from_secs(60);

/// Those that did not answer lately, and when.
#[derive(Debug)]
pub(crate) struct Silent {
    since: HashMap<usize, Clock>,
    haste: Duration,
}

impl Default for Silent {
    fn default() -> Self {
        Self { since: HashMap::new(), haste: HASTE }
    }
}

impl Silent {
    /// The answers in the order of the clusters' numbers. A single cluster is given all the time it wants.
    pub(crate) fn ask<T: Send + 'static>(
        &mut self,
        clusters: &[(usize, Ray)],
        question: impl Fn(&Ray) -> Result<T, RayError> + Clone + Send + 'static,
    ) -> Vec<(usize, Result<T, RayError>)> {
        if let [(index, only)] = clusters {
            return vec![(*index, question(only))];
        }
        let (tell, heard) = channel();
        for (index, ray) in clusters.iter().cloned() {
            let (tell, question) = (tell.clone(), question.clone());
            // One that nobody waits for any more ends by its own limit.
            std::thread::spawn(move || drop(tell.send((index, question(&ray)))));
        }
        drop(tell);
        self.since.retain(|_, since| since.elapsed() < GRUDGE);
        let until = Clock::now() + self.haste;
        let mut answers: HashMap<usize, Result<T, RayError>> = HashMap::new();
        let is_awaited = |silent: &Self, answers: &HashMap<usize, Result<T, RayError>>| {
            clusters.iter().any(|(index, _)| !answers.contains_key(index) && !silent.since.contains_key(index))
        };
        while is_awaited(self, &answers) || answers.is_empty() {
            let left = until.saturating_duration_since(Clock::now());
            let Ok((index, answer)) = heard.recv_timeout(left) else { break };
            self.since.remove(&index);
            answers.insert(index, answer);
        }
        let answer = |(index, _): &(usize, Ray)| {
            let answer = answers.remove(index).unwrap_or_else(|| {
                self.since.entry(*index).or_insert_with(Clock::now);
                Err(RayError::Silent { seconds: self.haste.as_secs() })
            });
            (*index, answer)
        };
        clusters.iter().map(answer).collect()
    }
}

/// As soon as one of them answers; else why not.
pub(crate) fn any(clusters: &[Ray]) -> Result<(), RayError> {
    let (tell, heard) = channel();
    for ray in clusters {
        let (ray, tell) = (ray.clone(), tell.clone());
        std::thread::spawn(move || drop(tell.send(ray.version())));
    }
    drop(tell);
    let mut trouble = None;
    for answer in heard {
        match answer {
            Ok(_) => return Ok(()),
            Err(error) => trouble = Some(error),
        }
    }
    trouble.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use trainyard_core::spec::RaySpec;

    use super::*;

    /// A cluster that never answers holds up the first question for the limit, and the second not at all.
    #[test]
    fn one_that_never_answers_is_passed_over() {
        let spec: RaySpec = serde_json::from_value(serde_json::json!({
            "addresses": [], "token": null, "ca": null, "node": null, "shares": {}, "pip": [], "py_modules": [], "env": {}
        }))
        .expect("a target");
        let open = |port: u16| Ray::open(&spec, &format!("http://127.0.0.1:{port}")).expect("a cluster");
        let clusters = [(0, open(1)), (1, open(2))];
        let shut = Arc::new(Mutex::new(()));
        let question = {
            let shut = Arc::clone(&shut);
            move |ray: &Ray| {
                if ray.address().contains(":1") && !ray.address().contains(":2") {
                    drop(shut.lock());
                }
                Ok(ray.address())
            }
        };
        // Held until the end: whatever returns before has not waited for that cluster.
        let held = shut.lock().expect("a lock");
        let mut silent = Silent { haste: Duration::from_millis(50), ..Silent::default() };
        let answers = silent.ask(&clusters, question.clone());
        assert!(matches!(answers[..], [(0, Err(RayError::Silent { .. })), (1, Ok(_))]), "{answers:?}");
        silent.haste = Duration::from_secs(3600);
        let answers = silent.ask(&clusters, question);
        assert!(matches!(answers[..], [(0, Err(RayError::Silent { .. })), (1, Ok(_))]), "{answers:?}");
        drop(held);
    }
}
