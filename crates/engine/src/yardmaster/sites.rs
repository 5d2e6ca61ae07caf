//! The yardmaster and its sites: parcels go out, answers come in.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant as Clock;
use trainyard_agent::disk::now;
use trainyard_agent::order::Secrets;
use trainyard_core::id::RunId;
use trainyard_core::run::{Effect, Event, State};
use trainyard_core::spec::TargetSpec;

use super::mirror::Follow;
use super::serve::{AGAIN, Yardmaster};
use super::{effects, remote};
use crate::ledger::Change;
use crate::site::{self, Asked, Shipment, WANTS_SECRETS};
use crate::target::SubmitError;

/// A parcel that could not be sent is tried again after this long at the latest.
const LONGEST: Duration = Duration::from_secs(60);

/// A parcel that is on its way, or could not be sent.
pub(super) struct Unsent {
    pub(super) next: Clock,
    pause: Duration,
}

/// A parcel whose secrets were looked up.
pub(super) type Revealed = (Shipment, Result<Secrets, String>);

impl Yardmaster {
    /// Secrets are looked up beside the loop: asking for one may take a while.
    pub(super) fn ship(&mut self, parcel: String) {
        let Some(shipment) = remote::shipment(&self.keep, &parcel, Secrets::default()) else {
            self.unsent.remove(&parcel);
            return;
        };
        let lacking = self.keep.runs_of(&parcel).into_iter().filter(|run| self.keep.lacks_secrets(*run));
        let lacking: Vec<RunId> = lacking.collect();
        let lacks_secrets = !lacking.is_empty();
        lacking.into_iter().for_each(|run| self.keep.note(run, Some(WANTS_SECRETS.to_owned())));
        let unsent = self.unsent.entry(parcel).or_insert(Unsent { next: Clock::now(), pause: AGAIN });
        if lacks_secrets {
            unsent.next = Clock::now() + AGAIN;
            return;
        }
        // Until it is answered, nobody else tries.
        unsent.next = Clock::now() + Duration::from_secs(3600);
        let project = self.keep.project_of(&shipment.parcel.id);
        if !shipment.parcel.jobs().any(effects::has_secrets) {
            self.remote.tell(&shipment.plan.target.clone(), site::Task::Submit(Box::new(shipment)));
            return;
        }
        let (known, revealed) = (self.secrets.clone(), self.revealed.clone());
        tokio::task::spawn_local(async move {
            let secrets = effects::reveal_for(&shipment.parcel, &known, &project).await;
            drop(revealed.send((shipment, secrets)));
        });
    }

    pub(super) fn send_revealed(&mut self, mut shipment: Shipment, secrets: Result<Secrets, String>) {
        match secrets {
            Ok(secrets) => {
                shipment.secrets = secrets;
                self.remote.tell(&shipment.plan.target.clone(), site::Task::Submit(Box::new(shipment)));
            }
            Err(why) => self.shipped(&shipment.parcel.id, Err(SubmitError::Refused(why))),
        }
    }

    fn shipped(&mut self, parcel: &str, outcome: Result<String, SubmitError>) {
        let runs = self.keep.runs_of(parcel);
        let Some(site) = runs.first().and_then(|run| self.keep.runs.get(run)).map(|active| active.batch.target.clone())
        else {
            self.unsent.remove(parcel);
            return;
        };
        let problem = match outcome {
            Ok(name) => {
                self.unsent.remove(parcel);
                for run in runs {
                    self.keep.accepted(run, &format!("in the site's queue as {name}"), now());
                }
                None
            }
            Err(SubmitError::Refused(why)) => {
                self.unsent.remove(parcel);
                for run in runs {
                    self.refused_at_site(run, &why);
                }
                None
            }
            Err(SubmitError::Unreachable(error)) => Some(self.try_again(parcel, "not submitted yet", &error)),
            Err(SubmitError::Unsure(error)) => Some(self.try_again(parcel, "perhaps not submitted yet", &error)),
        };
        self.keep.changes.push(Change::Site { name: site, at: now(), problem });
    }

