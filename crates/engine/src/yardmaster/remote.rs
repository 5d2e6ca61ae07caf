//! Runs at sites: what is on its way to them, when they are asked next, and what follows from their answers.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant as Clock;
use trainyard_agent::order::Secrets;
use trainyard_agent::parcel::{Member, Parcel, Tied};
use trainyard_core::spec::TargetSpec;

use super::keep::{Active, Keep};
use crate::site::{News, Reach, Shipment, Task, Worker};

/// Right after something was sent, answers are expected soon.
const SOON: Duration = Duration::from_secs(1);
/// While somebody watches.
const WATCHED: Duration = Duration::from_secs(4);
/// SLURM's manual asks programs not to ask in a loop.
const POLITE: Duration = Duration::from_secs(15);
/// Nothing moved for long.
const LONGEST: Duration = Duration::from_secs(120);

/// Workers and when their sites are asked next.
pub(super) struct Remote {
    reach: Reach,
    news: UnboundedSender<News>,
    sites: HashMap<String, SiteClock>,
    /// The shortest pause between questions, if the environment sets one; for tests.
    pace: Option<Duration>,
}

struct SiteClock {
    worker: Worker,
    target: TargetSpec,
    pause: Duration,
    next: Clock,
    /// A question is with the worker.
    asked: bool,
}

impl Remote {
    pub(super) fn new(reach: Reach, news: UnboundedSender<News>, pace: Option<Duration>) -> Self {
        Self { reach, news, sites: HashMap::new(), pace }
    }

    fn site(&mut self, target: &TargetSpec) -> &mut SiteClock {
        let (reach, news, pace) = (&self.reach, &self.news, self.pace);
        let start = || SiteClock {
            worker: Worker::start(reach.clone(), target.clone(), news.clone()),
            target: target.clone(),
            pause: pace.unwrap_or(SOON),
            next: Clock::now(),
            asked: false,
        };
        let site = self.sites.entry(target.name.clone()).or_insert_with(start);
        // The file was changed: the newest submission knows best.
        if site.target != *target {
            *site = start();
        }
        site
    }

    pub(super) fn tell(&mut self, target: &TargetSpec, task: Task) {
        let pace = self.pace;
        let site = self.site(target);
        if !matches!(task, Task::Observe(_)) {
            site.pause = pace.unwrap_or(SOON);
            site.next = site.next.min(Clock::now() + site.pause);
        }
        site.worker.tell(task);
    }

    /// Asks every site whose time has come about all of its runs.
    pub(super) fn ask(&mut self, keep: &Keep) {
        let now = Clock::now();
        for (name, asked) in keep.asked_of_sites() {
            let Some(target) = keep.target_of(&name) else { continue };
            let site = self.site(&target);
            if !site.asked && site.next <= now {
                site.asked = true;
                site.worker.tell(Task::Observe(asked));
            }
        }
    }

    /// The site has answered: something moved, or not.
    pub(super) fn answered(&mut self, name: &str, moved: bool, watched: bool) {
        let pace = self.pace;
        let Some(site) = self.sites.get_mut(name) else { return };
        site.asked = false;
        site.pause = match (moved, watched) {
            (true, true) => SOON,
            (true, false) => WATCHED,
            (false, true) => (site.pause * 2).min(WATCHED),
            (false, false) if site.pause < POLITE => (site.pause * 2).min(POLITE),
            (false, false) => (site.pause * 5 / 4).min(LONGEST),
        };
        site.pause = pace.unwrap_or(site.pause);
        site.next = Clock::now() + site.pause;
    }

    /// Somebody came in: what they see should be fresh.
    pub(super) fn hurry(&mut self) {
        let soon = Clock::now() + self.pace.unwrap_or(SOON);
        for site in self.sites.values_mut() {
            site.next = site.next.min(soon);
        }
    }

    pub(super) fn next_wake(&self) -> Option<Clock> {
        self.sites.values().filter(|site| !site.asked).map(|site| site.next).min()
    }

    /// Sites without open runs are left alone.
    pub(super) fn dismiss(&mut self, keep: &Keep) {
        let busy = keep.asked_of_sites();
        self.sites.retain(|name, site| site.asked || busy.contains_key(name));
    }
}

/// The runs of a parcel, as they are sent; `None` when none of them is open any more.
pub(super) fn shipment(keep: &Keep, parcel: &str, secrets: Secrets) -> Option<Shipment> {
    let mut members: BTreeMap<u32, Vec<&Active>> = BTreeMap::new();
    let of_parcel = |active: &&Active| active.place.as_ref().is_some_and(|place| place.parcel == parcel);
    for active in keep.runs.values().filter(of_parcel) {
        members.entry(active.place.as_ref().map_or(0, |place| place.group)).or_default().push(active);
    }
    let batch = members.values().flatten().next().map(|active| active.batch.clone())?;
    let plan = batch.site.clone()?;
    let last = members.keys().copied().max().unwrap_or(0);
    let groups = (0..=last).map(|group| group_of(members.remove(&group).unwrap_or_default())).collect();
    let parcel = Parcel {
        id: parcel.to_owned(),
        job: batch.job.clone(),
        source: batch.source.clone(),
        extra: batch.extra.clone(),
        env: batch.env.clone(),
        groups,
        lanes: plan.lanes,
        scheduler: plan.scheduler(&batch.job.name, parcel),
    };
    Some(Shipment { parcel, plan, secrets })
}

fn group_of(mut runs: Vec<&Active>) -> Vec<Member> {
    runs.sort_by_key(|active| active.open.seq);
    runs.into_iter().map(member).collect()
}

/// As it was before this attempt was placed: the site places it.
fn member(active: &Active) -> Member {
    let open = &active.open;
    let mut run = open.run.clone();
    run.state = trainyard_core::run::State::Queued { since: active.sent, not_before: None };
    run.last_attempt = run.last_attempt.saturating_sub(1);
    run.attempts = run.attempts.saturating_sub(1);
    let tie = active.batch.tie.clone().filter(|tie| tie.at_target);
    let tied = tie.map(|tie| Box::new(Tied { job: active.batch.job.clone(), tie }));
    let (name, params) = (open.name.clone(), open.params.clone());
    Member { id: open.id, name, seed: open.seed, params, from: open.from, run, tied }
}