    /// A site that answers other questions says nothing of a parcel that it cannot take, so the runs do.
    fn try_again(&mut self, parcel: &str, what: &str, error: &std::io::Error) -> String {
        for run in self.keep.runs_of(parcel) {
            let state = self.keep.runs.get(&run).map(|active| &active.open.run.state);
            if matches!(state, Some(State::Starting { .. })) {
                self.keep.note(run, Some(format!("{what}: {error}")));
            }
        }
        if let Some(unsent) = self.unsent.get_mut(parcel) {
            unsent.pause = (unsent.pause * 2).min(LONGEST);
            unsent.next = Clock::now() + self.settings.pace.unwrap_or(unsent.pause);
        }
        error.to_string()
    }

    /// One that the site has in its queue, and that was only sent again, stays there.
    fn refused_at_site(&mut self, run: RunId, why: &str) {
        let state = self.keep.runs.get(&run).map(|active| &active.open.run.state);
        if matches!(state, Some(State::Waiting { .. })) {
            self.keep.note(run, Some(why.to_owned()));
        } else {
            self.keep.happen(run, &Event::Refused { why: why.to_owned() }, why, now());
        }
    }

    pub(super) fn hear_site(&mut self, news: site::News) {
        let watched = Rc::strong_count(&self.stay) > 1;
        match news {
            site::News::Submitted { parcel, outcome } => self.shipped(&parcel, outcome),
            site::News::Settled { run, attempt, fate } => self.keep.settled(run, attempt, fate, now()),
            site::News::Unanswered { site, at, problem } => {
                self.keep.unsettled(&site);
                self.remote.answered(&site, false, watched);
                self.keep.changes.push(Change::Site { name: site, at, problem: Some(problem) });
            }
            site::News::Seen { site, at, seen } => {
                let (mut moved, mut cancel) = (false, BTreeMap::<bool, Vec<Asked>>::new());
                let mut again = BTreeSet::new();
                for seen in seen {
                    let run = seen.run;
                    let follow = self.keep.seen(seen, now());
                    moved |= !matches!(follow, Follow::Nothing | Follow::Ship);
                    let Some(active) = self.keep.runs.get(&run) else { continue };
                    let Some(plan) = &active.batch.site else { continue };
                    match follow {
                        Follow::Settle { attempt } => {
                            let (target, job) = (plan.target.clone(), Box::new(active.batch.job.clone()));
                            let Some(asked) = active.question().map(Box::new) else { continue };
                            self.remote.tell(&target, site::Task::Settle { asked, attempt, job });
                        }
                        Follow::Cancel { insist } => cancel.entry(insist).or_default().extend(active.question()),
                        Follow::Ship => again.extend(active.place.as_ref().map(|place| place.parcel.clone())),
                        Follow::Nothing | Follow::Moved => {}
                    }
                }
                again.retain(|parcel| !self.unsent.contains_key(parcel));
                again.into_iter().for_each(|parcel| self.ship(parcel));
                if let Some(target) = self.keep.target_of(&site) {
                    for (insist, asked) in cancel {
                        self.remote.tell(&target, site::Task::Cancel { asked, insist });
                    }
                }
                self.remote.answered(&site, moved, watched);
                self.keep.changes.push(Change::Site { name: site, at, problem: None });
            }
        }
    }

    /// One task for all runs of a site that are to stop.
    pub(super) fn stop_at_sites(&mut self, effects: &[(RunId, Effect)]) {
        let mut by_site: BTreeMap<String, (TargetSpec, Vec<Asked>)> = BTreeMap::new();
        for (run, effect) in effects {
            let Effect::Stop { .. } = effect else { continue };
            let Some(active) = self.keep.runs.get(run) else { continue };
            if let (Some(plan), Some(asked)) = (&active.batch.site, active.question()) {
                by_site
                    .entry(plan.target.name.clone())
                    .or_insert_with(|| (plan.target.clone(), Vec::new()))
                    .1
                    .push(asked);
            }
        }
        for (target, asked) in by_site.into_values() {
            self.remote.tell(&target, site::Task::Cancel { asked, insist: false });
        }
    }
}
